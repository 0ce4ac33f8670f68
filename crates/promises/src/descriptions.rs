//! Small files that describe a model: configurations, indices, importance matrices, vocabularies and cards.

use anamnesis::{AnamnesisError, Checkpoint, ConvertOptions, ConvertTarget, Importance};

use crate::folder::Folder;
use crate::parts;
use crate::reading::{self, limits};

/// Parts of several schemes: a configuration decides what they are.
const PARTS: &str = "\
model.layers.0.mlp.up_proj.qweight I32 4 8\n\
model.layers.0.mlp.up_proj.qzeros I32 1 1\n\
model.layers.0.mlp.up_proj.scales F16 1 8\n\
model.layers.0.mlp.up_proj.g_idx I32 32\n\
model.layers.0.mlp.down_proj.weight F8_E4M3 16 32\n\
model.layers.0.mlp.down_proj.weight_scale F32 1\n\
model.layers.0.self_attn.q_proj.weight_packed I32 8 4\n\
model.layers.0.self_attn.q_proj.weight_scale F16 8 1\n\
model.layers.0.self_attn.q_proj.weight_shape I64 2\n\
model.layers.0.self_attn.k_proj.weight U32 8 4\n\
model.layers.0.self_attn.k_proj.scales F16 8 1\n\
model.layers.0.self_attn.k_proj.biases F16 8 1\n\
model.norm.weight F32 32";

/// A configuration, for parts of several schemes.
pub fn configuration(text: &[u8]) {
    let input = [text, b"\0", PARTS.as_bytes(), b"\0\x20\0\0\0\0\0\0\0"].concat();
    let Some((tensors, options)) = parts::parse(&input) else { return };
    match Checkpoint::from_positioned(tensors, &options) {
        Ok(checkpoint) => {
            let _ = (checkpoint.evidence(), checkpoint.oddities());
            reading::decode(&checkpoint);
        }
        Err(error) => assert!(!matches!(error, AnamnesisError::Internal { .. }), "{error}"),
    }
}

/// A `config.json` next to a small model of Llama's names, which is planned as GGUF.
pub fn architecture(text: &[u8]) {
    let names = ["config.json", "model.safetensors"].map(|name| (name, name));
    let length = (text.len() as u32).to_le_bytes();
    let input = [&length, text, &parts::file(LLAMA)].concat();
    let Some(folder) = Folder::split(&input, &names) else { return };
    let mount = folder.mount();
    let Ok(checkpoint) = Checkpoint::open_with(mount.root(), &reading::options()) else { return };
    if let Err(error) = checkpoint.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new().with_limits(limits())) {
        assert!(!matches!(error, AnamnesisError::Internal { .. }), "{error}");
    }
}

/// A model of one layer, without a vocabulary.
const LLAMA: &str = "\
model.embed_tokens.weight F32 8 16\n\
model.layers.0.input_layernorm.weight F32 16\n\
model.layers.0.mlp.down_proj.weight F32 16 32\n\
model.layers.0.mlp.gate_proj.weight F32 32 16\n\
model.layers.0.mlp.up_proj.weight F32 32 16\n\
model.layers.0.post_attention_layernorm.weight F32 16\n\
model.layers.0.self_attn.k_proj.weight F32 8 16\n\
model.layers.0.self_attn.o_proj.weight F32 16 16\n\
model.layers.0.self_attn.q_proj.weight F32 16 16\n\
model.layers.0.self_attn.v_proj.weight F32 8 16\n\
model.norm.weight F32 16\n\
lm_head.weight F32 8 16";

/// An index with its length in front, and the file that all of its tensors are in.
pub fn index(input: &[u8]) {
    let names = [
        ("model.safetensors.index.json", "model.safetensors.index.json"),
        ("model-00001-of-00001.safetensors", "model-"),
    ];
    let Some(folder) = Folder::split(input, &names) else { return };
    let mount = folder.mount();
    if let Ok(checkpoint) = Checkpoint::open_with(mount.root(), &reading::options()) {
        let _ = checkpoint.oddities();
        reading::decode(&checkpoint);
    }
}

/// An importance matrix, of either format; every entry has as many values as it promises.
pub fn importance(file: &[u8]) {
    let Some(folder) = Folder::split(file, &[("imatrix.dat", "imatrix.dat")]) else { return };
    let mount = folder.mount();
    let Ok(importance) = Importance::read(mount.root().join("imatrix.dat"), &limits()) else { return };
    for weights in importance.weights.values().take(64) {
        if let Ok(values) = weights.read() {
            assert_eq!(values.len(), weights.len());
        }
    }
}

/// A vocabulary or a card; the first byte selects the file. A vocabulary that is read can be restored.
///
/// The library shows these readers to fuzzers only; without one, its own tests try them.
pub fn vocabulary(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else { return };
    #[cfg(fuzzing)]
    match kind % 4 {
        0 => anamnesis::fuzzing::vocabulary("tokenizer.model", text),
        1 => anamnesis::fuzzing::vocabulary("tokenizer.json", text),
        2 => anamnesis::fuzzing::vocabulary("tekken.json", text),
        _ => anamnesis::fuzzing::card(text),
    }
    #[cfg(not(fuzzing))]
    let _ = (kind, text);
}
