//! GPT-2 and models of its time: StarCoder, GPT-NeoX, Bloom, MPT, CodeShell, Refact, Falcon, Phi 2, StableLM, Orion.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

const FOUR_HIDDEN: Size =
    size(|config| Ok((HIDDEN.of)(config)?.saturating_mul(4)), "hidden_size, n_embd", "embedding_length");
/// The inner size of the feed-forward network: four times the hidden size by default.
const INNER: Size = size(
    |config| match config.count(&["n_inner"])? {
        Some(inner) => Ok(inner),
        None => (FOUR_HIDDEN.of)(config),
    },
    "n_inner, n_embd",
    "feed_forward_length",
);
const THREE_HIDDEN: Size =
    size(|config| Ok((HIDDEN.of)(config)?.saturating_mul(3)), "hidden_size, n_embd", "embedding_length");
const POSITIONS: Size = size(|config| first(config, &["n_positions", "n_ctx"]), "n_positions", "context_length");
/// The size of a head, which is never given.
const WIDTH: Size = size(Config::share_of_width, "hidden_size, num_attention_heads", "embedding_length");
const ALL: Size = ONE;

const FOUR: Key = count_fn("feed_forward_length", |config| (FOUR_HIDDEN.of)(config).map(Some));
const EPSILON: Key = real("attention.layer_norm_epsilon", &["layer_norm_epsilon", "layer_norm_eps"]);
const BLOCKS: Key = count("block_count", LAYER_KEYS);

pub(super) static GPT2: Architecture = Architecture {
    name: "gpt2",
    classes: &[class("GPT2LMHeadModel", "gpt2")],
    layer_prefix: "h.",
    renames: &[Rename::Prefix("transformer.", "")],
    rules: &[GPT2_TENSORS],
    keys: &[&[
        BLOCKS,
        count("context_length", &["n_ctx", "n_positions"]),
        count("embedding_length", &["n_embd"]),
        FOUR,
        count("attention.head_count", &["n_head"]),
        EPSILON,
        FILE_TYPE,
    ]],
    tokenizer: GPT2_TOKENS,
    ..PLAIN
};

const GPT2_TOKENS: TokenizerRules =
    TokenizerRules { classes: &[("gpt2", TokenizerClass::Registered("GPT2Tokenizer"))], ..BPE };

/// Weights of `Conv1D` are stored transposed.
const TRANSPOSED: &[Change] = &[Change::Transposed];

