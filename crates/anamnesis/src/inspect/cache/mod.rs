//! The memory of a running model besides its weights: keys and values of earlier tokens, and recurrent states.
//!
//! Sizes come from the shapes of the projections that make keys, values and states, layer by layer (`layer`), so that
//! layers of different kinds and sizes need no table; the configuration decides which layers have a window (`window`).
//! They are those of transformers' caches for one sequence: keys and values in the type of the model, states of
//! recurrent layers in F32, and `window - 1` tokens in a sliding window. For GGUF they are those of llama.cpp's
//! default types, F16 and F32. A layer whose kind is not known makes the whole cache unknown.

mod layer;
mod window;

use std::collections::BTreeMap;

use super::contents::Contents;
use super::names::LayerName;
use super::parameters::main_list;
use super::settings::{LAYER_KEYS, Settings};
use crate::catalog::{Dtype, MetadataValue};
use layer::LayerShapes;
use window::Windows;

/// How a layer remembers earlier tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AttentionKind {
    /// Keys and values of every head.
    Full,
    /// Keys and values that several heads share.
    Grouped,
    /// A compressed vector per token (multi-head latent attention).
    Latent,
    /// A state of constant size: state-space layers, linear attention, short convolutions.
    Recurrent,
}

impl AttentionKind {
    /// A stable name: `full`, `grouped`, `latent` or `recurrent`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Grouped => "grouped",
            Self::Latent => "latent",
            Self::Recurrent => "recurrent",
        }
    }
}

/// Layers that remember in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheLayers {
    /// The kind.
    pub kind: AttentionKind,
    /// The sliding window in tokens.
    pub window: Option<u64>,
    /// Number of layers.
    pub layers: u64,
    /// Bytes per token of all these layers.
    pub token_bytes: u64,
    /// Bytes of all these layers, whatever the number of tokens.
    pub state_bytes: u64,
}

impl CacheLayers {
    /// Bytes after `tokens` tokens.
    #[must_use]
    pub const fn bytes_at(&self, tokens: u64) -> u64 {
        let kept = match self.window {
            // The token being computed is the last of its window.
            Some(window) if window <= tokens => window.saturating_sub(1),
            _ => tokens,
        };
        self.token_bytes.saturating_mul(kept).saturating_add(self.state_bytes)
    }
}

/// The memory of one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cache {
    /// The type of keys and values.
    pub dtype: Dtype,
    /// Its layers by kind.
    pub layers: Vec<CacheLayers>,
}

impl Cache {
    /// Bytes per token, before any window is full.
    #[must_use]
    pub fn token_bytes(&self) -> u64 {
        self.layers.iter().map(|layers| layers.token_bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of recurrent states.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        self.layers.iter().map(|layers| layers.state_bytes).fold(0, u64::saturating_add)
    }

    /// Bytes after `tokens` tokens.
    #[must_use]
    pub fn bytes_at(&self, tokens: u64) -> u64 {
        self.layers.iter().map(|layers| layers.bytes_at(tokens)).fold(0, u64::saturating_add)
    }
}

/// Why the cache of a model is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownCache {
    /// There is no configuration that names a model.
    NoConfiguration,
    /// The model has no list of layers, or none that is known.
    NoLayers,
    /// The model is an encoder: it has no cache.
    Encoder,
    /// The decoder also keeps the output of an encoder.
    EncoderDecoder,
    /// A layer with a kind of attention that is not known.
    UnknownLayer {
        /// Its index.
        layer: u64,
    },
    /// A value that the configuration lacks.
    Missing {
        /// Its name.
        key: &'static str,
    },
}

