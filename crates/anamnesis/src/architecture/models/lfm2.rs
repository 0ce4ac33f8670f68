//! LFM 2: short convolutions and attention.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static DENSE_MODEL: Architecture = Architecture {
    name: "lfm2",
    classes: &[class("Lfm2ForCausalLM", "lfm2"), class("LFM2ForCausalLM", "lfm2")],
    renames: &[Rename::Anywhere("lfm.", "model.")],
    rules: &[TENSORS, DENSE_FFN],
    keys: &[COMMON, KEYS, FFN_KEY],
    tokenizer: TOKENS,
    restore: Some(restored),
    ..PLAIN
};

/// LFM 2 as an encoder (ColBERT), with the dense module of sentence-transformers.
pub(super) static ENCODER: Architecture = Architecture {
    name: "lfm2",
    classes: &[class("Lfm2Model", "lfm2"), class("Lfm2BidirectionalModel", "lfm2")],
    renames: &[Rename::Prefix("layers.", "model.layers."), Rename::Prefix("embed", "model.embed")],
    rules: &[TENSORS, DENSE_FFN],
    early_keys: &[count_fn("embedding_length_out", |config| {
        Ok(config.dense_modules.first().map(|module| module.rows))
    })],
    keys: &[COMMON, KEYS, FFN_KEY, BIDIRECTIONAL, POOLING],
    tokenizer: TOKENS,
    dense_modules: DenseModules::Always("1_Dense"),
    restore: None,
    ..PLAIN
};

/// The detokenizer of LFM 2.5 Audio: from the embeddings of codes to spectra, with a window in the layers of attention.
pub(super) static DETOKENIZER: Architecture = Architecture {
    name: "lfm2",
    classes: &[class("Lfm25AudioTokenizer", "lfm2")],
    renames: &[Rename::Anywhere("lfm.", "model.")],
    // The embeddings of codes are in the projector's file, the window of the inverse transform in no file.
    dropped: &["emb.emb", "istft.window"],
    rules: &[
        TENSORS,
        DENSE_FFN,
        &[model("lin.*", "dense_2.*", &[size(|config| config.divisor("output_size"), "output_size", ""), HIDDEN])
            .biased(OPTIONAL)],
    ],
    keys: &[
        COMMON,
        KEYS,
        FFN_KEY,
        &[needed("attention.sliding_window", "sliding_window"), needed("embedding_length_out", "output_size")],
    ],
    tokenizer: TokenizerRules { kind: VocabularyKind::None, ..BPE },
    restore: None,
    ..PLAIN
};

const BIDIRECTIONAL: &[Key] = &[flag_fn("attention.causal", |config| {
    let class = config.texts("architectures")?.and_then(|classes| classes.first().copied());
    Ok((class == Some("Lfm2BidirectionalModel")).then_some(false))
})];

pub(super) static MOE: Architecture = Architecture {
    name: "lfm2moe",
    classes: &[class("Lfm2MoeForCausalLM", "lfm2_moe")],
    rules: &[TENSORS, LEADING_FFN, EXPERTS_RULES],
    keys: &[COMMON, MOE_KEYS, KEYS],
    tokenizer: TOKENS,
    restore: Some(restored),
    ..PLAIN
};

const TOKENS: TokenizerRules = TokenizerRules { pre: &[(PreTokenizer::Llama3, "lfm2")], ..BPE };

fn is_attention(config: &Config, layer: u64) -> Result<bool> {
    Ok(match config.text_of_layer("layer_types", layer)? {
        Some("full_attention") => true,
        // The converter knows no window in models with experts.
        Some("sliding_attention") => config.get("moe_intermediate_size").is_none(),
        _ => false,
    })
}

const FULL: Need = Need::When("layer_types", |config, layer| Ok(needed_if(is_attention(config, layer)?)));
const SHORT: Need = Need::When("layer_types", |config, layer| Ok(needed_if(!is_attention(config, layer)?)));
const SHORT_BIAS: Need = Need::When("layer_types, conv_bias", |config, layer| match is_attention(config, layer)? {
    true => Ok(Presence::Surplus),
    false => flagged(config, "conv_bias"),
});

const KERNEL: Size = size(|config| config.needed("conv_L_cache"), "conv_L_cache", "shortconv.l_cache");
const THREE: Size =
    size(|config| Ok(config.needed("hidden_size")?.saturating_mul(3)), "hidden_size", "embedding_length");

const TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.embedding_norm.*", "token_embd_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("operator_norm.*", "attn_norm.*", &[HIDDEN]),
    layer("ffn_norm.*", "ffn_norm.*", &[HIDDEN]),
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).when(FULL),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).when(FULL),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).when(FULL),
    layer("self_attn.out_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]).when(FULL),
    layer("self_attn.q_layernorm.*", "attn_q_norm.*", &[HEAD_DIM]).when(FULL),
    layer("self_attn.k_layernorm.*", "attn_k_norm.*", &[HEAD_DIM]).when(FULL),
    layer("conv.conv.weight", "shortconv.conv.weight", &[HIDDEN, KERNEL]).with(&[Change::WithoutMiddle]).when(SHORT),
    layer("conv.conv.bias", "shortconv.conv.bias", &[HIDDEN]).when(SHORT_BIAS),
    layer("conv.in_proj.*", "shortconv.in_proj.*", &[THREE, HIDDEN]).when(SHORT).biased(SHORT_BIAS),
    layer("conv.out_proj.*", "shortconv.out_proj.*", &[HIDDEN, HIDDEN]).when(SHORT).biased(SHORT_BIAS),
];

/// The size of the feed-forward network, which is adjusted by default.
fn adjusted(config: &Config) -> Result<u64> {
    let size = first(config, &["block_ff_dim", "intermediate_size"])?;
    if !config.is_set("block_auto_adjust_ff_dim")? {
        return Ok(size);
    }
    let mut size = (2.0 * size as f64 / 3.0) as u64;
    if let Some(multiplier) = config.real(&["block_ffn_dim_multiplier"])? {
        size = (multiplier * size as f64) as u64;
    }
    let multiple = config.divisor("block_multiple_of")?;
    Ok(size.checked_next_multiple_of(multiple).unwrap_or(u64::MAX))
}

const ADJUSTED: Size = size(
    adjusted,
    "intermediate_size, block_ff_dim, block_auto_adjust_ff_dim, block_ffn_dim_multiplier, block_multiple_of",
    "feed_forward_length",
);

const DENSE_FFN: &[Rule] = &[
    layer("feed_forward.w1.*", "ffn_gate.*", &[ADJUSTED, HIDDEN]),
    layer("feed_forward.w2.*", "ffn_down.*", &[HIDDEN, ADJUSTED]),
    layer("feed_forward.w3.*", "ffn_up.*", &[ADJUSTED, HIDDEN]),
];

const LEADING_FFN: &[Rule] = &[
    layer("feed_forward.w1.*", "ffn_gate.*", &[FFN, HIDDEN]).when(DENSE),
    layer("feed_forward.w2.*", "ffn_down.*", &[HIDDEN, FFN]).when(DENSE),
    layer("feed_forward.w3.*", "ffn_up.*", &[FFN, HIDDEN]).when(DENSE),
];

const EXPERTS_RULES: &[Rule] = &[
    layer("feed_forward.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("feed_forward.expert_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE),
    layer("feed_forward.experts.{X}.w1.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("feed_forward.experts.{X}.w2.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
    layer("feed_forward.experts.{X}.w3.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE),
];

const KEYS: &[Key] = &[
    ints_fn("attention.head_count_kv", |config| {
        let heads = kv_heads(config)? as i32;
        config.per_layer(|layer| Ok(if is_attention(config, layer)? { heads } else { 0 })).map(Some)
    }),
    count("vocab_size", &["vocab_size"]),
    count("shortconv.l_cache", &["conv_L_cache"]),
    real("attention.layer_norm_rms_epsilon", &["norm_eps"]),
];

const FFN_KEY: &[Key] = &[count_fn("feed_forward_length", |config| adjusted(config).map(Some))];

const MOE_KEYS: &[Key] = &[
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("leading_dense_block_count", &["num_dense_layers"]),
    count_fn("expert_gating_func", |_| Ok(Some(2))),
];

fn restored(file: &Gguf<'_>, config: &mut serde_json::Map<String, serde_json::Value>) -> Result<usize> {
    restore::plain(file, config)?;
    restore::kinds_by_kv_heads(file, config, "layer_types", "full_attention", "conv");
    set(config, "block_auto_adjust_ff_dim", false);
    Ok(0)
}
