//! Opening the input of a command, with advice on errors.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::{Component, Path};
use std::time::Instant;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Checkpoint, Components, FileKind, Format, Origin, TensorRole};

use super::writing::tensors::relative;
use super::{counted, remedy, shown};
use crate::args::{InputArgs, Limit};
use crate::exit::Failure;
use crate::interrupt;
use crate::network_errors;
use crate::suggest::{closest_file, did_you_mean};
use crate::ui::Printer;

/// Opens the input: a file, or a whole checkpoint.
pub(super) fn checkpoint(input: &InputArgs, printer: &Printer) -> Result<Checkpoint, Failure> {
    if input.only_this_file
        && (input.is_stream() || !matches!(Origin::of(&input.path), Origin::File(_) | Origin::Remote { .. }))
    {
        return Err(Failure::Usage(format!("--only-this-file needs a file, {} is not one", shown(&input.path))));
    }
    let started = Instant::now();
    let opened = match input.is_stream() {
        true => spool_stdin().and_then(|file| Checkpoint::from_positioned(file, &input.options())),
        false if input.only_this_file => Checkpoint::open_file_with(&input.path, &input.options()),
        false => Checkpoint::open_with(&input.path, &input.options()),
    };
    let checkpoint = opened.map_err(|error| advise_on_input(error, input))?;
    refuse_inapplicable(input, checkpoint.format())?;
    print_details(checkpoint, started, printer)
}

/// Refuses options that do not apply to the format.
fn refuse_inapplicable(input: &InputArgs, format: Format) -> Result<(), Failure> {
    let is_flat = matches!(format, Format::Safetensors | Format::Gguf);
    let (path, name) = (shown(&input.path), format.name());
    let wrong = if is_flat && input.select.is_some() {
        format!("--select takes a part of a nested PyTorch file, and {path} is {name}; --include chooses tensors")
    } else if is_flat && !input.npy_dtype.is_empty() {
        format!("--npy-dtype is for NumPy files, and {path} is {name}")
    } else {
        return Ok(());
    };
    Err(Failure::Usage(wrong))
}

/// Copies standard input to an unnamed file, because tensors need random access.
pub(super) fn spool_stdin() -> anamnesis::Result<File> {
    let named = |error: Error| AnamnesisError::Io(Error::new(error.kind(), format!("standard input: {error}")));
    let mut file = tempfile::tempfile()?;
    interrupt::in_pipe(|| std::io::copy(&mut std::io::stdin().lock(), &mut file)).map_err(named)?;
    Ok(file)
}

/// Prints details: what was found, and the scheme of every weight.
fn print_details(checkpoint: Checkpoint, started: Instant, printer: &Printer) -> Result<Checkpoint, Failure> {
    if printer.is_verbose() {
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        let (files, tensors) = (checkpoint.file_count(), checkpoint.tensor_count());
        let format = checkpoint.format().name();
        let found = format!("{} of {format}, {}", counted(files.max(1), "file"), counted(tensors, "tensor"));
        printer.detail(format_args!("read the headers of {found} in {milliseconds:.1} ms"));
        for line in checkpoint.evidence() {
            printer.detail(format_args!("config: {}", printable(&line, MAX_DETAIL_CHARS)));
        }
        for weight in checkpoint.weights() {
            let parts: Vec<_> = weight.parts.iter().map(|part| relative(part, &weight.name)).collect();
            let from = match weight.parts.as_slice() {
                [part] if *part == weight.name => String::new(),
                _ => format!(", from {}", parts.join(" + ")),
            };
            printer.detail(printable(&format!("{}: {}{from}", weight.name, weight.scheme), MAX_DETAIL_CHARS));
        }
        let plain = checkpoint.tensors().iter().filter(|tensor| tensor.role == TensorRole::Passthrough).count();
        printer.detail(format_args!("{} claimed by no scheme: plain data", counted(plain, "tensor")));
    }
    Ok(checkpoint)
}

/// Maximum characters of a detail.
const MAX_DETAIL_CHARS: usize = 4096;

/// Adds advice to the error of opening an input or its configuration.
fn advise_on_input(error: AnamnesisError, input: &InputArgs) -> Failure {
    let config = input.config.as_ref().filter(|config| input.path.exists() && !config.exists());
    match (&error, config) {
        (AnamnesisError::Io(cause), Some(config)) if cause.kind() == ErrorKind::NotFound => {
            let advice = suggestions(config);
            Failure::Refused { error, advice }
        }
        _ => advise(error, &input.path),
    }
}