impl Cache {
    pub(super) fn of(contents: &Contents<'_>, settings: Option<&Settings>) -> Result<Self, UnknownCache> {
        let settings = settings.ok_or(UnknownCache::NoConfiguration)?;
        let is_t5 = settings.is_gguf() && settings.model_type() == Some("t5");
        if is_t5 || settings.flag("is_encoder_decoder") == Some(true) {
            return Err(UnknownCache::EncoderDecoder);
        }
        if is_encoder(settings) {
            return Err(UnknownCache::Encoder);
        }
        let list = main_list(contents, settings).ok_or(UnknownCache::NoLayers)?;
        let count = settings.count(LAYER_KEYS, "block_count").unwrap_or(u64::MAX);
        let mut layers: BTreeMap<u64, LayerShapes> = BTreeMap::new();
        for tensor in &contents.tensors {
            match (LayerName::of(tensor.name), tensor.shape.as_deref()) {
                (Some(name), Some(shape)) if name.list == list && name.index < count => {
                    layers.entry(name.index).or_default().add(name.rest, shape);
                }
                _ => {}
            }
        }
        let dtype = element(contents, settings);
        let windows = Windows::of(settings, layers.len() as u64);
        let mut kinds: BTreeMap<(AttentionKind, Option<u64>), CacheLayers> = BTreeMap::new();
        for (&index, layer) in &layers {
            let Some(memory) = layer.memory(settings).map_err(|why| why.at(index))? else { continue };
            if windows.is_shared(index) {
                continue;
            }
            let window = windows.of_layer(index).filter(|_| memory.values > 0);
            let all = kinds.entry((memory.kind, window)).or_insert(CacheLayers {
                kind: memory.kind,
                window,
                layers: 0,
                token_bytes: 0,
                state_bytes: 0,
            });
            let convolution = if settings.is_gguf() { Dtype::F32 } else { dtype };
            let state = bytes(memory.state, Dtype::F32).saturating_add(bytes(memory.convolution, convolution));
            all.layers += 1;
            all.token_bytes = all.token_bytes.saturating_add(bytes(memory.values, dtype));
            all.state_bytes = all.state_bytes.saturating_add(state);
        }
        if kinds.is_empty() {
            return Err(UnknownCache::NoLayers);
        }
        Ok(Self { dtype, layers: kinds.into_values().collect() })
    }
}

fn bytes(values: u64, dtype: Dtype) -> u64 {
    values.saturating_mul(dtype.byte_size() as u64)
}

/// The type of keys and values: that of the model, or the default of llama.cpp.
fn element(contents: &Contents<'_>, settings: &Settings) -> Dtype {
    if settings.is_gguf() {
        return Dtype::F16;
    }
    match settings.text("dtype").or_else(|| settings.text("torch_dtype")).map(|name| name.trim_start_matches("torch."))
    {
        Some("bfloat16") => Dtype::BF16,
        Some("float16") => Dtype::F16,
        Some("float32") => Dtype::F32,
        _ => {
            let is_float = |dtype: &Dtype| [Dtype::BF16, Dtype::F16, Dtype::F32].contains(dtype);
            contents.tensors.iter().map(|tensor| tensor.dtype).find(is_float).unwrap_or(Dtype::BF16)
        }
    }
}

/// Ends of the names of classes that generate text.
const DECODERS: [&str; 4] = ["ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "TextModel"];
/// Keys that configurations of encoders lack.
const DECODER_KEYS: [&str; 6] =
    ["num_key_value_heads", "rope_parameters", "rope_theta", "num_kv_heads", "n_ctx", "state_size"];

/// Whether a model reads whole texts at once and keeps nothing.
fn is_encoder(settings: &Settings) -> bool {
    if settings
        .model_type()
        .is_some_and(|name| ["bert", "encoder", "clip", "siglip"].iter().any(|part| name.contains(part)))
    {
        return true;
    }
    if settings.is_gguf() {
        return settings.metadata("attention.causal") == Some(&MetadataValue::Bool(false));
    }
    let is_decoder = settings.class().is_none_or(|class| DECODERS.iter().any(|end| class.ends_with(end)))
        || DECODER_KEYS.iter().any(|key| settings.member(key).is_some());
    !is_decoder || settings.class().is_some_and(|class| class.ends_with("EncoderModel"))
}
