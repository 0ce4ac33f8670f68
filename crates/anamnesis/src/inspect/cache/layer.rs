//! What one layer keeps, from the shapes of its tensors.
//!
//! | kind | tensors | per token | state |
//! |---|---|---|---|
//! | attention | `k_proj`, `v_proj` | their rows | |
//! | fused attention | `qkv_proj`, `c_attn`, … | rows without the queries | |
//! | latent attention | `kv_a_proj_with_mqa` | its rows | |
//! | sparse attention | `indexer.wk` | its rows, in addition; with pooled keys also their gates and a flag | |
//! | Mamba | `A_log` `[inner, state]`, `conv1d` | | `A_log`, `conv1d` |
//! | Mamba 2 | `A_log` `[heads]`, `in_proj`, `conv1d` | | inner × state, `conv1d` |
//! | gated delta rule | `A_log` `[heads]`, `linear_attn.conv1d` | | heads × key × value, `conv1d` |
//! | Kimi delta attention | `A_log`, `q_conv1d`, `k_conv1d`, `v_conv1d` | | heads × key × value, convolutions |
//! | short convolution | `conv.conv` | | its values |

use super::{AttentionKind, UnknownCache};
use crate::inspect::model;
use crate::inspect::settings::Settings;

/// The sizes of a layer's tensors that decide what it keeps.
#[derive(Debug, Default)]
pub(super) struct LayerShapes {
    keys: Option<u64>,
    values: Option<u64>,
    fused: Option<u64>,
    latent: Option<u64>,
    indexer: Option<u64>,
    /// Gates of the indexer's pooled keys.
    pooled: Option<u64>,
    /// The shape of `A_log`.
    decay: Option<Vec<u64>>,
    /// Rows of Mamba's `in_proj`.
    inputs: Option<u64>,
    /// Channels and values of the convolution before a recurrent state.
    convolution: Option<(u64, u64)>,
    /// The same of separate convolutions of queries, keys and values.
    convolutions: [Option<(u64, u64)>; 3],
    short_convolution: Option<u64>,
    is_delta: bool,
    /// Whether it attends to another sequence.
    has_cross_attention: bool,
    /// Whether it has a tensor of a kind of attention that is not known.
    has_unknown: bool,
}

/// The values that a layer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) kind: AttentionKind,
    /// Values per token.
    pub(super) values: u64,
    /// Values of the recurrent state.
    pub(super) state: u64,
    /// Values of the inputs that a convolution needs again.
    pub(super) convolution: u64,
}

/// Why a layer is not known.
pub(super) enum UnknownLayer {
    Kind,
    CrossAttention,
    Missing(&'static str),
}

impl UnknownLayer {
    pub(super) fn at(self, layer: u64) -> UnknownCache {
        match self {
            Self::Kind => UnknownCache::UnknownLayer { layer },
            Self::CrossAttention => UnknownCache::EncoderDecoder,
            Self::Missing(key) => UnknownCache::Missing { key },
        }
    }
}

/// Pieces of names of recurrent and compressed attention that is not known.
const UNKNOWN: [&str; 8] =
    ["time_mix", "rwkv", "retention", "compressor", "lightning", "slope_rate", "hyena", "attention.self"];

impl LayerShapes {
    /// Adds a tensor by its name inside the layer and its shape.
    pub(super) fn add(&mut self, name: &str, shape: &[usize]) {
        let size = |place: usize| shape.get(place).map_or(1, |&size| size as u64);
        let (rows, all) = (size(0), shape.iter().fold(1u64, |all, &size| all.saturating_mul(size as u64)));
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let (parent, leaf) = module.rsplit_once('.').unwrap_or(("", module));
        if ["encoder_attn", "cross_attn", "crossattention", "EncDecAttention", "cross_attention"]
            .iter()
            .any(|part| parent.contains(part))
        {
            self.has_cross_attention = true;
            return;
        }
        self.has_unknown |= UNKNOWN.iter().any(|part| name.contains(part));
        self.is_delta |= parent.contains("linear_attn") || parent.contains("delta");
        let is_weight = module.len() < name.len();
        let set = |place: &mut Option<u64>| *place = Some(rows);
        match leaf {
            "A_log" | "ssm_a" => self.decay = Some(shape.iter().map(|&size| size as u64).collect()),
            "index_kpool_compress_gate" => set(&mut self.pooled),
            _ if !is_weight => {}
            "wk" | "attn_k" if parent.ends_with("indexer") => set(&mut self.indexer),
            "k_proj" | "wk" | "attn_k" | "key" | "key_proj" => set(&mut self.keys),
            "v_proj" | "wv" | "attn_v" | "value" | "value_proj" => set(&mut self.values),
            "qkv_proj" | "query_key_value" | "c_attn" | "Wqkv" | "wqkv" | "attn_qkv" | "qkv" if shape.len() == 2 => {
                // A linear layer has its outputs first, a one-dimensional convolution last.
                self.fused = Some(size(0).max(size(1)));
            }
            "kv_a_proj_with_mqa" | "attn_kv_a_mqa" => set(&mut self.latent),
            "in_proj" | "ssm_in" if !parent.contains("attn") => set(&mut self.inputs),
            "conv1d" | "ssm_conv1d" | "linear_attn_conv" => self.convolution = Some((rows, all)),
            "q_conv1d" | "q_conv" | "ssm_conv1d_q" => self.convolutions[0] = Some((rows, all)),
            "k_conv1d" | "k_conv" | "ssm_conv1d_k" => self.convolutions[1] = Some((rows, all)),
            "v_conv1d" | "v_conv" | "ssm_conv1d_v" => self.convolutions[2] = Some((rows, all)),
            "conv" if parent.ends_with("conv") => self.short_convolution = Some(all),
            _ => {}
        }
    }