const GPT2_TENSORS: &[Rule] = &[
    model("wte.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("wpe.*", "position_embd.*", &[POSITIONS, HIDDEN]),
    model("ln_f.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("attn.bias", "", &[]).left_out(),
    layer("attn.masked_bias", "", &[]).left_out(),
    layer("ln_1.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("ln_2.*", "ffn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("attn.c_attn.weight", "attn_qkv.weight", &[THREE_HIDDEN, HIDDEN]).with(TRANSPOSED),
    layer("attn.c_attn.bias", "attn_qkv.bias", &[THREE_HIDDEN]).when(OPTIONAL),
    layer("attn.c_proj.weight", "attn_output.weight", &[HIDDEN, HIDDEN]).with(TRANSPOSED),
    layer("attn.c_proj.bias", "attn_output.bias", &[HIDDEN]).when(OPTIONAL),
    layer("mlp.c_fc.weight", "ffn_up.weight", &[INNER, HIDDEN]).with(TRANSPOSED),
    layer("mlp.c_fc.bias", "ffn_up.bias", &[INNER]).when(OPTIONAL),
    layer("mlp.c_proj.weight", "ffn_down.weight", &[HIDDEN, INNER]).with(TRANSPOSED),
    layer("mlp.c_proj.bias", "ffn_down.bias", &[HIDDEN]).when(OPTIONAL),
];

/// ruGPT-3 XL: GPT-2 with separate projections.
pub(super) static RUGPT3XL: Architecture = Architecture {
    name: "gpt2",
    classes: &[class("RuGPT3XLForCausalLM", "rugpt3xl")],
    rules: &[RUGPT_TENSORS],
    tokenizer: GPT2_TOKENS,
    ..PLAIN
};

const THREE: Size = size(|_| Ok(3), "", "");
const FLAT: &[Change] = &[Change::Shaped(&[THREE, Q_DIM, HIDDEN], &[THREE_HIDDEN, HIDDEN])];
const FLAT_BIAS: &[Change] = &[Change::Shaped(&[THREE, Q_DIM], &[THREE_HIDDEN])];
const ROWS: Size = size(|config| config.needed("max_position_embeddings"), "max_position_embeddings", "context_length");

const RUGPT_TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.embed_positions.*", "position_embd.*", &[ROWS, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("self_attn.{q|k|v}_proj.weight", "attn_qkv.weight", &[THREE_HIDDEN, HIDDEN]).with(FLAT),
    layer("self_attn.{q|k|v}_proj.bias", "attn_qkv.bias", &[THREE_HIDDEN]).with(FLAT_BIAS).when(OPTIONAL),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
];

/// StarCoder: GPT-2 with one head of keys and values.
pub(super) static STARCODER: Architecture = Architecture {
    name: "starcoder",
    classes: &[class("GPTBigCodeForCausalLM", "gpt_bigcode")],
    layer_prefix: "transformer.h.",
    rules: &[TRANSFORMER, &[model("transformer.wpe.*", "position_embd.*", &[POSITIONS, HIDDEN])], MULTI_QUERY],
    keys: &[&[
        count("context_length", &["n_positions"]),
        count("embedding_length", &["n_embd"]),
        FOUR,
        BLOCKS,
        count("attention.head_count", &["n_head"]),
        count_fn("attention.head_count_kv", |_| Ok(Some(1))),
        EPSILON,
        FILE_TYPE,
    ]],
    ..PLAIN
};

/// Embedding, norms and feed-forward network under `transformer.`.
const TRANSFORMER: &[Rule] = &[
    model("transformer.wte.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("transformer.ln_f.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("ln_1.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("ln_2.*", "ffn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("attn.c_proj.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.c_fc.*", "ffn_up.*", &[INNER, HIDDEN]).biased(OPTIONAL),
    layer("mlp.c_proj.*", "ffn_down.*", &[HIDDEN, INNER]).biased(OPTIONAL),
];

const MULTI_QUERY_DIM: Size = size(
    |config| Ok((WIDTH.of)(config)?.saturating_mul(2).saturating_add((HIDDEN.of)(config)?)),
    "n_embd, n_head",
    "embedding_length, attention.head_count",
);
const MULTI_QUERY: &[Rule] = &[layer("attn.c_attn.*", "attn_qkv.*", &[MULTI_QUERY_DIM, HIDDEN]).biased(OPTIONAL)];

pub(super) static CODESHELL: Architecture = Architecture {
    name: "codeshell",
    classes: &[class("CodeShellForCausalLM", "codeshell")],
    layer_prefix: "transformer.h.",
    rules: &[TRANSFORMER, CODESHELL_ATTENTION],
    keys: &[&[
        count("context_length", &["n_positions"]),
        count("embedding_length", &["n_embd"]),
        FOUR,
        BLOCKS,
        count("attention.head_count", &["n_head"]),
        count("attention.head_count_kv", &["num_query_groups"]),
        EPSILON,
        FILE_TYPE,
        real_fn("rope.freq_base", |_| Ok(Some(10_000.0))),
        text_fn("rope.scaling.type", |_| Ok(Some("linear"))),
        real_fn("rope.scaling.factor", |_| Ok(Some(1.0))),
    ]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Digits, "codeshell")], ..BPE },
    ..PLAIN
};

const CODESHELL_DIM: Size = size(
    |config| {
        let groups = config.needed("num_query_groups")?.saturating_mul((WIDTH.of)(config)?);
        Ok(groups.saturating_mul(2).saturating_add((HIDDEN.of)(config)?))
    },
    "num_query_groups, n_embd, n_head",
    "attention.head_count_kv, embedding_length",
);
const CODESHELL_ATTENTION: &[Rule] = &[layer("attn.c_attn.*", "attn_qkv.*", &[CODESHELL_DIM, HIDDEN]).biased(OPTIONAL)];

/// Refact: one head of keys and values, a gated feed-forward network.
pub(super) static REFACT: Architecture = Architecture {
    name: "refact",
    classes: &[class("GPTRefactForCausalLM", "gpt_refact")],
    layer_prefix: "transformer.h.",
    rules: &[REFACT_TENSORS],
    keys: &[&[
        count("context_length", &["n_positions"]),
        count("embedding_length", &["n_embd"]),
        count_fn("feed_forward_length", |config| refact_inner(config).map(Some)),
        BLOCKS,
        count("attention.head_count", &["n_head"]),
        count_fn("attention.head_count_kv", |_| Ok(Some(1))),
        real("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon"]),
        FILE_TYPE,
    ]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Digits, "refact")], ..BPE },
    ..PLAIN
};

