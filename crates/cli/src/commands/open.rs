//! Opening the input of a command, and what to do where that fails.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Checkpoint, TensorRole};

use super::{counted, shown};
use crate::args::InputArgs;
use crate::close::{closest_file, did_you_mean};
use crate::exit::Failure;
use crate::ui::Printer;

/// Opens what the user names: a file, or a whole checkpoint.
pub(super) fn checkpoint(input: &InputArgs, printer: &Printer) -> Result<Checkpoint, Failure> {
    let started = Instant::now();
    let opened = Checkpoint::open_with(&input.path, &input.options());
    told(opened.map_err(|error| advise(error, &input.path))?, started, printer)
}

/// Opens one file by itself, even where it is one shard of a set.
pub(super) fn file(input: &InputArgs, printer: &Printer) -> Result<Checkpoint, Failure> {
    let started = Instant::now();
    let opened = Checkpoint::open_file_with(&input.path, &input.options());
    told(opened.map_err(|error| advise(error, &input.path))?, started, printer)
}

/// Tells those who ask what was found, and which scheme claims which weight.
fn told(checkpoint: Checkpoint, started: Instant, printer: &Printer) -> Result<Checkpoint, Failure> {
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
            let text = format!("{}: {}, from {}", weight.name, weight.scheme, weight.parts.join(" + "));
            printer.detail(printable(&text, MAX_DETAIL_CHARS));
        }
        let plain = checkpoint.tensors().iter().filter(|tensor| tensor.role == TensorRole::Passthrough).count();
        printer.detail(format_args!("{} claimed by no scheme: plain data", counted(plain, "tensor")));
    }
    Ok(checkpoint)
}

/// Longest line of details, in characters.
const MAX_DETAIL_CHARS: usize = 4096;

/// Adds what the user can do about an input that cannot be opened.
fn advise(error: AnamnesisError, path: &Path) -> Failure {
    let is_there = path.exists();
    let advice = match &error {
        // Files of other kinds begin with something that reads as an enormous header.
        AnamnesisError::LimitExceeded { limit: "MAX_SAFETENSORS_HEADER_BYTES", .. } if path.is_file() => {
            format!("{} does not look like a safetensors file", path.display())
        }
        // The input is there and one of its files is not.
        AnamnesisError::Io(cause) if cause.kind() == ErrorKind::NotFound && is_there => {
            if cause.to_string().contains("holds no safetensors file") {
                "name a directory with .safetensors or .gguf files".to_owned()
            } else {
                "download the rest of the checkpoint; amn parse FILE looks into one file alone".to_owned()
            }
        }
        AnamnesisError::Io(cause) if cause.kind() == ErrorKind::NotFound => match meant(path) {
            Some(advice) => advice,
            None => return error.into(),
        },
        AnamnesisError::Io(cause) if cause.kind() == ErrorKind::PermissionDenied && is_there => {
            "the file is there, reading it is not allowed: ls -l tells to whom it is".to_owned()
        }
        _ => return error.into(),
    };
    Failure::Refused { error, advice: Some(advice) }
}

/// What may have been meant by a path that leads nowhere: a file of a close name beside it, or a model in a cache.
fn meant(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else {
        let text = path.to_str().filter(|text| !text.starts_with(['/', '.', '~']) && !text.contains('\\'))?;
        let is_model = !text.contains(':') && text.split('/').filter(|part| !part.is_empty()).count() == 2;
        return is_model.then(|| format!("a model of the local Hugging Face cache is written hf:{}", shown(path)));
    };
    let names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let typed = path.file_name()?.to_str()?;
    let near = closest_file(typed, names.iter().map(String::as_str), SUGGESTIONS);
    let near: Vec<_> = near.iter().map(|name| shown(&path.with_file_name(name))).collect();
    did_you_mean(&near.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Files that are suggested in place of one that is not there.
const SUGGESTIONS: usize = 3;
