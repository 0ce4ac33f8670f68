//! The output path of a conversion.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use anamnesis::convert::output_name;
use anamnesis::{AnamnesisError, Checkpoint, ConvertTarget, Format, Origin};

use crate::args::STREAM;
use crate::exit::Failure;

/// Whether an output is standard output.
pub(crate) fn is_stream(output: &Path) -> bool {
    output.as_os_str() == STREAM
}

/// Whether an output is an address of a store, which has no folders to create.
pub(crate) fn is_address(output: &Path) -> bool {
    output.to_str().is_some_and(|output| output.contains("://"))
}

/// Whether an output is a single file for any input: standard output, or a path with the extension `.safetensors`.
pub(crate) fn is_file(output: &Path) -> bool {
    is_stream(output) || (extension_of(output) == "safetensors" && !output.is_dir())
}

fn extension_of(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

/// The target implied by the extension of an output.
pub(crate) fn target_of(output: &Path) -> Option<ConvertTarget> {
    let extension = extension_of(output);
    ConvertTarget::all().find(|target| !target.is_quantized() && target.extension() == extension)
}

/// Refuses an extension that contradicts the target.
pub(crate) fn check_extension(output: &Path, target: ConvertTarget) -> Result<(), Failure> {
    let extension = extension_of(output);
    let named = Format::all().find(|format| format.extensions().contains(&extension.as_str()));
    match named.filter(|format| !format.extensions().contains(&target.extension()) && !output.is_dir()) {
        None => Ok(()),
        Some(_) => {
            let written = target.extension();
            Err(Failure::Usage(format!("-o ends in .{extension}, but the output is {written}; name it .{written}")))
        }
    }
}

/// The file that a default output is named after: next to the input, with the extension `.safetensors`. A model of a
/// store is written to the current directory.
pub(crate) fn named_after(checkpoint: &Checkpoint) -> Result<PathBuf, Failure> {
    let first = checkpoint.files().first().filter(|_| checkpoint.format().parts_are_one_file());
    default_file(checkpoint.origin(), first.map(PathBuf::as_path))
}

/// `part` is the first file of a split model.
fn default_file(origin: &Origin, part: Option<&Path>) -> Result<PathBuf, Failure> {
    let with_extension = |mut name: OsString| {
        name.push(".safetensors");
        name
    };
    match (origin, part) {
        (Origin::File(path), _) => Ok(path.with_extension("safetensors")),
        (Origin::Directory(_), Some(part)) => {
            let whole = Origin::File(part.to_path_buf()).model_name().unwrap_or_default();
            Ok(part.with_file_name(with_extension(whole)))
        }
        (origin, _) => next_to(origin, with_extension),
    }
}

/// The default output directory of a checkpoint: its name without the quantisation and with `suffix`.
pub(crate) fn directory(checkpoint: &Checkpoint, suffix: &str) -> Result<PathBuf, Failure> {
    directory_of(checkpoint.origin(), suffix)
}

/// The same of an input.
pub(crate) fn directory_of(origin: &Origin, suffix: &str) -> Result<PathBuf, Failure> {
    next_to(origin, |name| output_name(&name, suffix))
}

/// A path next to a directory; in the current directory for a model of a store.
fn next_to(origin: &Origin, named: impl Fn(OsString) -> OsString) -> Result<PathBuf, Failure> {
    let Some(name) = origin.model_name().or_else(|| matches!(origin, Origin::Directory(_)).then(|| "model".into()))
    else {
        return Err(Failure::Usage("-o is needed: standard input has no name to call the output by".to_owned()));
    };
    let folder = match origin {
        // `.` and `..` have a parent only after resolution.
        Origin::Directory(path) if path.file_name().is_none() => {
            std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()).parent().map(Path::to_path_buf)
        }
        Origin::Directory(path) => path.parent().map(Path::to_path_buf),
        _ => None,
    };
    Ok(folder.unwrap_or_default().join(named(name)))
}

/// Refuses early what would fail at the end: an existing folder, or a missing parent.
pub(crate) fn check(output: &Path) -> Result<(), Failure> {
    if output.as_os_str().as_encoded_bytes().last().is_some_and(|&byte| std::path::is_separator(char::from(byte))) {
        let text = format!("{}: is a folder, a file name is needed", output.display());
        return refuse(ErrorKind::IsADirectory, text, "add one to -o");
    }
    check_parent(output)
}

