//! The names that the files of architectures are written with.

#![allow(unused_imports, reason = "the list is the same for all architectures")]

pub(super) use super::change::{Change, Combined, Factor, Halves, Parts, Reshaped, RotatedRows, TiledHeads, all_of};
pub(super) use super::config::Config;
pub(super) use super::defaults::{Absent, BASE, ClassDefault, Count, Flag, Quotient, Real, Same};
pub(super) use super::gguf::{Gguf, shortest};
pub(super) use super::key::{
    COMMON, CONTEXT_KEYS, EPSILON_KEYS, EXPERT_SIZES, FFN_KEYS, FILE_TYPE, HEAD_KEYS, HIDDEN_KEYS, KV_HEAD_KEYS, Key,
    LAYER_KEYS, NEXTN_KEYS, POOLING, ROPE_OF_HEAD, VOCABULARY_AND_ROPE, ValueSource, WITHOUT_ROPE, count, count_fn,
    count_or, flag, flag_fn, flag_or, flags_fn, half_of_head, ints_fn, limits, longs_fn, needed, needed_real, real,
    real_fn, real_or, reals_fn, removed, sections, sliding_layers, text_fn,
};
pub(super) use super::kind::{Architecture, Class, DECODER, DerivedTensor, Head, NextnLayers, class};
pub(super) use super::measured::{Measure, ReadTensor, read, read_in_layers};
pub(super) use super::modules::{
    ATTENTION, CORRECTION, EMBED_NORM_HEAD, EMBED_NORM_TIED, EXPERTS, EXPERTS_DOWN, EXPERTS_UP, FOUR_NORMS, GATED_FFN,
    GATED_FFN_BIASED, MIXTURE, NEXTN, NEXTN_OPTIONAL, NEXTN_TENSORS, NORMS, PERMUTED_ATTENTION, POST_ATTENTION_NORMS,
    QK_NORMS, QKV_BIASED_ATTENTION, SHARED_EXPERT, SHARED_EXPERTS, TWO_HIDDEN, attention,
};
pub(super) use super::names::Rename;
pub(super) use super::need::{
    ATTENTION_BIAS, DENSE, LEADING_DENSE, MLP_BIAS, Need, OPTIONAL, OPTIONAL_SPARSE, Presence, SHARED, SPARSE, UNTIED,
    flagged, has_experts, needed_if,
};
pub(super) use super::restore::{self, GELU, set};
pub(super) use super::rope_freqs::{self, ROPE_FREQS};
pub(super) use super::rule::{Rule, Stack, layer, model};
pub(super) use super::sentence_transformers::DenseModules;
pub(super) use super::size::{
    ANY, EXPERT_COUNT, EXPERT_FFN, FFN, HEAD_DIM, HEADS, HIDDEN, KV_DIM, ONE, Q_DIM, QKV_DIM, SHARED_FFN, Size,
    TWO_FFN, VOCAB, first, heads, kv_heads, layer_size, size,
};
pub(super) use super::state_space::{self, CONTEXT_LENGTH, CONV, CONV_BIAS, CONV_KERNEL, KERNEL};
pub(super) use super::tokenizer::rules::{
    BPE, BPE_OR_RANKS, BPE_OR_RANKS_WITH_END, LLAMA_LIKE, NO_OVERRIDES, PIECES_OR_BPE, PiecesUse, PreTokenizer,
    RankedSpecials, RankedVocabulary, TokenOverrides, TokenizerClass, TokenizerRules, VocabularyKind,
};
pub(super) use super::types::{IntegerTable, TypeRules};
pub(super) use super::value::{missing, unexpected};
pub(super) use crate::error::{AnamnesisError, Result};
