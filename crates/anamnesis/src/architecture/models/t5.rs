//! T5: an encoder and a decoder.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static BOTH: Architecture = Architecture {
    name: "t5",
    classes: &[
        class("T5ForConditionalGeneration", "t5"),
        class("T5WithLMHeadModel", "t5"),
        class("MT5ForConditionalGeneration", "mt5"),
        class("UMT5ForConditionalGeneration", "umt5"),
        class("UMT5Model", "umt5"),
    ],
    dropped: &["decoder.embed_tokens.", "encoder.embed_tokens."],
    rules: &[EMBEDDING, ENCODER, DECODER_STACK],
    keys: &[KEYS, &[count("decoder_start_token_id", &["decoder_start_token_id"]), FILE_TYPE]],
    tokenizer: TokenizerRules { kind: VocabularyKind::Unigram, ..BPE },
    restore: None,
    not_held: Some("feed_forward_proj and relative_attention_max_distance"),
    ..PLAIN
};

pub(super) static ENCODER_ONLY: Architecture = Architecture {
    name: "t5encoder",
    classes: &[class("T5EncoderModel", "t5")],
    dropped: &["encoder.embed_tokens."],
    rules: &[EMBEDDING, ENCODER],
    keys: &[KEYS, &[removed("decoder_block_count"), FILE_TYPE]],
    tokenizer: TokenizerRules { kind: VocabularyKind::Unigram, ..BPE },
    restore: None,
    not_held: Some("feed_forward_proj and relative_attention_max_distance"),
    ..PLAIN
};

const MODEL: Size = size(|config| config.needed("d_model"), "d_model", "embedding_length");
const INNER: Size = size(|config| config.needed("d_ff"), "d_ff", "feed_forward_length");
const HEAD_COUNT: Size = size(|config| config.divisor("num_heads"), "num_heads", "attention.head_count");
const ALL_HEADS: Size = size(
    |config| Ok(config.divisor("num_heads")?.saturating_mul(config.needed("d_kv")?)),
    "num_heads, d_kv",
    "attention.head_count, attention.key_length",
);
const BUCKETS: Size = size(
    |config| config.needed("relative_attention_num_buckets"),
    "relative_attention_num_buckets",
    "attention.relative_buckets_count",
);
const DECODER_LAYERS: Size = size(
    |config| match config.count(&["num_decoder_layers"])? {
        Some(layers) => Ok(layers),
        None => config.layers(),
    },
    "num_decoder_layers",
    "decoder_block_count",
);

const EMBEDDING: &[Rule] = &[
    model("shared.*", "token_embd.*", &[VOCAB, MODEL]),
    model("encoder.final_layer_norm.*", "enc.output_norm.*", &[MODEL]),
    model("lm_head.*", "output.*", &[VOCAB, MODEL]).when(OPTIONAL),
];

const ENC: Stack = Stack { hf: "encoder.block.", gguf: "enc.blk.", layers: None };
const DEC: Stack = Stack { hf: "decoder.block.", gguf: "dec.blk.", layers: Some(DECODER_LAYERS) };

/// A bias by relative position: in the first layer, or in all.
const FIRST: Need = Need::When("model_type", |config, layer| {
    Ok(match config.text("model_type")? {
        Some("umt5") => Presence::Needed,
        _ if layer == 0 => Presence::Needed,
        _ => Presence::Surplus,
    })
});
const GATED: Need = Need::When("feed_forward_proj, is_gated_act", |config, _| Ok(needed_if(is_gated(config)?)));

fn is_gated(config: &Config) -> Result<bool> {
    match config.flag("is_gated_act")? {
        Some(gated) => Ok(gated),
        None => Ok(config.text("feed_forward_proj")?.is_some_and(|kind| kind.starts_with("gated"))),
    }
}