    /// The values it keeps; `None` for a layer without attention.
    pub(super) fn memory(&self, settings: &Settings) -> Result<Option<Memory>, UnknownLayer> {
        match self {
            Self { has_cross_attention: true, .. } => return Err(UnknownLayer::CrossAttention),
            Self { has_unknown: true, .. } => return Err(UnknownLayer::Kind),
            _ => {}
        }
        let attention = self.attention(settings)?;
        let recurrent = self.recurrent(settings)?;
        Ok(match (attention, recurrent) {
            (None, recurrent) => recurrent,
            (attention, None) => attention,
            (Some(attention), Some(recurrent)) => {
                Some(Memory { values: attention.values, kind: attention.kind, ..recurrent })
            }
        })
    }

    fn attention(&self, settings: &Settings) -> Result<Option<Memory>, UnknownLayer> {
        // Linear attention has projections of the same names.
        if self.is_delta || self.convolutions.iter().any(Option::is_some) {
            return Ok(None);
        }
        let kept = |kind, values: u64| {
            let pooled = self.pooled.map_or(0, |gates| gates.saturating_add(1));
            let values = values.saturating_add(self.indexer.unwrap_or(0)).saturating_add(pooled);
            Ok(Some(Memory { kind, values, state: 0, convolution: 0 }))
        };
        if let Some(rows) = self.latent {
            return kept(AttentionKind::Latent, rows);
        }
        let queries = || {
            let heads = model::heads(settings).ok_or(UnknownLayer::Missing("num_attention_heads"))?;
            let head = settings.count(&["head_dim", "kv_channels", "attention_head_size"], "attention.key_length");
            let share = || model::hidden(settings)?.checked_div(heads);
            let head = head.or_else(share).ok_or(UnknownLayer::Missing("head_dim"))?;
            Ok(heads.saturating_mul(head))
        };
        match (self.keys, self.values, self.fused) {
            (Some(keys), values, _) => {
                let is_grouped = queries().is_ok_and(|queries| keys < queries);
                // Without a projection of values, keys are the values too.
                let values = values.unwrap_or(keys);
                let kind = if is_grouped { AttentionKind::Grouped } else { AttentionKind::Full };
                kept(kind, keys.saturating_add(values))
            }
            (None, _, Some(fused)) => {
                let queries = queries()?;
                // Falcon's class expands keys and values to all heads before it keeps them.
                if settings.flag("new_decoder_architecture") == Some(true) {
                    return kept(AttentionKind::Full, queries.saturating_mul(2));
                }
                let both = fused.checked_sub(queries).ok_or(UnknownLayer::Kind)?;
                let kind = if both < queries.saturating_mul(2) { AttentionKind::Grouped } else { AttentionKind::Full };
                kept(kind, both)
            }
            (None, Some(_), None) => Err(UnknownLayer::Kind),
            (None, None, None) => Ok(None),
        }
    }

    fn recurrent(&self, settings: &Settings) -> Result<Option<Memory>, UnknownLayer> {
        let kept = |state, convolution| Memory { kind: AttentionKind::Recurrent, values: 0, state, convolution };
        let size = |keys: &'static [&'static str], gguf: &str| {
            let missing = UnknownLayer::Missing(keys.first().copied().unwrap_or_default());
            settings.count(keys, gguf).ok_or(missing)
        };
        if let Some(values) = self.short_convolution {
            return Ok(Some(kept(0, values)));
        }
        let Some(decay) = &self.decay else { return Ok(None) };
        let heads: u64 = decay.iter().fold(1, |all, &size| all.saturating_mul(size));
        if let [Some(queries), Some(keys), Some(values)] = self.convolutions {
            let head = |channels: u64| channels.checked_div(heads).ok_or(UnknownLayer::Kind);
            let state = heads.saturating_mul(head(keys.0)?).saturating_mul(head(values.0)?);
            return Ok(Some(kept(state, queries.1.saturating_add(keys.1).saturating_add(values.1))));
        }
        let Some((channels, convolution)) = self.convolution else { return Err(UnknownLayer::Kind) };
        if self.is_delta {
            let head = size(&["linear_key_head_dim"], "ssm.state_size")?;
            let value = size(&["linear_value_head_dim"], "ssm.state_size")?;
            return Ok(Some(kept(heads.saturating_mul(head).saturating_mul(value), convolution)));
        }
        match decay[..] {
            [_, state] if state > 1 => Ok(Some(kept(heads, convolution))),
            _ => {
                let inputs = self.inputs.ok_or(UnknownLayer::Kind)?;
                let inner = inputs.checked_sub(channels).and_then(|rest| rest.checked_sub(heads));
                let state = size(&["ssm_state_size", "state_size", "mamba_d_state", "d_state"], "ssm.state_size")?;
                let inner = inner.ok_or(UnknownLayer::Kind)?;
                Ok(Some(kept(inner.saturating_mul(state), convolution)))
            }
        }
    }
}
