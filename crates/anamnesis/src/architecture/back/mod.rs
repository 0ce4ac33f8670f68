//! GGUF to Hugging Face: the tensors and the configuration of a checkpoint that transformers loads.

mod config;
mod keys;
mod tensors;

use serde_json::{Map, Value};

use super::complete::{Found, Side, Tensors};
use super::config::Config;
use super::gguf::Gguf;
use super::kind::Architecture;
use super::map::{EMBEDDING, Mapped, Named};
use super::rule::BLOCKS;
use crate::catalog::MetadataValue;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

/// The tokens of a vocabulary.
const TOKENS: &str = "tokenizer.ggml.tokens";

/// A checkpoint restored from GGUF.
pub(crate) struct Restored {
    pub tensors: Vec<Mapped>,
    pub config: Map<String, Value>,
    /// `generation_config.json`, if the file has generation parameters.
    pub generation: Option<Map<String, Value>>,
    /// `quantization_config` for experts that stay MXFP4, if the architecture has such checkpoints.
    pub packed_experts: Option<Value>,
    pub notes: Vec<String>,
}

/// Restores a model from the tensors of a file: all of them if it `is_whole`.
pub(crate) fn restore(gguf: &Gguf<'_>, tensors: &[Named<'_>], is_whole: bool) -> Result<Restored> {
    let architecture = architecture(gguf)?;
    if architecture.restore.is_none() {
        let why = "a file of this architecture does not hold the whole configuration of its checkpoint";
        return Err(AnamnesisError::unsupported_model(ModelPart::Architecture, architecture.name, why));
    }
    let (config, read) = checked(architecture, gguf, tensors, is_whole)?;
    let (tensors, mut notes) = tensors::restored(architecture, &read, tensors)?;
    if let Some(note) = architecture.restore_note {
        notes.push(note.to_owned());
    }
    let packed_experts = architecture.packed_experts.map(|config| config());
    Ok(Restored { tensors, generation: config::generation(gguf), config, packed_experts, notes })
}

/// Refuses a file whose tensors and keys are not those of a whole model.
pub(crate) fn check(gguf: &Gguf<'_>, tensors: &[Named<'_>]) -> Result<()> {
    match architecture(gguf)? {
        Architecture { restore: None, .. } => Ok(()),
        architecture => checked(architecture, gguf, tensors, true).map(drop),
    }
}

/// The restored configuration, without and with the defaults of its class.
fn checked(
    architecture: &'static Architecture,
    gguf: &Gguf<'_>,
    tensors: &[Named<'_>],
    is_whole: bool,
) -> Result<(Map<String, Value>, Config)> {
    keys::check_types(architecture, gguf)?;
    let layers = gguf.count("block_count");
    let Some(layers) = layers.filter(|_| !is_whole || gguf.shapes.keys().any(|name| name.starts_with(BLOCKS))) else {
        let why = "it tells no number of layers (block_count), or has none: it is no whole model";
        return Err(AnamnesisError::unsupported(architecture.name, why));
    };
    let found = tensors.iter().map(|named| (named.name, Found { name: named.name, shape: named.shape })).collect();
    let found = Tensors { side: Side::Gguf, found, is_whole };
    // Before anything is allocated per layer.
    found.check_sizes()?;
    found.check_layers(architecture.name, "", layers)?;
    let config = config::restored(architecture, gguf)?;
    let read = architecture.config(&config)?;
    architecture.check_complete(&found, &read)?;
    check_vocabulary(gguf)?;
    keys::check(architecture, gguf, &config, &read)?;
    Ok((config, read))
}

/// Refuses a vocabulary whose tokens are not the rows of the embedding.
fn check_vocabulary(gguf: &Gguf<'_>) -> Result<()> {
    let tokens = match gguf.metadata.get(TOKENS) {
        Some(MetadataValue::Array(tokens)) => tokens.len(),
        _ => return Ok(()),
    };
    match gguf.shapes.get(EMBEDDING).and_then(|shape| shape.first()) {
        Some(&rows) if rows != tokens => {
            let why = format!("it has {rows} rows, {} has {tokens} tokens", quoted(TOKENS));
            Err(AnamnesisError::parse(why).in_tensor(EMBEDDING))
        }
        _ => Ok(()),
    }
}

fn architecture(gguf: &Gguf<'_>) -> Result<&'static Architecture> {
    let Some(name) = gguf.text("general.architecture") else {
        return Err(AnamnesisError::parse("the file has no general.architecture"));
    };
    Architecture::of_gguf(name).ok_or_else(|| {
        let known = Architecture::all().filter(|architecture| architecture.restore.is_some());
        let known: Vec<&str> = known.map(Architecture::name).collect();
        let why = format!("checkpoints of this architecture are not known; known are {}", known.join(", "));
        AnamnesisError::unsupported_model(ModelPart::Architecture, name, why)
    })
}
