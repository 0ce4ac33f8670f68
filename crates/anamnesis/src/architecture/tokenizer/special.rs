//! The special tokens: their ids, and which of them are added around every text.

use serde_json::{Map, Value};

use super::chat_template::ChatTemplate;
use super::document::{AddedToken, Document};
use super::post_processor::AddFlags;
use super::settings::{ROLES, Settings};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::error::{AnamnesisError, Result, quoted};

/// The special tokens, in the order they were determined.
#[derive(Debug, Default)]
pub(super) struct SpecialTokens {
    ids: Vec<(&'static str, u32)>,
    added: AddFlags,
    pub(super) chat_template: Option<ChatTemplate>,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
    /// The size of the vocabulary; larger ids are dropped.
    end: Option<u32>,
}

impl SpecialTokens {
    /// Reads the settings, the document if present, and the model configuration. Ids from `end` on are dropped.
    pub(super) fn read(
        document: Option<&Document>,
        settings: &Settings,
        config: &Map<String, Value>,
        end: Option<u32>,
    ) -> Result<Self> {
        let mut special = Self { end, ..Self::default() };
        let mut settings = settings.clone();
        let mut roles = ROLES.to_vec();
        if let Some(document) = document {
            special.normalizer(&document.normalizer);
            special.added = AddFlags::from_post_processor(&document.post_processor, &mut settings, &mut roles);
        }
        if !settings.0.is_empty() {
            let listed = document.map(|document| document.added_tokens.as_slice()).unwrap_or_default();
            special.settings(&settings, &roles, listed)?;
        }
        special.config(config, &roles)?;
        Ok(special)
    }

    fn normalizer(&mut self, normalizer: &Value) {
        let truth = |key: &str| normalizer.get(key).and_then(Value::as_bool);
        match normalizer.get("type").and_then(Value::as_str) {
            Some("Lowercase") => self.lowercase = Some(true),
            Some("StripAccents") => self.strip_accents = Some(true),
            Some("BertNormalizer") => {
                self.lowercase = truth("lowercase").or(self.lowercase);
                self.strip_accents = truth("strip_accents").or(self.strip_accents);
            }
            Some("Sequence") => {
                let inner = normalizer.get("normalizers").and_then(Value::as_array);
                inner.into_iter().flatten().for_each(|inner| self.normalizer(inner));
            }
            _ => {}
        }
    }

    /// Reads special tokens of the settings that the document lists.
    fn settings(&mut self, settings: &Settings, roles: &[&'static str], listed: &[AddedToken]) -> Result<()> {
        for role in roles {
            if let Some(truth) = settings.get(&format!("add_{role}_token")).and_then(Value::as_bool) {
                self.added.unless_known(role, truth);
            }
            let named = settings.get(&format!("{role}_token"));
            let content = named.and_then(|named| named.as_str().or_else(|| named.get("content")?.as_str()));
            let Some(content) = content else { continue };
            if let Some(id) = listed.iter().find(|token| token.content == content).and_then(|token| token.id) {
                self.set(role, id);
            }
        }
        Ok(())
    }

    /// Reads ids of `config.json`; lists of ids are ignored.
    fn config(&mut self, config: &Map<String, Value>, roles: &[&'static str]) -> Result<()> {
        for role in roles {
            let key = format!("{role}_token_id");
            let given = config.get(&key).filter(|id| !id.is_null());
            let given = given.or_else(|| config.get("text_config").and_then(|inner| inner.get(&key)));
            let Some(Value::Number(number)) = given else { continue };
            match number.as_u64().map(u32::try_from) {
                Some(Ok(id)) => self.set(role, id),
                None if number.is_f64() => {}
                _ => {
                    let reason = format!("config.json: {} is {number}, which is not an id", quoted(&key));
                    return Err(AnamnesisError::parse(reason));
                }
            }
        }
        Ok(())
    }

    /// Whether no role is assigned.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Assigns a role to another token.
    pub(super) fn replace(&mut self, role: &'static str, id: u32) {
        match self.ids.iter_mut().find(|(known, _)| *known == role) {
            Some((_, old)) => *old = id,
            None => self.ids.push((role, id)),
        }
    }

    /// Assigns a role unless it is already assigned.
    pub(super) fn set(&mut self, role: &'static str, id: u32) {
        let is_inside = self.end.is_none_or(|end| id < end);
        if is_inside && self.ids.iter().all(|(known, _)| *known != role) {
            self.ids.push((role, id));
        }
    }

    /// Writes all special tokens for which GGUF has keys.
    pub(super) fn write(&self, metadata: &mut MetadataBuilder) -> Result<()> {
        for (role, id) in &self.ids {
            if let Some(name) = key_of(role) {
                metadata.number(format!("tokenizer.ggml.{name}_token_id"), *id);
            }
        }
        for (role, truth) in self.added.iter().filter(|(role, _)| matches!(*role, "bos" | "eos" | "sep")) {
            metadata.truth(format!("tokenizer.ggml.add_{role}_token"), truth);
        }
        if let Some(template) = &self.chat_template {
            template.write(metadata)?;
        }
        for (name, truth) in [("lowercase", self.lowercase), ("strip_accents", self.strip_accents)] {
            if let Some(truth) = truth {
                metadata.truth(format!("tokenizer.ggml.normalizer.{name}"), truth);
            }
        }
        Ok(())
    }
}

/// The name of a role in GGUF, which has none for the class token.
pub(super) fn key_of(role: &str) -> Option<&str> {
    match role {
        "bos" | "eos" | "eot" | "eom" | "mask" => Some(role),
        "unk" => Some("unknown"),
        // The spelling of the format.
        "sep" => Some("seperator"),
        "pad" => Some("padding"),
        _ => None,
    }
}