/// Two thirds of four times the hidden size, rounded up to 256.
fn refact_inner(config: &Config) -> Result<u64> {
    let inner = config.needed("n_embd")?.saturating_mul(4);
    let inner = (2.0 * inner as f64 / 3.0) as u64;
    Ok(inner.checked_next_multiple_of(256).unwrap_or(u64::MAX))
}

const REFACT_INNER: Size = size(refact_inner, "n_embd", "feed_forward_length");
const ONE_KEY_AND_VALUE: &[Size] = &[WIDTH, WIDTH];

const REFACT_TENSORS: &[Rule] = &[
    model("transformer.wte.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("transformer.ln_f.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("ln_1.*", "attn_norm.*", &[HIDDEN]),
    layer("ln_2.*", "ffn_norm.*", &[HIDDEN]),
    layer("attn.q.*", "attn_q.*", &[HIDDEN, HIDDEN]),
    layer("attn.kv.weight", "attn_k.weight", &[WIDTH, HIDDEN]).with(&[Change::Parts(&Parts {
        groups: ALL,
        parts: ONE_KEY_AND_VALUE,
        first: 0,
        count: 1,
    })]),
    layer("attn.kv.weight", "attn_v.weight", &[WIDTH, HIDDEN]).with(&[Change::Parts(&Parts {
        groups: ALL,
        parts: ONE_KEY_AND_VALUE,
        first: 1,
        count: 1,
    })]),
    layer("attn.c_proj.*", "attn_output.*", &[HIDDEN, HIDDEN]),
    layer("mlp.gate_up_proj.weight", "ffn_gate.weight", &[REFACT_INNER, HIDDEN]).with(&[Change::First(Halves::Rows)]),
    layer("mlp.gate_up_proj.weight", "ffn_up.weight", &[REFACT_INNER, HIDDEN]).with(&[Change::Second(Halves::Rows)]),
    layer("mlp.c_proj.*", "ffn_down.*", &[HIDDEN, REFACT_INNER]),
];

/// Queries, keys and values of every head, one after another.
const BY_HEAD: &Parts = &Parts { groups: HEADS, parts: &[WIDTH, WIDTH, WIDTH], first: 0, count: 3 };

pub(super) static NEOX: Architecture = Architecture {
    name: "gptneox",
    classes: &[class("GPTNeoXForCausalLM", "gpt_neox")],
    layer_prefix: "gpt_neox.layers.",
    rules: &[NEOX_TENSORS],
    keys: &[&[
        count("context_length", &["max_position_embeddings"]),
        count("embedding_length", &["hidden_size"]),
        BLOCKS,
        count("feed_forward_length", &["intermediate_size"]),
        count_fn("rope.dimension_count", |config| {
            let part = match config.real(&["rotary_pct"])? {
                Some(part) => part,
                None => config.rope().real("partial_rotary_factor")?.unwrap_or(0.25),
            };
            Ok(Some((part * (WIDTH.of)(config)? as f64) as u64))
        }),
        count("attention.head_count", &["num_attention_heads"]),
        flag_or("use_parallel_residual", "use_parallel_residual", true),
        real("attention.layer_norm_epsilon", &["layer_norm_eps"]),
    ]],
    tokenizer: TokenizerRules {
        pre: &[(PreTokenizer::Gpt2, "olmo")],
        classes: &[("gpt_neox", TokenizerClass::Registered("GPTNeoXTokenizer"))],
        ..BPE
    },
    ..PLAIN
};

const NEOX_TENSORS: &[Rule] = &[
    model("gpt_neox.embed_in.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("gpt_neox.final_layer_norm.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("embed_out.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("attention.query_key_value.*", "attn_qkv.*", &[THREE_HIDDEN, HIDDEN])
        .with(&[Change::Parts(BY_HEAD)])
        .biased(OPTIONAL),
    layer("attention.dense.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_h_to_4h.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_4h_to_h.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
];

pub(super) static BLOOM: Architecture = Architecture {
    name: "bloom",
    classes: &[class("BloomForCausalLM", "bloom"), class("BloomModel", "bloom")],
    layer_prefix: "h.",
    renames: &[Rename::Prefix("transformer.", "")],
    rules: &[BLOOM_TENSORS],
    keys: &[&[
        count_fn("context_length", |config| match config.count(&["seq_length"])? {
            Some(length) => Ok(Some(length)),
            None => config.count(&["hidden_size", "n_embed"]),
        }),
        count("embedding_length", &["hidden_size", "n_embed"]),
        FOUR,
        BLOCKS,
        count("attention.head_count", &["n_head", "num_attention_heads"]),
        count("attention.head_count_kv", &["n_head", "num_attention_heads"]),
        EPSILON,
        FILE_TYPE,
    ]],
    ..PLAIN
};

const BLOOM_TENSORS: &[Rule] = &[
    model("word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("word_embeddings_layernorm.*", "token_embd_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("ln_f.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("self_attention.query_key_value.*", "attn_qkv.*", &[THREE_HIDDEN, HIDDEN])
        .with(&[Change::Parts(BY_HEAD)])
        .biased(OPTIONAL),
    layer("self_attention.dense.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_h_to_4h.*", "ffn_up.*", &[FOUR_HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_4h_to_h.*", "ffn_down.*", &[HIDDEN, FOUR_HIDDEN]).biased(OPTIONAL),
];

pub(super) static FALCON: Architecture = Architecture {
    name: "falcon",
    classes: &[class("FalconForCausalLM", "falcon"), class("RWForCausalLM", "falcon")],
    layer_prefix: "transformer.h.",
    rules: &[FALCON_TENSORS],
    keys: &[&[
        count_fn("context_length", |_| Ok(Some(2048))),
        text_fn("tensor_data_layout", |_| Ok(Some("jploski"))),
        count("embedding_length", &["hidden_size"]),
        FOUR,
        BLOCKS,
        count("attention.head_count", &["num_attention_heads", "n_head"]),
        count_fn("attention.head_count_kv", |config| falcon_groups(config).map(Some)),
        EPSILON,
        FILE_TYPE,
    ]],
    restore: None,
    ..PLAIN
};

fn falcon_groups(config: &Config) -> Result<u64> {
    Ok(config.count(&["num_kv_heads", "n_head_kv"])?.unwrap_or(1))
}

const GROUPS: Size = size(falcon_groups, "num_kv_heads", "attention.head_count_kv");
/// The queries of a group.
const GROUP_Q: Size = size(
    |config| {
        let per_group = heads(config)?.checked_div(falcon_groups(config)?).unwrap_or(0);
        Ok(per_group.saturating_mul((WIDTH.of)(config)?))
    },
    "num_attention_heads, num_kv_heads, hidden_size",
    "attention.head_count, attention.head_count_kv",
);
const FALCON_DIM: Size = size(
    |config| {
        let per = (GROUP_Q.of)(config)?.saturating_add((WIDTH.of)(config)?.saturating_mul(2));
        Ok(per.saturating_mul(falcon_groups(config)?))
    },
    "num_attention_heads, num_kv_heads, hidden_size",
    "attention.head_count, attention.head_count_kv, embedding_length",
);

const FALCON_TENSORS: &[Rule] = &[
    model("transformer.word_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("transformer.ln_f.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(OPTIONAL),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("ln_mlp.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("ln_attn.*", "attn_norm_2.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
    layer("self_attention.query_key_value.*", "attn_qkv.*", &[FALCON_DIM, HIDDEN])
        .with(&[Change::Parts(&Parts { groups: GROUPS, parts: &[GROUP_Q, WIDTH, WIDTH], first: 0, count: 3 })])
        .biased(OPTIONAL),
    layer("self_attention.dense.*", "attn_output.*", &[HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_h_to_4h.*", "ffn_up.*", &[FOUR_HIDDEN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.dense_4h_to_h.*", "ffn_down.*", &[HIDDEN, FOUR_HIDDEN]).biased(OPTIONAL),
];

pub(super) static PHI2: Architecture = Architecture {
    name: "phi2",
    classes: &[class("PhiForCausalLM", "phi")],
    rules: &[PHI2_TENSORS],
    keys: &[&[
        count("context_length", &["n_positions", "max_position_embeddings"]),
        count("embedding_length", &["hidden_size", "n_embd"]),
        FOUR,
        BLOCKS,
        count("attention.head_count", &["num_attention_heads", "n_head"]),
        count("attention.head_count_kv", &["num_attention_heads", "n_head"]),
        EPSILON,
        count_fn("rope.dimension_count", partly),
        FILE_TYPE,
        flag_fn("tokenizer.ggml.add_bos_token", |_| Ok(Some(false))),
    ]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Gpt2, "phi-2")], ..BPE },
    ..PLAIN
};

/// The dimensions that RoPE rotates.
fn partly(config: &Config) -> Result<Option<u64>> {
    let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
    Ok(Some((part * (HIDDEN.of)(config)? as f64) as u64 / heads(config)?))
}

const PHI2_TENSORS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.final_layernorm.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED).biased(OPTIONAL),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("self_attn.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).biased(OPTIONAL),
    layer("self_attn.dense.*", "attn_output.*", &[HIDDEN, Q_DIM]).biased(OPTIONAL),
    layer("mlp.fc1.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.fc2.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
];

pub(super) static STABLELM: Architecture = Architecture {
    name: "stablelm",
    classes: &[
        class("StableLmForCausalLM", "stablelm"),
        class("StableLMEpochForCausalLM", "stablelm_epoch"),
        class("LlavaStableLMEpochForCausalLM", "llava_stablelm_epoch"),
    ],
    rules: &[BIASED_NORMS, OPTIONAL_ATTENTION, GATED_FFN],
    keys: &[&[
        count("context_length", &["max_position_embeddings"]),
        count("embedding_length", &["hidden_size"]),
        BLOCKS,
        count("feed_forward_length", &["intermediate_size"]),
        count_fn("rope.dimension_count", |config| {
            let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
            Ok(Some((part * (WIDTH.of)(config)? as f64) as u64))
        }),
        count("attention.head_count", &["num_attention_heads"]),
        count("attention.head_count_kv", &["num_key_value_heads"]),
        flag_or("use_parallel_residual", "use_parallel_residual", true),
        real("attention.layer_norm_epsilon", &["layer_norm_eps", "norm_eps"]),
        FILE_TYPE,
    ]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Qwen2, "stablelm2")], ..BPE },
    ..PLAIN
};

const OPTIONAL_ATTENTION: &[Rule] = &attention(OPTIONAL, OPTIONAL);

/// The usual embedding and norms, with biases.
const BIASED_NORMS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED).biased(OPTIONAL),
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).biased(OPTIONAL),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]).when(OPTIONAL).biased(OPTIONAL),
];

pub(super) static ORION: Architecture = Architecture {
    name: "orion",
    classes: &[class("OrionForCausalLM", "orion")],
    rules: &[BIASED_NORMS, OPTIONAL_ATTENTION, GATED_FFN],
    keys: &[&[
        FILE_TYPE,
        text_fn("tensor_data_layout", |_| Ok(Some("Meta AI original pth"))),
        count("context_length", &["max_sequence_length", "max_position_embeddings", "model_max_length"]),
        count("embedding_length", &["hidden_size"]),
        BLOCKS,
        count("feed_forward_length", &["intermediate_size"]),
        count("attention.head_count", &["num_attention_heads"]),
        count("attention.head_count_kv", &["num_key_value_heads", "num_attention_heads"]),
        real("attention.layer_norm_epsilon", &["rms_norm_eps"]),
    ]],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, ..BPE },
    ..PLAIN
};

/// Jais 2.
pub(super) static JAIS2: Architecture = Architecture {
    name: "jais2",
    classes: &[class("Jais2ForCausalLM", "jais2")],
    rules: &[BIASED_NORMS, OPTIONAL_ATTENTION, UNGATED],
    keys: &[COMMON, &[ROPE_OF_HEAD]],
    ..PLAIN
};

const UNGATED: &[Rule] = &[
    layer("mlp.up_proj.*", "ffn_up.*", &[FFN, HIDDEN]).biased(OPTIONAL),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]).biased(OPTIONAL),
];

