//! Llama-like models of other vendors: Arcee, Nanbeige.

use crate::architecture::families::LLAMA;
use crate::architecture::prelude::*;

pub(super) static ARCEE: Architecture = Architecture {
    name: "arcee",
    classes: &[class("ArceeForCausalLM", "arcee")],
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, UNGATED],
    keys: &[COMMON, VOCABULARY_AND_ROPE, POOLING],
    ..LLAMA
};

/// A feed-forward network without a gate.
const UNGATED: &[Rule] = &[
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).biased(MLP_BIAS),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).biased(MLP_BIAS),
];

/// Layers that are passed several times.
pub(super) static NANBEIGE: Architecture = Architecture {
    name: "nanbeige",
    classes: &[class("NanbeigeForCausalLM", "nanbeige")],
    keys: &[COMMON, VOCABULARY_AND_ROPE, LOOPS],
    ..LLAMA
};

const LOOPS: &[Key] = &[
    count_fn("num_loops", |config| Ok(Some(config.count(&["num_loops"])?.unwrap_or(1).max(1)))),
    flag_fn("skip_loop_final_norm", |config| Ok(Some(config.is_set("skip_loop_final_norm")?))),
];
