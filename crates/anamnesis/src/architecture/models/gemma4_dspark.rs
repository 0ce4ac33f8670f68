//! DSpark for Gemma 4: full attention whose keys are also the values, four norms, and positions of a part of each head.

use super::dflash::{CONFIDENCE, DRAFT, KEYS, OUTER, of_target};
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "dflash",
    classes: &[class("Gemma4DSparkModel", "gemma4_dspark")],
    renames: &[
        Rename::Prefix("model.", ""),
        Rename::Anywhere("confidence_proj.", "confidence_head.proj."),
        Rename::Ending(".layer_scalar.weight", ".layer_scalar"),
    ],
    rules: &[OUTER, HEADS_OF_SPARK, LAYER, GATED_FFN],
    keys: &[COMMON, POOLING, KEYS, GEMMA_KEYS],
    derived_tensors: &[DerivedTensor { name: "rope_freqs.weight", row: None, values: frequencies }],
    read_tensors: &[read(CONFIDENCE, Measure::Digest)],
    tokenizer: of_target(&[("mask", "mask_token_id"), ("mask", "dflash_config.mask_token_id")]),
    ..DRAFT
};

const HEAD: Size = size(|config| config.divisor("global_head_dim"), "global_head_dim", "attention.key_length");
const QUERIES: Size = size(
    |config| Ok(heads(config)?.saturating_mul((HEAD.of)(config)?)),
    "num_attention_heads, global_head_dim",
    "attention.head_count, attention.key_length",
);
const KV: Size = size(
    |config| Ok(config.divisor("num_global_key_value_heads")?.saturating_mul((HEAD.of)(config)?)),
    "num_global_key_value_heads, global_head_dim",
    "attention.head_count_kv, attention.key_length",
);

const HEADS_OF_SPARK: &[Rule] = &[
    model("lm_head.weight", "output.weight", &[VOCAB, HIDDEN]).when(UNTIED),
    model("confidence_head.proj.*", "conf_proj.*", &[ONE, ANY]).when(OPTIONAL).biased(OPTIONAL),
    model("markov_head.markov_w1.*", "markov_w1.*", &[VOCAB, ANY]),
    model("markov_head.markov_w2.*", "markov_w2.*", &[VOCAB, ANY]),
];

const LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("pre_feedforward_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_feedforward_layernorm.*", "post_ffw_norm.*", &[HIDDEN]),
    layer("self_attn.q_proj.*", "attn_q.*", &[QUERIES, HIDDEN]),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV, HIDDEN]),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, QUERIES]),
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD]),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD]),
    layer("layer_scalar", "layer_output_scale.weight", &[ONE]).when(OPTIONAL),
];

const GEMMA_KEYS: &[Key] = &[
    count_fn("attention.head_count_kv", |config| {
        check(config)?;
        config.needed("num_global_key_value_heads").map(Some)
    }),
    count_fn("attention.key_length", |config| (HEAD.of)(config).map(Some)),
    count_fn("attention.value_length", |config| (HEAD.of)(config).map(Some)),
    count_fn("rope.dimension_count", |config| (HEAD.of)(config).map(Some)),
    real_fn("embedding_scale", |config| Ok(Some((first(config, HIDDEN_KEYS)? as f64).sqrt()))),
    real_fn("attention.scale", |_| Ok(Some(1.0))),
    text_fn("hidden_activation", |_| Ok(Some(ACTIVATION))),
    flag_or("sample_from_anchor", "sample_from_anchor", true),
    flag_fn("has_confidence_head", |config| Ok(Some(config.measured.get(None, CONFIDENCE).is_some()))),
];

const ACTIVATION: &str = "gelu_pytorch_tanh";

/// Refuses drafts that llama.cpp does not run.
fn check(config: &Config) -> Result<()> {
    let wrong = |key: &str, needed: &str| AnamnesisError::parse(format!("config.json: \"{key}\": {needed} is needed"));
    if !config.is_set("attention_k_eq_v")? {
        return Err(wrong("attention_k_eq_v", "true"));
    }
    for key in ["attention_bias", "enable_moe_block"] {
        if config.is_set(key)? {
            return Err(wrong(key, "false"));
        }
    }
    let kinds = config.texts("layer_types")?.unwrap_or_default();
    if kinds.len() as u64 != config.layers()? || kinds.iter().any(|kind| *kind != "full_attention") {
        return Err(wrong("layer_types", "full_attention for every layer"));
    }
    for (key, needed) in [
        ("hidden_activation", ACTIVATION),
        ("markov_head_type", "vanilla"),
        ("dflash_config.markov_head_type", "vanilla"),
    ] {
        if config.text(key)?.is_some_and(|kind| kind != needed) {
            return Err(wrong(key, needed));
        }
    }
    let tokens = config.needed("vocab_size")?;
    if config.count(&["draft_vocab_size"])?.is_some_and(|size| size != 0 && size != tokens) {
        return Err(wrong("draft_vocab_size", "the size of the target's vocabulary"));
    }
    if config.flag("rope_is_neox_style")? == Some(false) {
        return Err(wrong("rope_is_neox_style", "true"));
    }
    for keys in
        [["dflash_config.mask_token_id", "mask_token_id"], ["dflash_config.target_layer_ids", "target_layer_ids"]]
    {
        if keys.iter().all(|key| config.get(key).is_none()) {
            return Err(AnamnesisError::parse(format!("config.json has no \"{}\"", keys[1])));
        }
    }
    for key in ["dflash_config.final_logit_softcapping", "final_logit_softcapping"] {
        if config.real(&[key])?.is_some_and(|cap| cap != 0.0) {
            return Err(wrong(key, "0 or none"));
        }
    }
    if config.is_set("dflash_config.use_swa")? {
        config.divisor("dflash_config.swa_window_size")?;
    }
    frequencies(config).map(drop)
}

/// The largest head that is credible.
const LARGEST_HEAD: u64 = 1 << 16;

/// The divisors of RoPE's frequencies: the dimensions that it does not rotate have large ones.
fn frequencies(config: &Config) -> Result<Option<Vec<f32>>> {
    let nested = ["rope_parameters.full_attention.rope_type", "rope_parameters.full_attention.partial_rotary_factor"];
    let flat = ["rope_parameters.rope_type", "rope_parameters.partial_rotary_factor"];
    let [kind, part] = if config.get("rope_parameters.full_attention").is_some() { nested } else { flat };
    match config.text(kind)? {
        Some("default") => return Ok(None),
        Some("proportional") => {}
        _ => {
            let why = format!("config.json: \"{kind}\": default or proportional is needed");
            return Err(AnamnesisError::parse(why));
        }
    }
    let (size, share) = ((HEAD.of)(config)?, config.real(&[part])?.unwrap_or(0.25));
    let rotated = (size as f64 * share / 2.0) as u64;
    let is_whole = size as f64 * share == 2.0 * rotated as f64;
    if size > LARGEST_HEAD || share <= 0.0 || share > 1.0 || !is_whole {
        let why = format!("config.json: heads of {size} (global_head_dim) with a part of {share} rotated ({part})");
        return Err(AnamnesisError::parse(why));
    }
    Ok(Some((0..size / 2).map(|dimension| if dimension < rotated { 1.0 } else { 1e30 }).collect()))
}
