//! GPT-2 and models like it: StarCoder, CodeShell, Refact.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) const FOUR_HIDDEN: Size =
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

pub(super) const THREE_HIDDEN: Size =
    size(|config| Ok((HIDDEN.of)(config)?.saturating_mul(3)), "hidden_size, n_embd", "embedding_length");

const POSITIONS: Size = size(|config| first(config, &["n_positions", "n_ctx"]), "n_positions", "context_length");

/// The size of a head, which is never given.
pub(super) const WIDTH: Size = size(Config::share_of_width, "hidden_size, num_attention_heads", "embedding_length");

const ALL: Size = ONE;

pub(super) const FOUR: Key = count_fn("feed_forward_length", |config| (FOUR_HIDDEN.of)(config).map(Some));

pub(super) const EPSILON: Key = real("attention.layer_norm_epsilon", &["layer_norm_epsilon", "layer_norm_eps"]);

pub(super) const BLOCKS: Key = count("block_count", LAYER_KEYS);

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
