//! The way back: from a GGUF file to the tensors and the configuration of a checkpoint that Hugging Face's library loads.

mod config;
mod tensors;

use serde_json::{Map, Value};

use super::gguf::Gguf;
use super::kind::Architecture;
use super::map::{Mapped, Named};
use crate::error::{AnamnesisError, ModelPart, Result};

/// What a checkpoint is, as far as GGUF tells.
pub(crate) struct Restored {
    pub tensors: Vec<Mapped>,
    pub config: Map<String, Value>,
    /// How text is generated, where the file tells anything of it.
    pub generation: Option<Map<String, Value>>,
    /// What the configuration tells of experts that are packed, where the architecture has such.
    pub packed_experts: Option<Value>,
    pub notes: Vec<String>,
}

/// Restores a model; `tensors` are those of the file.
pub(crate) fn restore(gguf: &Gguf<'_>, tensors: &[Named<'_>]) -> Result<Restored> {
    let architecture = architecture(gguf)?;
    if gguf.count("block_count").is_none() || !gguf.has("token_embd.weight") {
        let why = "it tells no number of layers, or has no embedding: it is no whole model";
        return Err(AnamnesisError::unsupported_model(ModelPart::Architecture, architecture.name, why));
    }
    let config = config::restored(architecture, gguf)?;
    let read = architecture.config(&config)?;
    let (tensors, mut notes) = tensors::restored(architecture, &read, tensors)?;
    if let Some(note) = architecture.lost {
        notes.push(note.to_owned());
    }
    let packed_experts = architecture.packed_experts.map(|told| told());
    Ok(Restored { tensors, generation: config::generation(gguf), config, packed_experts, notes })
}

fn architecture(gguf: &Gguf<'_>) -> Result<&'static Architecture> {
    let Some(name) = gguf.text("general.architecture") else {
        return Err(AnamnesisError::parse("the file has no general.architecture"));
    };
    Architecture::of_gguf(name).ok_or_else(|| {
        let known: Vec<&str> = Architecture::all().map(Architecture::name).collect();
        let why = format!("checkpoints of this architecture are not known; known are {}", known.join(", "));
        AnamnesisError::unsupported_model(ModelPart::Architecture, name, why)
    })
}
