//! Default names of outputs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::ConvertTarget;
use crate::catalog::Dtype;

/// Name suffixes that denote a quantisation. The first match is removed, so a suffix comes before its own suffixes.
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

/// The default output path: next to the input, under its name without the quantisation suffix and with
/// that of the target.
///
/// ```
/// use std::path::Path;
/// use anamnesis::convert::{ConvertTarget, derive_output_path};
/// let output = derive_output_path(Path::new("models/llama-fp8.safetensors"), ConvertTarget::Gguf);
/// assert_eq!(output, Path::new("models/llama-gguf.gguf"));
/// ```
#[must_use]
pub fn derive_output_path(input: &Path, target: ConvertTarget) -> PathBuf {
    with_suffix(input, target, target.suffix())
}

/// [`derive_output_path`] with an output type, which is part of the name of plain safetensors files.
#[must_use]
pub fn derive_output_path_for_dtype(input: &Path, target: ConvertTarget, dtype: Dtype) -> PathBuf {
    match target {
        ConvertTarget::Safetensors => with_suffix(input, target, &dtype.to_string().to_ascii_lowercase()),
        _ => derive_output_path(input, target),
    }
}

fn with_suffix(input: &Path, target: ConvertTarget, suffix: &str) -> PathBuf {
    let mut name = output_name(input.file_stem().unwrap_or_default(), suffix);
    name.push(format!(".{}", target.extension()));
    input.with_file_name(name)
}

/// A file name without its quantisation suffix, followed by `suffix`.
#[must_use]
pub fn output_name(name: &OsStr, suffix: &str) -> OsString {
    let mut renamed = match name.to_str() {
        Some(text) => OsString::from(QUANTISED_ENDINGS.iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text)),
        None => name.to_os_string(),
    };
    renamed.push(format!("-{suffix}"));
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_has_the_target_and_not_the_old_quantisation() {
        let cases = [
            ("dir/model.safetensors", ConvertTarget::Safetensors, "dir/model-bf16.safetensors"),
            ("a-gptq-int8.bin", ConvertTarget::Gguf, "a-gguf.gguf"),
            ("a-int4-fp8.safetensors", ConvertTarget::BnbNf4, "a-int4-bnb-nf4.safetensors"),
            ("a-Fp8.gguf", ConvertTarget::Npz, "a-Fp8-npz.npz"),
        ];
        for (input, target, output) in cases {
            assert_eq!(derive_output_path(Path::new(input), target), Path::new(output), "{input}");
        }
        let of = |target| derive_output_path_for_dtype(Path::new("m.gguf"), target, Dtype::F32);
        assert_eq!(of(ConvertTarget::Safetensors), Path::new("m-f32.safetensors"));
        assert_eq!(of(ConvertTarget::Gguf), Path::new("m-gguf.gguf"));
    }
}
