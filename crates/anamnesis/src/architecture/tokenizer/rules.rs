//! How llama.cpp's converter reads the vocabulary of an architecture (`set_vocab`), as data.

use crate::architecture::metadata_builder::MetadataBuilder;

/// The files that have the vocabulary of an architecture, and the keys added to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenizerRules {
    /// The use of SentencePiece's `tokenizer.model`.
    pub pieces: PiecesUse,
    /// Whether Mistral's `tekken.json` is read, `tokenizer.json` may have a SentencePiece vocabulary, and
    /// `add_prefix_space` is written: `set_vocab` of `LlamaModel`.
    pub is_llama: bool,
    /// Whether added tokens replace pieces of any type: `set_vocab` of `Phi3MiniModel`.
    pub replaces_pieces: bool,
    /// The number of tokens is padded to a multiple of this, or of `pad_vocab_size_multiple`.
    pub pad_to: Option<u64>,
    /// Special tokens by text: the role and the added token it is assigned to.
    pub roles: &'static [(&'static str, &'static str)],
    /// Whether `add_space_prefix` is false for SentencePiece vocabularies.
    pub no_space_prefix: bool,
    /// A pre-tokenizer with its name for this architecture, if other architectures use another.
    pub pre: Option<(PreTokenizer, &'static str)>,
    /// The tokenizer class of transformers per `model_type`, which has default special tokens.
    pub classes: &'static [(&'static str, TokenizerClass)],
    /// Adds keys that depend only on the size of the vocabulary.
    pub add: fn(Option<u64>, &mut MetadataBuilder),
}

/// When SentencePiece's `tokenizer.model` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PiecesUse {
    Never,
    /// Before `tokenizer.json`.
    First,
    /// Only if there is no `tokenizer.json`.
    Last,
    /// Always; `tokenizer.json` alone is refused.
    Required,
    /// Always, except for tokenizers of the class `GPT2Tokenizer`.
    RequiredUnlessGpt2,
}

/// The tokenizer class that transformers has for a `model_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenizerClass {
    /// Regardless of `tokenizer_config.json`.
    Always(&'static str),
    /// If `tokenizer_config.json` names none.
    Registered(&'static str),
    /// Loaded by the generic class, which has no defaults.
    NoDefaults,
}

/// Pre-tokenizers that split identically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreTokenizer {
    /// cl100k with up to three digits, as in Llama 3.
    Llama3,
    /// cl100k with single digits.
    Qwen2,
    Gpt2,
    /// Single digits, then GPT-2.
    Digits,
    DeepSeek3,
    DeepSeekCoder,
    /// o200k.
    Gpt4o,
    Tekken,
    Falcon,
}

/// The byte-level vocabulary of `tokenizer.json`: most models.
pub(crate) const BPE: TokenizerRules = TokenizerRules {
    pieces: PiecesUse::Never,
    is_llama: false,
    replaces_pieces: false,
    pad_to: None,
    roles: &[],
    no_space_prefix: false,
    pre: None,
    classes: &[],
    add: |_, _| {},
};

/// `tokenizer.model`, else `tokenizer.json`.
pub(crate) const PIECES_OR_BPE: TokenizerRules = TokenizerRules { pieces: PiecesUse::First, ..BPE };

/// `tekken.json`, `tokenizer.model`, or `tokenizer.json` of either kind.
pub(crate) const LLAMA_LIKE: TokenizerRules = TokenizerRules {
    is_llama: true,
    add: |vocab_size, metadata| match vocab_size {
        // Code Llama: the end of infilled text.
        Some(32016) => metadata.number("tokenizer.ggml.eot_token_id", 32010),
        // Small Granite models.
        Some(49152) => metadata.truth("tokenizer.ggml.add_bos_token", false),
        _ => {}
    },
    ..PIECES_OR_BPE
};
