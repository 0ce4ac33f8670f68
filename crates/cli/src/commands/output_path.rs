//! Where a conversion is written.

use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use anamnesis::convert::derive_output_path_for_dtype;
use anamnesis::{AnamnesisError, ConvertTarget, TargetDtype};

use crate::exit::Failure;

/// Beside the input, under its name without the quantisation and with the new type.
pub(super) fn beside(input: &Path, target: TargetDtype) -> PathBuf {
    derive_output_path_for_dtype(input, ConvertTarget::Safetensors, target.dtype())
}

/// The output of a file whose format is another than the output's: beside it, under its own name. A model of the local
/// Ollama store is written here: the store is not the user's to put files into.
pub(super) fn same_name(input: &Path, file: &Path) -> PathBuf {
    if let Some(spec) = input.to_str().and_then(|text| text.strip_prefix("ollama:")) {
        let model = spec.rsplit('/').next().unwrap_or(spec);
        let name = match model.split_once(':') {
            None | Some((_, "latest")) => model.split(':').next().unwrap_or(model).to_owned(),
            Some((model, tag)) => format!("{model}-{tag}"),
        };
        return PathBuf::from(format!("{name}.safetensors"));
    }
    // `model-00001-of-00003` is the first part of `model`.
    let stem = file.file_stem().unwrap_or_default();
    let whole = stem.to_str().and_then(without_part);
    let mut name = whole.map_or_else(|| stem.to_os_string(), OsString::from);
    name.push(".safetensors");
    file.with_file_name(name)
}

fn without_part(stem: &str) -> Option<&str> {
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (model, number) = rest.rsplit_once('-')?;
    (is_number(count) && is_number(number) && !model.is_empty()).then_some(model)
}

/// The output of a whole checkpoint: beside the directory it is in; for a model of the local cache, here.
pub(super) fn named_beside(input: &Path, directory: &Path, named: impl Fn(&OsStr) -> OsString) -> PathBuf {
    if let Some(spec) = input.to_str().and_then(|text| text.strip_prefix("hf:")) {
        let model = spec.split('@').next().unwrap_or(spec);
        return PathBuf::from(named(model.rsplit('/').next().unwrap_or(model).as_ref()));
    }
    // `.` and `..` have a name only where they lead.
    let real = match directory.file_name() {
        Some(_) => directory.to_path_buf(),
        None => std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf()),
    };
    // A directory's name has no ending: `Llama-3.1-8B` is all of it.
    let name = named(real.file_name().unwrap_or("model".as_ref()));
    real.parent().unwrap_or(Path::new("")).join(name)
}

/// Refuses early what would fail after all the work: a folder's name, and a folder that is not there.
pub(super) fn check(output: &Path) -> Result<(), Failure> {
    if output.as_os_str().as_encoded_bytes().last().is_some_and(|&byte| std::path::is_separator(char::from(byte))) {
        let text = format!("{}: is a folder, a file name is needed", output.display());
        return refuse(ErrorKind::IsADirectory, text, "add one to -o");
    }
    check_parent(output)
}

/// The same for the output of a whole checkpoint, which is a folder.
pub(super) fn check_directory(output: &Path) -> Result<(), Failure> {
    if output.exists() && !output.is_dir() {
        let text = format!("{}: is a file, the output of a checkpoint directory is a folder", output.display());
        return refuse(ErrorKind::NotADirectory, text, "choose another name with -o");
    }
    check_parent(output)
}

fn check_parent(output: &Path) -> Result<(), Failure> {
    match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            let text = format!("{}: there is no such folder", folder.display());
            refuse(ErrorKind::NotFound, text, "create it or choose another place with -o")
        }
        _ => Ok(()),
    }
}

fn refuse(kind: ErrorKind, text: String, advice: &str) -> Result<(), Failure> {
    let error = AnamnesisError::Io(Error::new(kind, text));
    Err(Failure::Refused { error, advice: Some(advice.to_owned()) })
}

