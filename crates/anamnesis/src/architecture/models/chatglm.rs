//! ChatGLM and the first GLM 4.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

/// ChatGLM and the first GLM 4.
pub(super) static CHATGLM: Architecture = Architecture {
    name: "chatglm",
    classes: &[class("ChatGLMModel", "chatglm"), class("ChatGLMForConditionalGeneration", "chatglm")],
    layer_prefix: "encoder.layers.",
    renames: &[Rename::Prefix("transformer.", "")],
    dropped: &["rotary_pos_emb."],
    rules: &[CHATGLM_TENSORS],
    keys: &[CHATGLM_KEYS],
    tokenizer: CHATGLM_TOKENS,
    ..PLAIN
};

pub(super) static GLM: Architecture = Architecture {
    name: "chatglm",
    classes: &[class("GlmForCausalLM", "glm")],
    rules: &[EMBED_NORM_HEAD, NORMS, GLM_ATTENTION, GLM_FFN],
    keys: &[CHATGLM_KEYS],
    tokenizer: CHATGLM_TOKENS,
    ..PLAIN
};

const CHATGLM_TOKENS: TokenizerRules = TokenizerRules {
    roles: &[("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>")],
    pre: &[(PreTokenizer::Llama3, "chatglm-bpe")],
    ..BPE
};

const CHATGLM_FFN: Size =
    size(|config| first(config, &["ffn_hidden_size", "intermediate_size"]), "ffn_hidden_size", "feed_forward_length");

const TWO_CHATGLM_FFN: Size =
    size(|config| Ok((CHATGLM_FFN.of)(config)?.saturating_mul(2)), CHATGLM_FFN.hf, CHATGLM_FFN.gguf);

const CHATGLM_HEAD: Size = size(
    |config| match config.count(&["kv_channels"])? {
        Some(size) => Ok(size),
        None => config.share_of_width(),
    },
    "kv_channels, hidden_size",
    "embedding_length",
);

const CHATGLM_Q: Size = size(
    |config| Ok(heads(config)?.saturating_mul((CHATGLM_HEAD.of)(config)?)),
    "num_attention_heads, kv_channels",
    "attention.head_count",
);

const CHATGLM_QKV: Size = size(
    |config| {
        let groups = first(config, &["multi_query_group_num", "num_key_value_heads", "num_attention_heads"])?;
        let keys = groups.saturating_mul((CHATGLM_HEAD.of)(config)?).saturating_mul(2);
        Ok((CHATGLM_Q.of)(config)?.saturating_add(keys))
    },
    "num_attention_heads, multi_query_group_num, kv_channels",
    "attention.head_count, attention.head_count_kv",
);

const CHATGLM_VOCAB: Size =
    size(|config| first(config, &["padded_vocab_size", "vocab_size"]), "padded_vocab_size, vocab_size", VOCAB.gguf);

const CHATGLM_TENSORS: &[Rule] = &[
    model("embedding.word_embeddings.*", "token_embd.*", &[CHATGLM_VOCAB, HIDDEN]),
    model("encoder.final_layernorm.*", "output_norm.*", &[HIDDEN]),
    model("output_layer.*", "output.*", &[CHATGLM_VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("self_attention.query_key_value.*", "attn_qkv.*", &[CHATGLM_QKV, HIDDEN]).biased(OPTIONAL),
    layer("self_attention.dense.*", "attn_output.*", &[HIDDEN, CHATGLM_Q]).biased(OPTIONAL),
    layer("mlp.dense_h_to_4h.*", "ffn_up.*", &[TWO_CHATGLM_FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_4h_to_h.*", "ffn_down.*", &[HIDDEN, CHATGLM_FFN]).biased(OPTIONAL),
];

const GLM_ATTENTION: &[Rule] = &attention(OPTIONAL, OPTIONAL);

const GLM_FFN: &[Rule] = &[
    layer("mlp.gate_up_proj.*", "ffn_up.*", &[TWO_FFN, HIDDEN]),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];

const CHATGLM_KEYS: &[Key] = &[
    count("context_length", &["seq_length", "hidden_size", "n_embed"]),
    count("embedding_length", &["hidden_size", "n_embed"]),
    count_fn("feed_forward_length", |config| match config.count(&["ffn_hidden_size", "intermediate_size"])? {
        Some(inner) => Ok(Some(inner)),
        None => Ok(Some(config.needed("hidden_size")?.saturating_mul(4))),
    }),
    count("block_count", LAYER_KEYS),
    count("attention.head_count", &["n_head", "num_attention_heads"]),
    count("attention.head_count_kv", &["multi_query_group_num", "num_key_value_heads", "num_attention_heads"]),
    real_or("attention.layer_norm_rms_epsilon", &["layernorm_epsilon"], 1e-5),
    FILE_TYPE,
    count_fn("rope.dimension_count", |config| {
        let size = match config.count(&["attention_dim"])? {
            Some(size) => size,
            None => config.share_of_width()?,
        };
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(0.5);
        Ok(Some((size as f64 * part) as u64))
    }),
    flag_fn("tokenizer.ggml.add_bos_token", |_| Ok(Some(false))),
    real_fn("rope.freq_base", |config| Ok(Some(10_000.0 * config.real(&["rope_ratio"])?.unwrap_or(1.0)))),
];
