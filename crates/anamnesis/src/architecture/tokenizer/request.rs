//! The properties of a model that its vocabulary depends on.

use serde_json::{Map, Value};

use super::rules::TokenizerRules;
use crate::architecture::config::Config;

/// The model whose vocabulary is converted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VocabularyRequest<'a> {
    pub(crate) rules: &'a TokenizerRules,
    /// `config.json` without defaults.
    pub(crate) config: &'a Map<String, Value>,
    /// The same with the defaults of its class, if the model is known.
    pub(crate) filled: Option<&'a Config>,
    /// Tokens in the embedding, without the padding of the rules.
    pub(crate) vocab_size: Option<u64>,
    /// The GGUF name of the architecture.
    pub(crate) architecture: &'a str,
    /// The pre-tokenizer (`tokenizer.ggml.pre`) if the caller sets it; otherwise it is detected, or refused.
    pub(crate) pre: Option<&'a str>,
}

impl VocabularyRequest<'_> {
    /// Tokens that are written, including the padding of the rules.
    pub(super) fn size(&self) -> Option<u64> {
        if let Some(multiple) = self.rules.fixed_padding {
            return self.vocab_size.map(|size| size.checked_next_multiple_of(multiple).unwrap_or(u64::MAX));
        }
        let Some(multiple) = self.rules.pad_to else { return self.vocab_size };
        let given = self.config.get("pad_vocab_size_multiple").and_then(Value::as_u64);
        let multiple = given.filter(|given| *given != 0).unwrap_or(multiple);
        self.vocab_size.map(|size| size.checked_next_multiple_of(multiple).unwrap_or(u64::MAX))
    }
}
