//! The names that the files of architectures are written with.

pub(super) use super::change::{Change, Factor, Halves};
pub(super) use super::config::Config;
pub(super) use super::defaults::{Absent, BASE, ClassDefault, Count, Flag, Quotient, Real, Same};
pub(super) use super::gguf::{Gguf, shortest};
pub(super) use super::key::{
    COMMON, CONTEXT_KEYS, EPSILON_KEYS, EXPERT_SIZES, FFN_KEYS, FILE_TYPE, HEAD_KEYS, HIDDEN_KEYS, KV_HEAD_KEYS, Key,
    LAYER_KEYS, VOCABULARY_AND_ROPE, ValueSource, WITHOUT_ROPE, count, count_fn, half_of_head, real, real_fn,
};
pub(super) use super::kind::{Architecture, Class, DECODER, DerivedTensor, Head};
pub(super) use super::modules::{
    ATTENTION, EMBED_NORM_HEAD, EMBED_NORM_TIED, EXPERTS, EXPERTS_DOWN, EXPERTS_UP, FOUR_NORMS, GATED_FFN,
    GATED_FFN_BIASED, NORMS, PERMUTED_ATTENTION, QK_NORMS, QKV_BIASED_ATTENTION, SHARED_EXPERT, SHARED_EXPERTS,
    attention,
};
pub(super) use super::need::{ATTENTION_BIAS, MLP_BIAS, Need, Presence, SPARSE, UNTIED, flagged, has_experts};
pub(super) use super::restore::{self, GELU, set};
pub(super) use super::rope_freqs::{self, ROPE_FREQS};
pub(super) use super::rule::{Rule, layer, model};
pub(super) use super::size::{
    EXPERT_COUNT, EXPERT_FFN, FFN, HEAD_DIM, HEADS, HIDDEN, KV_DIM, ONE, Q_DIM, QKV_DIM, Size, TWO_FFN, VOCAB, first,
    size,
};
pub(super) use super::state_space::{self, CONTEXT_LENGTH, CONV, CONV_BIAS, CONV_KERNEL, KERNEL};
pub(super) use super::tokenizer::rules::{
    BPE, LLAMA_LIKE, PIECES_OR_BPE, PiecesUse, PreTokenizer, TokenizerClass, TokenizerRules,
};
pub(super) use crate::error::{AnamnesisError, Result};
