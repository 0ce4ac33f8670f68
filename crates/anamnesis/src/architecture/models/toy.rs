//! A toy architecture for tests: this file and its line in the list are all there is of it.

use crate::architecture::change::{Change, Halves};
use crate::architecture::defaults::{BASE, Real};
use crate::architecture::key::{COMMON, Key, real};
use crate::architecture::kind::{Architecture, Class, Head, USUAL};
use crate::architecture::rule::{Rule, layer, model};
use crate::architecture::size::{EXPERTS, INNER, VOCABULARY, WIDTH};

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "toy",
    classes: &[Class {
        name: "ToyForCausalLM",
        model_type: "toy",
        defaults: &[BASE, &[("rms_norm_eps", Real(0.25)), ("toy_scale", Real(0.5))]],
    }],
    layers: "toy.blocks.",
    rules: &[TENSORS],
    keys: &[COMMON, KEYS],
    head: Head::Never,
    ..USUAL
};

const TENSORS: &[Rule] = &[
    model("toy.embedding.*", "token_embd.*", &[VOCABULARY, WIDTH]),
    model("toy.norm.*", "output_norm.*", &[WIDTH]).with(&[Change::PlusOne]),
    layer("mix.weight", "attn_output.weight", &[WIDTH, WIDTH]).with(&[Change::Transposed]),
    layer("gate_up.weight", "ffn_gate.weight", &[INNER, WIDTH]).with(&[Change::First(Halves::Rows)]),
    layer("gate_up.weight", "ffn_up.weight", &[INNER, WIDTH]).with(&[Change::Second(Halves::Rows)]),
    layer("experts.{X}.weight", "ffn_down_exps.weight", &[EXPERTS, WIDTH, INNER]),
];

const KEYS: &[Key] = &[real("toy_scale", &["toy_scale"])];
