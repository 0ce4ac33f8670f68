//! Parsing of `--to`, with suggestions.

use anamnesis::{AnamnesisError, BlockType, ConvertTarget, Dtype, TargetDtype};

use crate::exit::Failure;
use crate::suggest::{closest, did_you_mean};

/// Aliases of output types in other programs.
const OTHER_NAMES: [(&str, &str); 7] = [
    ("bfloat16", "bf16"),
    ("float16", "f16"),
    ("fp16", "f16"),
    ("half", "f16"),
    ("float32", "f32"),
    ("fp32", "f32"),
    ("float", "f32"),
];

/// An output type of decoded weights.
pub(super) fn dtype(text: &str) -> Result<TargetDtype, Failure> {
    text.parse().map_err(|error| {
        let names: Vec<_> =
            anamnesis::decoded_types().iter().map(|dtype| dtype.to_string().to_ascii_lowercase()).collect();
        let lower = text.to_ascii_lowercase();
        match OTHER_NAMES.iter().find(|(other, _)| *other == lower) {
            Some((_, name)) => with_suggestion(error, &[*name]),
            None => with_suggestion(error, &closest(text, names.iter().map(String::as_str), 1)),
        }
    })
}

/// An output type of decoded weights, or of all matrices of a GGUF file; `None` if it depends on the input.
pub(super) fn matrix_type(text: &str, target: ConvertTarget) -> Result<Option<Dtype>, Failure> {
    match text.to_ascii_lowercase().as_str() {
        "auto" if target == ConvertTarget::Gguf => Ok(None),
        "q8_0" if target == ConvertTarget::Gguf => Ok(Some(Dtype::Block(BlockType::Q8_0))),
        _ => Ok(Some(dtype(text)?.dtype())),
    }
}

/// Maximum number of targets in a message; `amn formats` lists all.
const NAMED_TARGETS: usize = 6;
/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 4;

/// A target of a conversion.
pub(super) fn target(text: &str) -> Result<ConvertTarget, Failure> {
    ConvertTarget::parse(text).map_err(|_| {
        let names = || ConvertTarget::all().map(ConvertTarget::name);
        let lower = text.to_ascii_lowercase();
        let longer = names().filter(|name| !lower.is_empty() && name.starts_with(&lower));
        let mut meant: Vec<&str> = longer.take(MAX_SUGGESTIONS).collect();
        if meant.is_empty() {
            meant = closest(text, names(), 2);
        }
        let first: Vec<&str> = names().take(NAMED_TARGETS).collect();
        let (first, more) = (first.join(", "), names().count().saturating_sub(NAMED_TARGETS));
        let why = format!("supported convert targets are {first} and {more} more, listed by amn formats");
        with_suggestion(AnamnesisError::Unsupported { format: text.to_owned(), detail: why }, &meant)
    })
}

fn with_suggestion(error: AnamnesisError, names: &[&str]) -> Failure {
    match did_you_mean(names) {
        Some(question) => Failure::Usage(format!("{error}; {question}")),
        None => Failure::Usage(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_suggested() {
        let message = |text: &str| dtype(text).unwrap_err().to_string();
        assert!(message("bfloat16").ends_with("; did you mean bf16?"), "{}", message("bfloat16"));
        assert!(message("bf-16").ends_with("; did you mean bf16?"));
        assert!(message("int3").ends_with("bf16, f16 and f32"));
        let message = |text: &str| target(text).unwrap_err().to_string();
        assert!(message("safetensor").ends_with("; did you mean safetensors?"));
        assert!(message("bnb-nf5").contains("did you mean bnb-"), "{}", message("bnb-nf5"));
        assert!(message("q4").ends_with("; did you mean q4_k_m, q4_k_s, q4_0 or q4_1?"), "{}", message("q4"));
    }

    #[test]
    fn aliases_lead_to_existing_types() {
        for (other, name) in OTHER_NAMES {
            assert!(dtype(other).is_err() && dtype(name).is_ok());
        }
    }
}
