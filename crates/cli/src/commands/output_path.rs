//! Where a conversion is written.

use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use anamnesis::{AnamnesisError, TargetDtype};

use crate::exit::Failure;

/// Endings that name a quantisation. The first that fits is taken off, so longer ones stand before their own tails.
const QUANTISED_ENDINGS: [&str; 22] = [
    "-GPTQ-Int4",
    "-GPTQ-Int8",
    "-gptq-int4",
    "-gptq-int8",
    "-gptq4",
    "-gptq8",
    "-GPTQ",
    "-gptq",
    "_gptq",
    "-AWQ",
    "-awq",
    "_awq",
    "-bnb-4bit",
    "-bnb-int8",
    "-bnb",
    "_bnb",
    "-4bit",
    "-int4",
    "-int8",
    "-fp8",
    "_fp8",
    "-FP8",
];

/// Beside the input, under its name without the quantisation and with the new type.
pub(super) fn beside(input: &Path, target: TargetDtype) -> PathBuf {
    let stem = input.file_stem().unwrap_or_default();
    let mut name = match stem.to_str() {
        Some(text) => OsString::from(QUANTISED_ENDINGS.iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text)),
        None => stem.to_os_string(),
    };
    name.push(format!("-{}.safetensors", target.to_string().to_ascii_lowercase()));
    input.with_file_name(name)
}

/// Refuses early what would fail after all the work: a folder's name, and a folder that is not there.
pub(super) fn check(output: &Path) -> Result<(), Failure> {
    let refuse = |kind, text: String, advice: &str| {
        let error = AnamnesisError::Io(Error::new(kind, text));
        Err(Failure::Refused { error, advice: Some(advice.to_owned()) })
    };
    if output.as_os_str().as_encoded_bytes().last().is_some_and(|&byte| std::path::is_separator(char::from(byte))) {
        let text = format!("{}: is a folder, a file name is needed", output.display());
        return refuse(ErrorKind::IsADirectory, text, "add one to -o");
    }
    match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            let text = format!("{}: there is no such folder", folder.display());
            refuse(ErrorKind::NotFound, text, "create it or choose another place with -o")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
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
    fn outputs_that_cannot_be_files_are_refused_early() {
        let text = |path: &str| check(Path::new(path)).unwrap_err().message();
        assert_eq!(text("out/"), "out/: is a folder, a file name is needed; add one to -o");
        assert!(text("no/such/out").starts_with("no/such: there is no such folder"));
        assert!(check(Path::new("out")).is_ok() && check(Path::new("./out")).is_ok());
    }
}
