//! HRM-Text: two stacks of layers that run several times, with attention gates and without weights in norms.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "hrm_text",
    classes: &[class("HrmTextForCausalLM", "hrm_text")],
    layer_prefix: "model.L_module.layers.",
    renames: &[Rename::FurtherLayers("model.H_module.layers.")],
    rules: &[TENSORS],
    keys: &[COMMON, KEYS],
    nextn_layers: NextnLayers::SecondStack("H_module.layers."),
    restore: None,
    ..PLAIN
};

const PARTS: &[Size] = &[Q_DIM, Q_DIM, Q_DIM, Q_DIM];
const GATE: &[Change] = &[Change::Parts(&Parts { groups: ONE, parts: PARTS, first: 0, count: 1 })];
const QUERY: &[Change] = &[Change::Parts(&Parts { groups: ONE, parts: PARTS, first: 1, count: 1 })];
const KEY: &[Change] = &[Change::Parts(&Parts { groups: ONE, parts: PARTS, first: 2, count: 1 })];
const VALUE: &[Change] = &[Change::Parts(&Parts { groups: ONE, parts: PARTS, first: 3, count: 1 })];

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    model("model.z_L_init", "hrm.z_l_init", &[HIDDEN]),
    layer("attn.gqkv_proj.weight", "attn_gate.weight", &[Q_DIM, HIDDEN]).with(GATE),
    layer("attn.gqkv_proj.weight", "attn_q.weight", &[Q_DIM, HIDDEN]).with(QUERY),
    layer("attn.gqkv_proj.weight", "attn_k.weight", &[Q_DIM, HIDDEN]).with(KEY),
    layer("attn.gqkv_proj.weight", "attn_v.weight", &[Q_DIM, HIDDEN]).with(VALUE),
    layer("attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("mlp.gate_up_proj.weight", "ffn_gate.weight", &[FFN, HIDDEN]).with(&[Change::First(Halves::Rows)]),
    layer("mlp.gate_up_proj.weight", "ffn_up.weight", &[FFN, HIDDEN]).with(&[Change::Second(Halves::Rows)]),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];

const KEYS: &[Key] = &[
    count_fn("block_count", runs),
    ROPE_OF_HEAD,
    needed_real("embedding_scale", "embedding_scale"),
    count_fn("hrm.layers_per_stack", |config| config.layers().map(Some)),
    needed("hrm.h_cycles", "H_cycles"),
    needed("hrm.l_cycles", "L_cycles"),
    flag_or("hrm.prefix_lm", "prefix_lm", false),
];

/// llama.cpp counts the runs of all layers. `num_hidden_layers` may be their number, or another one, if
/// `num_layers_per_stack` has that of a stack; the tensors show which layers there are.
fn runs(config: &Config) -> Result<Option<u64>> {
    let cycles = config.needed("L_cycles")?.saturating_add(1);
    Ok(Some(config.layers()?.saturating_mul(config.needed("H_cycles")?).saturating_mul(cycles)))
}
