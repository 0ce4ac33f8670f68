//! A toy architecture for tests: this file and its line in the list are all there is of it.

use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "toy",
    classes: &[Class {
        name: "ToyForCausalLM",
        model_type: "toy",
        defaults: &[BASE, &[("rms_norm_eps", Real(0.25)), ("toy_scale", Real(0.5))]],
    }],
    layer_prefix: "toy.blocks.",
    rules: &[TENSORS],
    keys: &[COMMON, KEYS],
    head: Head::Never,
    ..DECODER
};

const TENSORS: &[Rule] = &[
    model("toy.embedding.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("toy.norm.*", "output_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    layer("mix.weight", "attn_output.weight", &[HIDDEN, HIDDEN]).with(&[Change::Transposed]),
    layer("gate_up.weight", "ffn_gate.weight", &[FFN, HIDDEN]).with(&[Change::First(Halves::Rows)]),
    layer("gate_up.weight", "ffn_up.weight", &[FFN, HIDDEN]).with(&[Change::Second(Halves::Rows)]),
    layer("experts.{X}.weight", "ffn_down_exps.weight", &[EXPERT_COUNT, HIDDEN, FFN]),
];

const KEYS: &[Key] = &[real("toy_scale", &["toy_scale"])];
