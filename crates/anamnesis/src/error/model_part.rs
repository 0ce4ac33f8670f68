//! Parts of a model that a conversion between Hugging Face and GGUF may not support.

use std::fmt;

/// A part of a model that has no conversion between Hugging Face and GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelPart {
    /// A class of transformers, for example `BertForMaskedLM`.
    Class,
    /// A GGUF architecture, or its tensors and keys.
    Architecture,
    /// The vocabulary, or the tokenization.
    Tokenizer,
    /// llama.cpp's name of the pre-tokenizer, `tokenizer.ggml.pre`, which the caller can set.
    PreTokenizer,
    /// The model that an adapter was trained for.
    Base,
    /// The model that a draft model predicts for.
    Target,
}

/// As in `unsupported model class`.
impl fmt::Display for ModelPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Class => "model class",
            Self::Architecture => "architecture",
            Self::Tokenizer => "tokenizer",
            Self::PreTokenizer => "pre-tokenizer",
            Self::Base => "base model",
            Self::Target => "target of a draft model",
        })
    }
}
