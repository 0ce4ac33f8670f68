//! Nemotron: norms stored as the difference from 1, no gate in the feed-forward network.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "nemotron",
    classes: &[class("NemotronForCausalLM", "nemotron")],
    rules: &[TENSORS, ATTENTION],
    keys: &[COMMON, KEYS],
    tokenizer: TokenizerRules {
        pieces: PiecesUse::Required,
        overrides: TokenOverrides { fixed_ids: &[("pad", 0), ("unk", 1)], ..NO_OVERRIDES },
        ..BPE
    },
    ..PLAIN
};

const PLUS: &[Change] = &[Change::PlusOne];

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.weight", "output_norm.weight", &[HIDDEN]).with(PLUS),
    model("model.norm.bias", "output_norm.bias", &[HIDDEN]).when(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.weight", "attn_norm.weight", &[HIDDEN]).with(PLUS),
    layer("input_layernorm.bias", "attn_norm.bias", &[HIDDEN]).when(OPTIONAL),
    layer("post_attention_layernorm.weight", "ffn_norm.weight", &[HIDDEN]).with(PLUS),
    layer("post_attention_layernorm.bias", "ffn_norm.bias", &[HIDDEN]).when(OPTIONAL),
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).biased(MLP_BIAS),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).biased(MLP_BIAS),
];

/// The factor of linear scaling.
fn factor(config: &Config) -> Result<Option<f64>> {
    let own = config.real(&["factor"])?.filter(|factor| *factor != 0.0);
    Ok(own.or(config.rope().real("factor")?))
}

const KEYS: &[Key] = &[
    count("vocab_size", &["vocab_size"]),
    real("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"]),
    count_fn("rope.dimension_count", |config| {
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
        Ok(Some((part * config.needed("hidden_size")? as f64) as u64 / config.divisor("num_attention_heads")?))
    }),
    text_fn("rope.scaling.type", |config| Ok(Some(if factor(config)?.is_some() { "linear" } else { "none" }))),
    real_fn("rope.scaling.factor", factor),
];
