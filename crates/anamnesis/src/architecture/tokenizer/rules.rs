//! How llama.cpp's converter reads the vocabulary of an architecture (`set_vocab`), as data.

use crate::architecture::metadata_builder::MetadataBuilder;

/// The files that a vocabulary is read from, and the keys that are added to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenizerRules {
    pub pieces: PiecesUse,
    /// Whether Mistral's `tekken.json` is read, `tokenizer.json` may hold SentencePiece's pieces, and `add_prefix_space` is
    /// written: `set_vocab` of `LlamaModel`.
    pub is_llama: bool,
    /// Whether added tokens take the places of pieces, whatever these are: `set_vocab` of `Phi3MiniModel`.
    pub replaces_pieces: bool,
    /// The number of tokens is padded to a multiple of this, or of `pad_vocab_size_multiple`.
    pub pad_to: Option<u64>,
    /// Special tokens by their text: the role and the added token that has it.
    pub roles: &'static [(&'static str, &'static str)],
    /// Whether `add_space_prefix` is false where the vocabulary is SentencePiece's.
    pub no_space_prefix: bool,
    /// The name of a pre-tokenizer that has another name for other architectures.
    pub pre: Option<(PreTokenizer, &'static str)>,
    /// The tokenizer class of transformers for values of `model_type`, whose special tokens are defaults.
    pub classes: &'static [(&'static str, TokenizerClass)],
    /// Keys that depend on nothing but the size of the vocabulary.
    pub add: fn(Option<u64>, &mut MetadataBuilder),
}

/// When SentencePiece's `tokenizer.model` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PiecesUse {
    Never,
    /// Before `tokenizer.json`.
    First,
    /// Without `tokenizer.json`.
    Last,
    /// Always: `tokenizer.json` is not enough.
    Required,
    /// Always but for tokenizers of the class `GPT2Tokenizer`.
    RequiredUnlessGpt2,
}

/// The tokenizer class that transformers has for a `model_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenizerClass {
    /// Whatever `tokenizer_config.json` names.
    Always(&'static str),
    /// Where `tokenizer_config.json` names none.
    Registered(&'static str),
    /// The vocabulary is read as it is, without special tokens of a class.
    NoDefaults,
}

/// Pre-tokenizers, those that cut text alike as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreTokenizer {
    /// cl100k with digits by threes, as Llama 3 has it.
    Llama3,
    /// The same with single digits.
    Qwen2,
    Gpt2,
    /// Single digits, then as GPT-2.
    Digits,
    DeepSeek3,
    DeepSeekCoder,
    /// o200k.
    Gpt4o,
    Tekken,
    Falcon,
}

/// Byte-pair encoding of `tokenizer.json`: most models.
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
    add: |vocab_size, keys| match vocab_size {
        // Code Llama: the end of what is filled in.
        Some(32016) => keys.number("tokenizer.ggml.eot_token_id", 32010),
        // Small Granite models.
        Some(49152) => keys.truth("tokenizer.ggml.add_bos_token", false),
        _ => {}
    },
    ..PIECES_OR_BPE
};
