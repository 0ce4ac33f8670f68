//! OpenELM: other numbers of heads and other widths in every layer.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

/// OpenELM: other numbers of heads and other widths in every layer.
pub(super) static OPENELM: Architecture = Architecture {
    name: "openelm",
    classes: &[class("OpenELMForCausalLM", "openelm")],
    layer_prefix: "transformer.layers.",
    rules: &[OPENELM_TENSORS],
    keys: &[OPENELM_KEYS],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, ..BPE },
    ..PLAIN
};

const MODEL_DIM: Size = size(|config| config.needed("model_dim"), "model_dim", "embedding_length");

const OPENELM_HEAD: Size = size(|config| config.needed("head_dim"), "head_dim", "attention.key_length");

fn of_layer(config: &Config, key: &str, layer: u64) -> Result<u64> {
    match config.count_of_layer(key, layer)? {
        Some(count) => Ok(count),
        None => Err(AnamnesisError::parse(format!("config.json: \"{key}\" has no item for layer {layer}"))),
    }
}

const OPENELM_Q: Size = layer_size(
    |config, layer| Ok(of_layer(config, "num_query_heads", layer)?.saturating_mul(config.needed("head_dim")?)),
    "num_query_heads, head_dim",
    "attention.head_count",
);

const OPENELM_QKV: Size = layer_size(
    |config, layer| {
        let keys = of_layer(config, "num_kv_heads", layer)?.saturating_mul(2);
        let all = of_layer(config, "num_query_heads", layer)?.saturating_add(keys);
        Ok(all.saturating_mul(config.needed("head_dim")?))
    },
    "num_query_heads, num_kv_heads, head_dim",
    "attention.head_count, attention.head_count_kv",
);

const OPENELM_FFN: Size =
    layer_size(openelm_inner, "ffn_multipliers, ffn_dim_divisor, model_dim", "feed_forward_length");

/// The width of a layer's feed-forward network, rounded to the divisor.
fn openelm_inner(config: &Config, layer: u64) -> Result<u64> {
    let multipliers = config.reals("ffn_multipliers")?.unwrap_or_default();
    let Some(multiplier) = multipliers.get(usize::try_from(layer).unwrap_or(usize::MAX)) else {
        return Err(AnamnesisError::parse(format!("config.json: \"ffn_multipliers\" has no item for layer {layer}")));
    };
    let divisor = config.divisor("ffn_dim_divisor")?;
    let width = multiplier * config.needed("model_dim")? as f64;
    let rounded = ((width + divisor as f64 / 2.0) as u64 / divisor).saturating_mul(divisor).max(divisor);
    Ok(if (rounded as f64) < 0.9 * width { rounded.saturating_add(divisor) } else { rounded })
}

const OPENELM_TENSORS: &[Rule] = &[
    model("transformer.token_embeddings.*", "token_embd.*", &[VOCAB, MODEL_DIM]),
    model("transformer.norm.*", "output_norm.*", &[MODEL_DIM]),
    model("lm_head.*", "output.*", &[VOCAB, MODEL_DIM]).when(OPTIONAL),
    layer("attn_norm.*", "attn_norm.*", &[MODEL_DIM]),
    layer("ffn_norm.*", "ffn_norm.*", &[MODEL_DIM]),
    layer("attn.qkv_proj.*", "attn_qkv.*", &[OPENELM_QKV, MODEL_DIM]),
    layer("attn.q_norm.*", "attn_q_norm.*", &[OPENELM_HEAD]),
    layer("attn.k_norm.*", "attn_k_norm.*", &[OPENELM_HEAD]),
    layer("attn.out_proj.*", "attn_output.*", &[MODEL_DIM, OPENELM_Q]),
    layer("ffn.proj_1.weight", "ffn_gate.weight", &[OPENELM_FFN, MODEL_DIM]).with(&[Change::First(Halves::Rows)]),
    layer("ffn.proj_1.weight", "ffn_up.weight", &[OPENELM_FFN, MODEL_DIM]).with(&[Change::Second(Halves::Rows)]),
    layer("ffn.proj_2.*", "ffn_down.*", &[MODEL_DIM, OPENELM_FFN]),
];

fn signed(list: Option<Vec<u64>>) -> Option<Vec<i32>> {
    list.map(|list| list.into_iter().map(|item| item as i32).collect())
}

const OPENELM_KEYS: &[Key] = &[
    count("block_count", LAYER_KEYS),
    count("context_length", &["max_context_length"]),
    count("embedding_length", &["model_dim"]),
    ints_fn("feed_forward_length", |config| {
        config.per_layer(|layer| Ok(openelm_inner(config, layer)? as i32)).map(Some)
    }),
    ints_fn("attention.head_count", |config| Ok(signed(config.counts("num_query_heads")?))),
    ints_fn("attention.head_count_kv", |config| Ok(signed(config.counts("num_kv_heads")?))),
    real("rope.freq_base", &["rope_freq_constant"]),
    real_fn("attention.layer_norm_rms_epsilon", |_| Ok(Some(1e-6))),
    count("rope.dimension_count", &["head_dim"]),
    count("attention.key_length", &["head_dim"]),
    count("attention.value_length", &["head_dim"]),
    FILE_TYPE,
];