/// The same for an output directory.
pub(crate) fn check_directory(output: &Path) -> Result<(), Failure> {
    if metadata(output)?.is_some_and(|found| !found.is_dir()) {
        let text = format!("{}: is a file, the output of a checkpoint directory is a folder", output.display());
        return refuse(ErrorKind::NotADirectory, text, "choose another name with -o");
    }
    check_parent(output)
}

fn check_parent(output: &Path) -> Result<(), Failure> {
    match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !is_address(output) && metadata(folder)?.is_none() => {
            let text = format!("{}: there is no such folder", folder.display());
            refuse(ErrorKind::NotFound, text, "create it or choose another place with -o")
        }
        _ => Ok(()),
    }
}

/// The metadata of a path; `None` if there is no such file or folder.
fn metadata(path: &Path) -> Result<Option<Metadata>, Failure> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => {
            let text = format!("{}: {error}", path.display());
            Err(AnamnesisError::Io(Error::new(error.kind(), text)).into())
        }
    }
}

fn refuse(kind: ErrorKind, text: String, advice: &str) -> Result<(), Failure> {
    let error = AnamnesisError::Io(Error::new(kind, text));
    Err(Failure::Refused { error, advice: Some(advice.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_its_input() {
        let ollama = |spec: &str| Origin::Ollama { spec: spec.to_owned() };
        let file = |path: &str| Origin::File(path.into());
        let cases = [
            (file("dir/m.Q4_K_M.gguf"), None, "dir/m.Q4_K_M.safetensors"),
            (file("out-of-time.gguf"), None, "out-of-time.safetensors"),
            // A single part of a split model is not merged.
            (file("m-00001-of-00003.gguf"), None, "m-00001-of-00003.safetensors"),
            (Origin::Directory("dir".into()), Some("dir/m-00001-of-00003.gguf"), "dir/m.safetensors"),
            (Origin::Directory("a/Llama-3.1-8B".into()), None, "a/Llama-3.1-8B.safetensors"),
            (ollama("ollama:llama3.2:latest"), None, "llama3.2.safetensors"),
            (ollama("ollama:user/llama3.2:1b-q4_0"), Some("/store/blobs/sha256-0"), "llama3.2-1b-q4_0.safetensors"),
        ];
        for (origin, part, output) in cases {
            assert_eq!(default_file(&origin, part.map(Path::new)).unwrap(), Path::new(output), "{origin:?}");
        }
        assert!(matches!(default_file(&Origin::Reader, None), Err(Failure::Usage(_))));
    }

    #[test]
    fn invalid_outputs_are_refused_early() {
        let text = |path: &str| check(Path::new(path)).unwrap_err().message();
        assert_eq!(text("out/"), "out/: is a folder, a file name is needed; add one to -o");
        assert!(text("no/such/out").starts_with("no/such: there is no such folder"));
        assert!(check(Path::new("out")).is_ok() && check(Path::new("./out")).is_ok());
    }

    #[test]
    fn a_directory_keeps_all_of_its_name_but_the_quantisation() {
        let hub = |spec: &str| Origin::HubCache { spec: spec.to_owned() };
        let cases = [
            (Origin::Directory("models/Llama-3.1-8B-FP8".into()), "models/Llama-3.1-8B-bf16"),
            (Origin::Directory("Qwen2.5-AWQ/".into()), "Qwen2.5-bf16"),
            (hub("hf:org/name-gptq@main"), "name-bf16"),
            (hub("hf:gpt2"), "gpt2-bf16"),
            (Origin::Directory("/".into()), "model-bf16"),
        ];
        let named = |origin: &Origin| next_to(origin, |name| output_name(&name, "bf16")).unwrap();
        for (origin, output) in cases {
            assert_eq!(named(&origin), Path::new(output), "{origin:?}");
        }
        let here = named(&Origin::Directory(".".into()));
        assert!(here.is_absolute() && here.to_string_lossy().ends_with("cli-bf16"), "{}", here.display());
    }

    #[test]
    fn the_extension_of_an_output_implies_its_target() {
        assert_eq!(target_of(Path::new("a.GGUF")), Some(ConvertTarget::Gguf));
        assert_eq!(target_of(Path::new("a.bin")), None);
        assert!(is_file(Path::new("-")) && is_file(Path::new("a/b.safetensors")) && !is_file(Path::new("a/b")));
        assert!(check_extension(Path::new("a.safetensors"), ConvertTarget::BnbNf4).is_ok());
        assert!(check_extension(Path::new("a.any"), ConvertTarget::Gguf).is_ok());
        assert!(matches!(check_extension(Path::new("a.npz"), ConvertTarget::Gguf), Err(Failure::Usage(_))));
    }
}