/// Phi 3.5 MoE.
pub(super) static PHIMOE: Architecture = Architecture {
    name: "phimoe",
    classes: &[class("PhiMoEForCausalLM", "phimoe")],
    rules: &[BIASED_NORMS, OPTIONAL_ATTENTION, MIXTURE],
    early_keys: super::phi3::EARLY,
    keys: &[
        super::phi3::KEYS,
        &[
            count("expert_used_count", &["num_experts_per_tok", "num_experts_per_token"]),
            count("expert_count", &["num_local_experts", "num_experts"]),
        ],
    ],
    derived_tensors: super::phi3::FACTORS,
    tokenizer: TokenizerRules { pieces: PiecesUse::RequiredUnlessGpt2, replaces_pieces: true, ..BPE },
    ..PLAIN
};

const D_MODEL: Size = size(|config| config.needed("d_model"), "d_model", "embedding_length");

pub(super) static MPT: Architecture = Architecture {
    name: "mpt",
    classes: &[class("MPTForCausalLM", "mpt_raw"), class("MptForCausalLM", "mpt_raw")],
    layer_prefix: "transformer.blocks.",
    rules: &[MPT_TENSORS],
    keys: &[&[
        count("context_length", &["max_seq_len"]),
        count("embedding_length", &["d_model"]),
        count("block_count", &["n_layers"]),
        count_fn("feed_forward_length", |config| Ok(Some(config.needed("d_model")?.saturating_mul(4)))),
        count("attention.head_count", &["n_heads"]),
        count_fn("attention.head_count_kv", |config| {
            Ok(config.count(&["attn_config.kv_n_heads"])?.filter(|heads| *heads > 0))
        }),
        real_fn("attention.layer_norm_epsilon", |_| Ok(Some(1e-5))),
        real("attention.clamp_kqv", &["attn_config.clip_qkv"]),
        real_fn("attention.max_alibi_bias", |config| match config.is_set("attn_config.alibi")? {
            true => config.real(&["attn_config.alibi_bias_max"]),
            false => Ok(Some(0.0)),
        }),
    ]],
    tokenizer: TokenizerRules { pieces: PiecesUse::Last, pre: &[(PreTokenizer::Gpt2, "mpt")], ..BPE },
    ..PLAIN
};