/// Adds advice to the error of opening an input.
pub(super) fn advise(error: AnamnesisError, path: &Path) -> Failure {
    let advice = match &error {
        error if network_errors::is_network(error) => network_errors::advice(error),
        AnamnesisError::Io(cause) => match (cause.kind(), path.exists()) {
            // Errors of a store contain advice already.
            (ErrorKind::NotFound, false) if Origin::of(path).is_store() => None,
            (ErrorKind::NotFound, false) => suggestions(path),
            (ErrorKind::NotFound, true) => {
                Some("download the rest of the checkpoint; --only-this-file reads one file alone".to_owned())
            }
            (ErrorKind::PermissionDenied, _) => Some("it is not readable, ls -l shows its owner".to_owned()),
            _ => None,
        },
        AnamnesisError::DisallowedGlobal { .. } => Some(
            "the file holds Python objects, not only tensors: where you trust it, load it in Python and save its state_dict(); \
             amn scan lists what it refers to"
                .to_owned(),
        ),
        AnamnesisError::NoWeights { .. } => match Components::find(path) {
            Ok(Some(found)) => Some(format!("it has several models: {}", component_names(&found))),
            _ => Some("name a directory with .safetensors or .gguf files".to_owned()),
        },
        AnamnesisError::TensorNotRead { remedy, .. } => remedy::advice(remedy),
        AnamnesisError::NotAModel { kind, .. } => Some(advice_for_kind(*kind, path)),
        AnamnesisError::LimitExceeded { limit, .. } if Limit::name_of(limit).is_some() => {
            Limit::name_of(limit).map(|name| format!("--limit {name} allows no more"))
        }
        error if path.is_file() => advice_on_unrecognised(path, error),
        _ => None,
    };
    Failure::Refused { error, advice }
}

/// Advice on a file that is not a model.
fn advice_for_kind(kind: FileKind, path: &Path) -> String {
    match kind {
        FileKind::Empty => "download or copy it again".to_owned(),
        FileKind::GitLfsPointer => "git lfs pull downloads it".to_owned(),
        FileKind::Html | FileKind::Xml => "download it again".to_owned(),
        FileKind::Json | FileKind::SentencePiece => "name the model's folder, or the file of its weights".to_owned(),
        FileKind::Pickle => "amn scan lists what it refers to".to_owned(),
        FileKind::TrainingState => "--all reads its tensors anyway".to_owned(),
        FileKind::OtherFormat(name) => match Format::all().find(|format| format.name() == name) {
            Some(format) => format!("rename it to end in .{}", format.extensions().first().unwrap_or(&"")),
            None => LISTED.to_owned(),
        },
        FileKind::Text if path.is_file() => format!("{} does not look like a safetensors file, {LISTED}", shown(path)),
        kind if kind.is_packed() => "unpack it first".to_owned(),
        _ => LISTED.to_owned(),
    }
}

/// Where to find the supported formats.
const LISTED: &str = "amn formats lists what is read";

/// Advice on a file that was opened as safetensors only because that format has no magic.
fn advice_on_unrecognised(path: &Path, error: &AnamnesisError) -> Option<String> {
    let advice_on_unrecognised = match error {
        AnamnesisError::LimitExceeded { limit: "MAX_SAFETENSORS_HEADER_BYTES", .. } => {
            Some(format!("{} does not look like a safetensors file", shown(path)))
        }
        // A file that starts like a header or an index is one, and malformed.
        AnamnesisError::Parse { .. } if !begins_as_json(path) => None,
        _ => return None,
    };
    let listed = (!has_known_extension(path)).then(|| LISTED.to_owned());
    let advice: Vec<_> = advice_on_unrecognised.into_iter().chain(listed).collect();
    (!advice.is_empty()).then(|| advice.join(", "))
}

/// Whether a file starts with JSON, like an index, or with a length and JSON, like a safetensors file.
fn begins_as_json(path: &Path) -> bool {
    let mut head = [0; 9];
    let read = File::open(path).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
    let head = head.get(..read).unwrap_or_default();
    head.trim_ascii_start().first() == Some(&b'{') || head.get(8) == Some(&b'{')
}

fn has_known_extension(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    Format::all().any(|format| format.extensions().contains(&ending.as_str()))
}

/// Suggestions for a path that does not exist: a file with a similar name, or a model in the cache.
fn suggestions(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Some(match reads_like_a_model(path) {
            true => format!("a model of the local Hugging Face cache is written hf:{}", shown(path)),
            false => format!("there is no folder {}", shown(folder)),
        });
    };
    let names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let typed = path.file_name()?.to_str()?;
    let near = closest_file(typed, names.iter().map(String::as_str), SUGGESTIONS);
    let near: Vec<_> = near.iter().map(|name| shown(&path.with_file_name(name))).collect();
    did_you_mean(&near.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether a path looks like the name of a model: organisation and name.
fn reads_like_a_model(path: &Path) -> bool {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_))).count();
    names == 2 && path.components().count() == 2 && !has_known_extension(path)
}

/// Maximum number of suggested files.
const SUGGESTIONS: usize = 3;

/// The folders with models, for messages.
pub(super) fn component_names(components: &Components) -> String {
    let names: Vec<_> = components.models().map(|component| shown(&component.path)).collect();
    names.join(", ")
}