#[cfg(test)]
mod tests {
    use anamnesis::convert::output_name;

    use super::*;

    #[test]
    fn the_name_tells_the_new_type_and_not_the_old_one() {
        let cases = [
            ("dir/model.safetensors", "dir/model-bf16.safetensors"),
            ("model-fp8.safetensors", "model-bf16.safetensors"),
            ("Llama-3.1-8B-GPTQ-Int4.safetensors", "Llama-3.1-8B-bf16.safetensors"),
            ("a-gptq-int8.bin", "a-bf16.safetensors"),
            ("a-int4-fp8.safetensors", "a-int4-bf16.safetensors"),
            ("a-Fp8.safetensors", "a-Fp8-bf16.safetensors"),
            ("model", "model-bf16.safetensors"),
        ];
        for (input, output) in cases {
            assert_eq!(beside(Path::new(input), TargetDtype::BF16), Path::new(output), "{input}");
        }
        assert_eq!(beside(Path::new("/m_fp8.safetensors"), TargetDtype::F32), Path::new("/m-f32.safetensors"));
    }

    #[test]
    fn another_format_keeps_the_name() {
        let blob = "/store/blobs/sha256-0123";
        let cases = [
            ("dir/m.Q4_K_M.gguf", "dir/m.Q4_K_M.gguf", "dir/m.Q4_K_M.safetensors"),
            ("dir", "dir/only.gguf", "dir/only.safetensors"),
            ("dir", "dir/m-00001-of-00003.gguf", "dir/m.safetensors"),
            ("-00001-of-00003.gguf", "-00001-of-00003.gguf", "-00001-of-00003.safetensors"),
            ("out-of-time.gguf", "out-of-time.gguf", "out-of-time.safetensors"),
            ("ollama:llama3.2", blob, "llama3.2.safetensors"),
            ("ollama:llama3.2:latest", blob, "llama3.2.safetensors"),
            ("ollama:user/llama3.2:1b-q4_0", blob, "llama3.2-1b-q4_0.safetensors"),
            ("ollama:localhost:5000/a/b:c", blob, "b-c.safetensors"),
        ];
        for (input, file, output) in cases {
            assert_eq!(same_name(Path::new(input), Path::new(file)), Path::new(output), "{input}");
        }
    }

    #[test]
    fn outputs_that_cannot_be_files_are_refused_early() {
        let text = |path: &str| check(Path::new(path)).unwrap_err().message();
        assert_eq!(text("out/"), "out/: is a folder, a file name is needed; add one to -o");
        assert!(text("no/such/out").starts_with("no/such: there is no such folder"));
        assert!(check(Path::new("out")).is_ok() && check(Path::new("./out")).is_ok());
    }

    #[test]
    fn a_directory_keeps_all_of_its_name_but_the_quantisation() {
        let cases = [
            ("models/Llama-3.1-8B-FP8", "models/Llama-3.1-8B-FP8", "models/Llama-3.1-8B-bf16"),
            ("Qwen2.5-AWQ/", "Qwen2.5-AWQ/", "Qwen2.5-bf16"),
            ("m/model.safetensors.index.json", "m", "m-bf16"),
            ("hf:org/name-gptq@main", "/cache/snapshots/0123", "name-bf16"),
            ("hf:gpt2", "/cache/snapshots/0123", "gpt2-bf16"),
            ("/", "/", "model-bf16"),
        ];
        for (input, directory, output) in cases {
            let found = named_beside(Path::new(input), Path::new(directory), |name| output_name(name, "bf16"));
            assert_eq!(found, Path::new(output), "{input}");
        }
        let here = named_beside(Path::new("."), Path::new("."), |name| output_name(name, "f32"));
        assert!(here.is_absolute() && here.to_string_lossy().ends_with("cli-f32"), "{}", here.display());
    }
}
