//! Which part of a model is not known, where a model goes from one family of tools to another.

use std::fmt;

/// The part of a model that a conversion between Hugging Face and GGUF has no rules for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelPart {
    /// A class of Hugging Face's library, such as `BertForMaskedLM`.
    Class,
    /// An architecture by its name in GGUF, or what its tensors and keys are.
    Architecture,
    /// The vocabulary, or how text is cut into tokens.
    Tokenizer,
    /// The name that llama.cpp has for the pre-tokenizer, `tokenizer.ggml.pre`, which a caller can say.
    PreTokenizer,
}

/// As in `unsupported model class`.
impl fmt::Display for ModelPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Class => "model class",
            Self::Architecture => "architecture",
            Self::Tokenizer => "tokenizer",
            Self::PreTokenizer => "pre-tokenizer",
        })
    }
}
