//! The keys that an architecture sets after its vocabulary is read.

use serde_json::Value;

use super::request::VocabularyRequest;
use super::rules::TokenizerRules;
use super::sources::Sources;
use super::special::key_of;
use crate::architecture::config::Config;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::sidecars::SidecarFiles;
use crate::catalog::{MetadataArray, MetadataValue};
use crate::error::{AnamnesisError, Result};

const GENERATION: &str = "generation_config.json";
const TEMPLATE: &str = "tokenizer.chat_template";
/// The key of the token types, which come before special tokens.
const TYPES: &str = "tokenizer.ggml.token_type";

pub(super) fn write(
    sources: &Sources<'_>,
    request: &VocabularyRequest<'_>,
    metadata: &mut MetadataBuilder,
) -> Result<()> {
    let overrides = &request.rules.overrides;
    if let Some(template) = overrides.chat_template {
        metadata.text(TEMPLATE, template);
    }
    if overrides.no_template {
        metadata.remove(TEMPLATE);
    }
    if !overrides.ids.is_empty() {
        let added = sources.settings.added_tokens()?;
        for (role, token) in overrides.ids {
            let found = added.iter().find(|added| added.content == *token).and_then(|added| added.id);
            found.into_iter().for_each(|id| set(role, id, metadata));
        }
    }
    for (role, id) in overrides.fixed_ids {
        set(role, *id, metadata);
    }
    if let Some(config) = request.filled {
        write_config_ids(request.rules, config, metadata)?;
    }
    if overrides.end_of_turn
        && let Some(text) = sources.files.read(GENERATION)?
        && let Ok(generation) = crate::json::from_slice::<Value>(&text)
        && let Some([first, _, ..]) = generation.get("eos_token_id").and_then(Value::as_array).map(Vec::as_slice)
        && let Some(id) = first.as_u64().and_then(|id| u32::try_from(id).ok())
    {
        set("eot", id, metadata);
    }
    if overrides.other_end
        && let Some(ends) = request.config.get("eos_token_id").and_then(Value::as_array)
        && let Some(id) = ends.iter().find(|end| Some(*end) != request.config.get("bos_token_id"))
        && let Some(id) = id.as_u64().and_then(|id| u32::try_from(id).ok())
    {
        set("eot", id, metadata);
    }
    for (flag, truth) in overrides.flags {
        metadata.truth(format!("tokenizer.ggml.{flag}"), *truth);
    }
    if let Some(template) = overrides.default_template {
        match sources.files.read("chat_template.jinja")? {
            Some(own) => metadata.text(TEMPLATE, String::from_utf8_lossy(&own)),
            None => metadata.text(TEMPLATE, template),
        }
    }
    let is_template = |(key, _): &(String, MetadataValue)| key.starts_with(TEMPLATE);
    if let Some(template) = overrides.unwritten_template
        && !metadata.entries().iter().any(is_template)
    {
        metadata.note(format!(
            "the model has no chat template, and none is written; llama.cpp has one for it ({template})"
        ));
    }
    let prefix = sources.settings.get("add_prefix_space").and_then(Value::as_bool);
    if let Some(prefix) = prefix.filter(|_| overrides.space_prefix) {
        metadata.set_behind(TYPES, "tokenizer.ggml.add_space_prefix", MetadataValue::Bool(prefix));
    }
    Ok(())
}

/// Writes the special tokens that keys of the configuration name.
pub(crate) fn write_config_ids(rules: &TokenizerRules, config: &Config, metadata: &mut MetadataBuilder) -> Result<()> {
    for (role, key) in rules.overrides.config_ids {
        let id = config.count(&[key])?.and_then(|id| u32::try_from(id).ok());
        id.into_iter().for_each(|id| set(role, id, metadata));
    }
    Ok(())
}

/// Writes the tokens that are never generated.
pub(super) fn write_suppressed(files: &dyn SidecarFiles, metadata: &mut MetadataBuilder) -> Result<()> {
    let Some(text) = files.read(GENERATION)? else { return Ok(()) };
    let generation = crate::json::from_slice::<Value>(&text);
    let generation = generation.map_err(|error| AnamnesisError::parse(format!("{GENERATION}: {error}")))?;
    let Some(tokens) = generation.get("suppress_tokens").filter(|tokens| !tokens.is_null()) else { return Ok(()) };
    let id = |token: &Value| token.as_i64().and_then(|id| i32::try_from(id).ok());
    match tokens.as_array().and_then(|tokens| tokens.iter().map(id).collect::<Option<Vec<_>>>()) {
        Some(ids) => metadata.array("tokenizer.ggml.suppress_tokens", MetadataArray::I32(ids)),
        None => {
            let why = format!("{GENERATION}: \"suppress_tokens\" is {tokens}, a list of token ids is needed");
            return Err(AnamnesisError::parse(why));
        }
    }
    Ok(())
}

fn set(role: &str, id: u32, metadata: &mut MetadataBuilder) {
    if let Some(name) = key_of(role) {
        metadata.number(format!("tokenizer.ggml.{name}_token_id"), id);
    }
}