const ENCODER: &[Rule] = &[
    layer("layer.0.SelfAttention.q.*", "attn_q.*", &[ALL_HEADS, MODEL]).of(ENC),
    layer("layer.0.SelfAttention.k.*", "attn_k.*", &[ALL_HEADS, MODEL]).of(ENC),
    layer("layer.0.SelfAttention.v.*", "attn_v.*", &[ALL_HEADS, MODEL]).of(ENC),
    layer("layer.0.SelfAttention.o.*", "attn_o.*", &[MODEL, ALL_HEADS]).of(ENC),
    layer("layer.0.SelfAttention.relative_attention_bias.*", "attn_rel_b.*", &[BUCKETS, HEAD_COUNT])
        .when(FIRST)
        .of(ENC),
    layer("layer.0.layer_norm.*", "attn_norm.*", &[MODEL]).of(ENC),
    layer("layer.1.DenseReluDense.wi.*", "ffn_up.*", &[INNER, MODEL]).of(ENC),
    layer("layer.1.DenseReluDense.wi_0.*", "ffn_gate.*", &[INNER, MODEL]).when(GATED).of(ENC),
    layer("layer.1.DenseReluDense.wi_1.*", "ffn_up.*", &[INNER, MODEL]).when(GATED).of(ENC),
    layer("layer.1.DenseReluDense.wo.*", "ffn_down.*", &[MODEL, INNER]).of(ENC),
    layer("layer.1.layer_norm.*", "ffn_norm.*", &[MODEL]).of(ENC),
];

const DECODER_STACK: &[Rule] = &[
    model("decoder.final_layer_norm.*", "dec.output_norm.*", &[MODEL]),
    layer("layer.0.SelfAttention.q.*", "attn_q.*", &[ALL_HEADS, MODEL]).of(DEC),
    layer("layer.0.SelfAttention.k.*", "attn_k.*", &[ALL_HEADS, MODEL]).of(DEC),
    layer("layer.0.SelfAttention.v.*", "attn_v.*", &[ALL_HEADS, MODEL]).of(DEC),
    layer("layer.0.SelfAttention.o.*", "attn_o.*", &[MODEL, ALL_HEADS]).of(DEC),
    layer("layer.0.SelfAttention.relative_attention_bias.*", "attn_rel_b.*", &[BUCKETS, HEAD_COUNT])
        .when(FIRST)
        .of(DEC),
    layer("layer.0.layer_norm.*", "attn_norm.*", &[MODEL]).of(DEC),
    layer("layer.1.EncDecAttention.q.*", "cross_attn_q.*", &[ALL_HEADS, MODEL]).of(DEC),
    layer("layer.1.EncDecAttention.k.*", "cross_attn_k.*", &[ALL_HEADS, MODEL]).of(DEC),
    layer("layer.1.EncDecAttention.v.*", "cross_attn_v.*", &[ALL_HEADS, MODEL]).of(DEC),
    layer("layer.1.EncDecAttention.o.*", "cross_attn_o.*", &[MODEL, ALL_HEADS]).of(DEC),
    layer("layer.1.EncDecAttention.relative_attention_bias.*", "cross_attn_rel_b.*", &[BUCKETS, HEAD_COUNT])
        .when(OPTIONAL)
        .of(DEC),
    layer("layer.1.layer_norm.*", "cross_attn_norm.*", &[MODEL]).of(DEC),
    layer("layer.2.DenseReluDense.wi.*", "ffn_up.*", &[INNER, MODEL]).of(DEC),
    layer("layer.2.DenseReluDense.wi_0.*", "ffn_gate.*", &[INNER, MODEL]).when(GATED).of(DEC),
    layer("layer.2.DenseReluDense.wi_1.*", "ffn_up.*", &[INNER, MODEL]).when(GATED).of(DEC),
    layer("layer.2.DenseReluDense.wo.*", "ffn_down.*", &[MODEL, INNER]).of(DEC),
    layer("layer.2.layer_norm.*", "ffn_norm.*", &[MODEL]).of(DEC),
];

const KEYS: &[Key] = &[
    count_or("context_length", &["n_positions"], 512),
    count("embedding_length", &["d_model"]),
    count("feed_forward_length", &["d_ff"]),
    count("block_count", LAYER_KEYS),
    count("decoder_block_count", &["num_decoder_layers"]),
    count("attention.head_count", &["num_heads"]),
    count("attention.key_length", &["d_kv"]),
    count("attention.value_length", &["d_kv"]),
    real("attention.layer_norm_epsilon", &["layer_norm_epsilon"]),
    count("attention.relative_buckets_count", &["relative_attention_num_buckets"]),
    real("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon"]),
];
