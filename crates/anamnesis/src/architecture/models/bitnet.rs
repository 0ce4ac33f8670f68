//! BitNet b1.58, whose weights become ternary.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "bitnet",
    classes: &[class("BitnetForCausalLM", "bitnet"), class("BitNetForCausalLM", "bitnet")],
    rules: &[EMBED_NORM_HEAD, NORMS, TERNARY],
    read_tensors: &[
        read_in_layers(Q, Measure::MeanMagnitude),
        read_in_layers(K, Measure::MeanMagnitude),
        read_in_layers(V, Measure::MeanMagnitude),
        read_in_layers(OUTPUT, Measure::MeanMagnitude),
        read_in_layers(GATE, Measure::MeanMagnitude),
        read_in_layers(UP, Measure::MeanMagnitude),
        read_in_layers(DOWN, Measure::MeanMagnitude),
    ],
    keys: &[COMMON, LINEAR],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, ..BPE },
    restore: None,
    not_held: Some("the matrices before they were rounded to -1, 0 and 1"),
    ..PLAIN
};

const Q: &str = "self_attn.q_proj.weight";
const K: &str = "self_attn.k_proj.weight";
const V: &str = "self_attn.v_proj.weight";
const OUTPUT: &str = "self_attn.o_proj.weight";
const GATE: &str = "mlp.gate_proj.weight";
const UP: &str = "mlp.up_proj.weight";
const DOWN: &str = "mlp.down_proj.weight";

const TERNARY: &[Rule] = &[
    layer(Q, "attn_q.weight", &[Q_DIM, HIDDEN]).with(&[Change::Ternary(Q)]),
    layer(K, "attn_k.weight", &[KV_DIM, HIDDEN]).with(&[Change::Ternary(K)]),
    layer(V, "attn_v.weight", &[KV_DIM, HIDDEN]).with(&[Change::Ternary(V)]),
    layer(OUTPUT, "attn_output.weight", &[HIDDEN, Q_DIM]).with(&[Change::Ternary(OUTPUT)]),
    layer(GATE, "ffn_gate.weight", &[FFN, HIDDEN]).with(&[Change::Ternary(GATE)]),
    layer(UP, "ffn_up.weight", &[FFN, HIDDEN]).with(&[Change::Ternary(UP)]),
    layer(DOWN, "ffn_down.weight", &[HIDDEN, FFN]).with(&[Change::Ternary(DOWN)]),
    layer("self_attn.inner_attn_ln.*", "attn_sub_norm.*", &[Q_DIM]),
    layer("mlp.ffn_layernorm.*", "ffn_sub_norm.*", &[FFN]),
];

const LINEAR: &[Key] =
    &[text_fn("rope.scaling.type", |_| Ok(Some("linear"))), real_fn("rope.scaling.factor", |_| Ok(Some(1.0)))];
