//! Jais: GPT-2 with SwiGLU and ALiBi, whose embedding and head have factors.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    name: "jais",
    classes: &[class("JAISLMHeadModel", "jais")],
    layer_prefix: "transformer.h.",
    rules: &[TENSORS],
    read_tensors: &[read(SLOPES, Measure::Values)],
    early_keys: &[real_fn("attention.max_alibi_bias", bias)],
    keys: &[&[
        count("block_count", LAYER_KEYS),
        count("context_length", &["n_positions"]),
        count("embedding_length", &["n_embd"]),
        count("feed_forward_length", &["n_inner"]),
        count("attention.head_count", &["n_head"]),
        real("attention.layer_norm_epsilon", &["layer_norm_epsilon"]),
        FILE_TYPE,
    ]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Gpt2, "jais")], ..BPE },
    restore: None,
    not_held: Some("mup_embeddings_scale and mup_width_scale, by which its weights are multiplied"),
    ..PLAIN
};

const SLOPES: &str = "transformer.relative_pe.slopes";
const HIDDEN: Size = size(|config| config.needed("n_embd"), "n_embd", "embedding_length");
const INNER: Size = size(|config| config.needed("n_inner"), "n_inner", "feed_forward_length");
const THREE_HIDDEN: Size = size(|config| Ok((HIDDEN.of)(config)?.saturating_mul(3)), "n_embd", "embedding_length");

const TENSORS: &[Rule] = &[
    model(SLOPES, "", &[]).left_out(),
    model("transformer.wte.*", "token_embd.*", &[VOCAB, HIDDEN]).with(&[Change::Times(Factor::Derived(embedding))]),
    model("transformer.ln_f.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).with(&[Change::Times(Factor::Derived(head))]).when(OPTIONAL),
    layer("attn.bias", "", &[]).left_out(),
    layer("ln_1.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("ln_2.*", "ffn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("attn.c_attn.weight", "attn_qkv.weight", &[THREE_HIDDEN, HIDDEN]).with(&[Change::Transposed]),
    layer("attn.c_attn.bias", "attn_qkv.bias", &[THREE_HIDDEN]).when(OPTIONAL),
    layer("attn.c_proj.weight", "attn_output.weight", &[HIDDEN, HIDDEN]).with(&[Change::Transposed]),
    layer("attn.c_proj.bias", "attn_output.bias", &[HIDDEN]).when(OPTIONAL),
    layer("mlp.c_fc.weight", "ffn_up.weight", &[INNER, HIDDEN]).with(&[Change::Transposed]),
    layer("mlp.c_fc.bias", "ffn_up.bias", &[INNER]).when(OPTIONAL),
    layer("mlp.c_fc2.weight", "ffn_gate.weight", &[INNER, HIDDEN]).with(&[Change::Transposed]),
    layer("mlp.c_fc2.bias", "ffn_gate.bias", &[INNER]).when(OPTIONAL),
    layer("mlp.c_proj.weight", "ffn_down.weight", &[HIDDEN, INNER]).with(&[Change::Transposed]),
    layer("mlp.c_proj.bias", "ffn_down.bias", &[HIDDEN]).when(OPTIONAL),
];

/// The factor of the embedding.
fn embedding(config: &Config, _layer: Option<u64>) -> Result<f32> {
    match config.real(&["mup_embeddings_scale"])? {
        Some(scale) => Ok(scale as f32),
        None => Ok(config.needed_real("embeddings_scale")? as f32),
    }
}

/// The factor of the head.
fn head(config: &Config, _layer: Option<u64>) -> Result<f32> {
    match config.real(&["mup_output_alpha"])? {
        Some(alpha) => Ok((alpha * config.needed_real("mup_width_scale")?) as f32),
        None => Ok(config.needed_real("width_scale")? as f32),
    }
}

/// ALiBi's largest bias, from the slope of the first head.
fn bias(config: &Config) -> Result<Option<f64>> {
    for (key, wanted) in [("activation_function", "swiglu"), ("position_embedding_type", "alibi")] {
        if config.text(key)? != Some(wanted) {
            return Err(AnamnesisError::parse(format!("config.json: \"{key}\" is not {wanted}")));
        }
    }
    let Some(&[first, ..]) = config.measured.get(None, SLOPES) else { return Ok(Some(8.0)) };
    let heads = heads(config)?;
    let closest = f64::from(1u32 << heads.ilog2().min(31));
    let bias = -(f64::from(first).log2() * closest).round_ties_even();
    if !bias.is_finite() {
        return Err(AnamnesisError::parse(format!("its first value is {first}, which is no slope")).in_tensor(SLOPES));
    }
    Ok(Some(bias))
}