const MPT_HEAD: Size = size(
    |config| Ok(config.needed("d_model")? / config.divisor("n_heads")?),
    "d_model, n_heads",
    "embedding_length, attention.head_count",
);
const MPT_QKV: Size = size(
    |config| {
        let groups = config.count(&["attn_config.kv_n_heads"])?.filter(|heads| *heads > 0);
        let groups = groups.unwrap_or(config.needed("n_heads")?);
        let keys = groups.saturating_mul((MPT_HEAD.of)(config)?);
        Ok(keys.saturating_mul(2).saturating_add(config.needed("d_model")?))
    },
    "d_model, n_heads, attn_config",
    "embedding_length, attention.head_count_kv",
);
const MPT_INNER: Size = size(
    |config| {
        let ratio = config.count(&["expansion_ratio"])?.unwrap_or(4);
        Ok(config.needed("d_model")?.saturating_mul(ratio))
    },
    "d_model, expansion_ratio",
    "feed_forward_length",
);

const MPT_TENSORS: &[Rule] = &[
    model("transformer.wte.*", "token_embd.*", &[VOCAB, D_MODEL]),
    model("transformer.norm_f.*", "output_norm.*", &[D_MODEL]).biased(OPTIONAL),
    model("lm_head.*", "output.*", &[VOCAB, D_MODEL]).when(OPTIONAL),
    layer("norm_1.*", "attn_norm.*", &[D_MODEL]).biased(OPTIONAL),
    layer("norm_2.*", "ffn_norm.*", &[D_MODEL]).biased(OPTIONAL),
    layer("attn.Wqkv.*", "attn_qkv.*", &[MPT_QKV, D_MODEL]).biased(OPTIONAL),
    layer("attn.out_proj.*", "attn_output.*", &[D_MODEL, D_MODEL]).biased(OPTIONAL),
    layer("attn.q_ln.*", "attn_q_norm.*", &[D_MODEL]).when(OPTIONAL).biased(OPTIONAL),
    layer("attn.k_ln.*", "attn_k_norm.*", &[D_MODEL]).when(OPTIONAL).biased(OPTIONAL),
    layer("ffn.up_proj.*", "ffn_up.*", &[MPT_INNER, D_MODEL]).biased(OPTIONAL),
    layer("ffn.down_proj.*", "ffn_down.*", &[D_MODEL, MPT_INNER]).biased(OPTIONAL),
];

