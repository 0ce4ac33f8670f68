//! What is known of a model before its vocabulary is read.

use serde_json::{Map, Value};

/// The model whose vocabulary is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) family: Family,
    /// `config.json` as it stands, without defaults.
    pub(crate) config: &'a Map<String, Value>,
    /// How many tokens the embedding has; families that pad it do so themselves.
    pub(crate) vocab_size: Option<u64>,
    /// The GGUF name of the architecture.
    pub(crate) architecture: &'a str,
    /// How the text is cut, where the caller says it: `tokenizer.ggml.pre`. Otherwise it is recognised, or refused.
    pub(crate) pre: Option<&'a str>,
}

impl Wanted<'_> {
    /// How many tokens are written, with the padding of the family.
    pub(super) fn size(&self) -> Option<u64> {
        let multiple = match self.family {
            Family::Mamba => 8,
            Family::Mamba2 => 16,
            _ => return self.vocab_size,
        };
        let given = self.config.get("pad_vocab_size_multiple").and_then(Value::as_u64);
        let multiple = given.filter(|given| *given != 0).unwrap_or(multiple);
        self.vocab_size.map(|size| size.checked_next_multiple_of(multiple).unwrap_or(u64::MAX))
    }
}

/// Which files a model's vocabulary is taken from, and what is added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// `tokenizer.json`: most models.
    Bpe,
    /// Llama, Mistral, Mixtral, SmolLM3, Granite: `tekken.json`, `tokenizer.model`, or `tokenizer.json` of either kind.
    LlamaLike,
    /// Qwen 2 and 3, DeepSeek 1: `tokenizer.model`, else `tokenizer.json`.
    Qwen,
    /// `tokenizer.model`, with the tokens of CodeGemma.
    Gemma,
    /// `tokenizer.model`.
    Gemma2,
    /// `tokenizer.model`, else `tokenizer.json`.
    Gemma3,
    /// `tokenizer.model` with what three files add, or the `tokenizer.json` of Phi 4.
    Phi3,
    /// `tokenizer.json`, with special tokens by name.
    Glm4,
    /// The same of GLM 4.5, with others.
    Glm4Moe,
    /// `tokenizer.json`, else `tokenizer.model`, padded to a multiple of eight.
    Mamba,
    /// `tokenizer.model`, else `tokenizer.json`, padded to a multiple of sixteen.
    Mamba2,
}
