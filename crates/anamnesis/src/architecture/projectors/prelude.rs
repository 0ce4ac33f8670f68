//! The names that the files of projectors are written with.

#![allow(unused_imports, reason = "the list is the same for all projectors")]

pub(super) use super::keys::{
    AudioSizes, VisionSizes, activation, audio_keys, colours, epsilon, is_true, needed_activation, projector, sized,
    vision_keys, without_layers,
};
pub(super) use super::siglip::{CONVOLUTION, POSITIONS_AND_NORM, SIGLIP_LAYERS, siglip_layers};
pub(super) use super::sizes::{
    A_FFN, A_HEADS, A_HIDDEN, A_LAYERS, CHANNELS, HEAD, IMAGE, MERGED, MERGED_OUT, PATCH, POSITIONS, TEXT,
    THREE_HIDDEN, TWO, V_FFN, V_HEADS, V_HIDDEN, V_LAYERS, VISION, divides, product,
};
pub(super) use crate::architecture::change::{Change, Parts};
pub(super) use crate::architecture::config::Config;
pub(super) use crate::architecture::key::{
    FILE_TYPE, Key, ValueSource, count, count_fn, flag_fn, flags_fn, ints_fn, real, real_fn, reals_fn, text_fn,
};
pub(super) use crate::architecture::kind::{Architecture, Class, DECODER, DerivedTensor, class};
pub(super) use crate::architecture::names::Rename;
pub(super) use crate::architecture::need::{Need, OPTIONAL, Presence, needed_if};
pub(super) use crate::architecture::rule::{Rule, Stack, layer, model};
pub(super) use crate::architecture::size::{ANY, ONE, Size, first, layer_size, size};
pub(super) use crate::architecture::types::TypeRules;
pub(super) use crate::error::{AnamnesisError, Result, quoted};

/// The fields of most projectors.
pub(super) const PROJECTOR: Architecture = Architecture {
    name: "clip",
    is_projector: true,
    layer_prefix: "",
    keys: &[],
    types: TypeRules::PROJECTOR,
    restore: None,
    ..DECODER
};

/// A tensor of every layer of a vision tower.
pub(super) const fn vision(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    layer(hf, gguf, shape).of(VISION)
}

/// A tensor with a bias in all models.
pub(super) const fn biased(rule: Rule) -> Rule {
    rule.biased(Need::Always)
}

/// `q_proj`, `k_proj` and `v_proj` in one tensor: one of them.
pub(super) const QKV: [Parts; 3] = [qkv(0), qkv(1), qkv(2)];

const fn qkv(first: usize) -> Parts {
    Parts { groups: ONE, parts: &[V_HIDDEN, V_HIDDEN, V_HIDDEN], first, count: 1 }
}

/// A fused tensor of queries, keys and values, split into three.
pub(super) const fn split_qkv(hf: &'static str) -> [Rule; 3] {
    [
        vision(hf, "attn_q.*", &[V_HIDDEN, V_HIDDEN]).with(&[Change::Parts(&QKV[0])]).biased(OPTIONAL),
        vision(hf, "attn_k.*", &[V_HIDDEN, V_HIDDEN]).with(&[Change::Parts(&QKV[1])]).biased(OPTIONAL),
        vision(hf, "attn_v.*", &[V_HIDDEN, V_HIDDEN]).with(&[Change::Parts(&QKV[2])]).biased(OPTIONAL),
    ]
}
