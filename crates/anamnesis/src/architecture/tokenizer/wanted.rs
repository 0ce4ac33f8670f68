//! What is known of a model before its vocabulary is read.

use serde_json::{Map, Value};

use super::rules::TokenizerRules;

/// The model whose vocabulary is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) rules: &'a TokenizerRules,
    /// `config.json` as it stands, without defaults.
    pub(crate) config: &'a Map<String, Value>,
    /// How many tokens the embedding has; rules that pad it do so themselves.
    pub(crate) vocab_size: Option<u64>,
    /// The GGUF name of the architecture.
    pub(crate) architecture: &'a str,
    /// How the text is cut, where the caller says it: `tokenizer.ggml.pre`. Otherwise it is recognised, or refused.
    pub(crate) pre: Option<&'a str>,
}

impl Wanted<'_> {
    /// How many tokens are written, with padding.
    pub(super) fn size(&self) -> Option<u64> {
        let Some(multiple) = self.rules.pad_to else { return self.vocab_size };
        let given = self.config.get("pad_vocab_size_multiple").and_then(Value::as_u64);
        let multiple = given.filter(|given| *given != 0).unwrap_or(multiple);
        self.vocab_size.map(|size| size.checked_next_multiple_of(multiple).unwrap_or(u64::MAX))
    }
}