/// DBRX: experts in flat tensors.
pub(super) static DBRX: Architecture = Architecture {
    name: "dbrx",
    classes: &[class("DbrxForCausalLM", "dbrx")],
    layer_prefix: "transformer.blocks.",
    rules: &[DBRX_TENSORS],
    keys: &[&[
        count("block_count", &["n_layers"]),
        count("context_length", &["max_seq_len"]),
        count("embedding_length", &["d_model"]),
        count("feed_forward_length", &["ffn_config.ffn_hidden_size"]),
        count("attention.head_count", &["n_heads"]),
        count("attention.head_count_kv", &["attn_config.kv_n_heads"]),
        real("rope.freq_base", &["attn_config.rope_theta"]),
        real("attention.clamp_kqv", &["attn_config.clip_qkv"]),
        count("expert_count", &["ffn_config.moe_num_experts"]),
        count("expert_used_count", &["ffn_config.moe_top_k"]),
        real_fn("attention.layer_norm_epsilon", |_| Ok(Some(1e-5))),
        FILE_TYPE,
    ]],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Llama3, "dbrx")], ..BPE },
    types: TypeRules::ALL_MATRICES,
    ..PLAIN
};

const DBRX_FFN: Size =
    size(|config| config.needed("ffn_config.ffn_hidden_size"), "ffn_config.ffn_hidden_size", "feed_forward_length");
const DBRX_EXPERTS: Size =
    size(|config| config.needed("ffn_config.moe_num_experts"), "ffn_config.moe_num_experts", "expert_count");
const DBRX_FLAT: Size = size(
    |config| Ok((DBRX_EXPERTS.of)(config)?.saturating_mul((DBRX_FFN.of)(config)?)),
    "ffn_config.moe_num_experts, ffn_config.ffn_hidden_size",
    "expert_count, feed_forward_length",
);
const DBRX_QKV: Size = size(
    |config| {
        let head = config.needed("d_model")? / config.divisor("n_heads")?;
        let keys = config.needed("attn_config.kv_n_heads")?.saturating_mul(head);
        Ok(keys.saturating_mul(2).saturating_add(config.needed("d_model")?))
    },
    "d_model, n_heads, attn_config.kv_n_heads",
    "embedding_length, attention.head_count_kv",
);
const UNFLATTENED: Change = Change::Shaped(&[DBRX_FLAT, D_MODEL], &[DBRX_EXPERTS, DBRX_FFN, D_MODEL]);

const DBRX_TENSORS: &[Rule] = &[
    model("transformer.wte.*", "token_embd.*", &[VOCAB, D_MODEL]),
    model("transformer.norm_f.*", "output_norm.*", &[D_MODEL]),
    model("lm_head.*", "output.*", &[VOCAB, D_MODEL]).when(UNTIED),
    layer("norm_attn_norm.norm_1.*", "attn_norm.*", &[D_MODEL]),
    layer("norm_attn_norm.norm_2.*", "attn_output_norm.*", &[D_MODEL]),
    layer("norm_attn_norm.attn.Wqkv.*", "attn_qkv.*", &[DBRX_QKV, D_MODEL]),
    layer("norm_attn_norm.attn.out_proj.*", "attn_output.*", &[D_MODEL, D_MODEL]),
    layer("ffn.router.layer.*", "ffn_gate_inp.*", &[DBRX_EXPERTS, D_MODEL]),
    layer("ffn.experts.mlp.w1", "ffn_gate_exps.weight", &[DBRX_EXPERTS, DBRX_FFN, D_MODEL]).with(&[UNFLATTENED]),
    layer("ffn.experts.mlp.v1", "ffn_up_exps.weight", &[DBRX_EXPERTS, DBRX_FFN, D_MODEL]).with(&[UNFLATTENED]),
    layer("ffn.experts.mlp.w2", "ffn_down_exps.weight", &[DBRX_EXPERTS, D_MODEL, DBRX_FFN])
        .with(&[UNFLATTENED, Change::Transposed]),
];
