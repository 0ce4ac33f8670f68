//! InternLM 2 and 3, and Xverse.

use crate::architecture::families::{LLAMA, PLAIN};
use crate::architecture::prelude::*;

/// InternLM 2: `wqkv` by groups of heads.
pub(super) static INTERNLM2: Architecture = Architecture {
    name: "internlm2",
    classes: &[class("InternLM2ForCausalLM", "internlm2")],
    rules: &[INTERNLM2_TENSORS],
    tokenizer: TokenizerRules { pieces: PiecesUse::Required, replaces_pieces: true, internlm: true, ..BPE },
    ..PLAIN
};

const KV_GROUPS: Size = size(kv_heads, "num_key_value_heads", "attention.head_count_kv");

const GROUP_Q: Size = size(
    |config| Ok((heads(config)? / kv_heads(config)?).saturating_mul(config.share_of_width()?)),
    "num_attention_heads, num_key_value_heads, hidden_size",
    "attention.head_count, attention.head_count_kv",
);

const GROUP: &[Size] = &[GROUP_Q, HEAD_DIM, HEAD_DIM];

const INTERNLM2_TENSORS: &[Rule] = &[
    model("model.tok_embeddings.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
    model("output.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("attention_norm.*", "attn_norm.*", &[HIDDEN]),
    layer("ffn_norm.*", "ffn_norm.*", &[HIDDEN]),
    layer("attention.wqkv.weight", "attn_q.weight", &[Q_DIM, HIDDEN]).with(&[
        Change::Parts(&Parts { groups: KV_GROUPS, parts: GROUP, first: 0, count: 1 }),
        Change::Rotary("num_attention_heads"),
    ]),
    layer("attention.wqkv.weight", "attn_k.weight", &[KV_DIM, HIDDEN]).with(&[
        Change::Parts(&Parts { groups: KV_GROUPS, parts: GROUP, first: 1, count: 1 }),
        Change::Rotary("num_key_value_heads"),
    ]),
    layer("attention.wqkv.weight", "attn_v.weight", &[KV_DIM, HIDDEN]).with(&[Change::Parts(&Parts {
        groups: KV_GROUPS,
        parts: GROUP,
        first: 2,
        count: 1,
    })]),
    layer("attention.wo.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("feed_forward.w1.*", "ffn_gate.*", &[FFN, HIDDEN]),
    layer("feed_forward.w2.*", "ffn_down.*", &[HIDDEN, FFN]),
    layer("feed_forward.w3.*", "ffn_up.*", &[FFN, HIDDEN]),
];

/// InternLM 3: Llama with a vocabulary of its own.
pub(super) static INTERNLM3: Architecture = Architecture {
    classes: &[class("InternLM3ForCausalLM", "internlm3")],
    tokenizer: TokenizerRules {
        pieces: PiecesUse::Required,
        overrides: TokenOverrides { ids: &[("eos", "<|im_end|>")], space_prefix: true, ..NO_OVERRIDES },
        ..BPE
    },
    name: "llama",
    derived_tensors: &[],
    ..LLAMA
};

/// Xverse.
pub(super) static XVERSE: Architecture = Architecture {
    name: "xverse",
    classes: &[class("XverseForCausalLM", "xverse")],
    rules: &[EMBED_NORM_HEAD, NORMS, XVERSE_ATTENTION, GATED_FFN],
    keys: &[COMMON, XVERSE_KEYS],
    derived_tensors: &[],
    tokenizer: TokenizerRules { pieces_in_json: true, unscored: true, ..BPE },
    ..LLAMA
};

/// The rows that the converter takes for a head: of all heads divided by those of keys, where they differ.
const XVERSE_HEAD: Size = size(
    |config| {
        let (all, keys) = (heads(config)?, kv_heads(config)?);
        let groups = if all == keys { all } else { all / keys };
        let rows = keys.saturating_mul(config.head_size()?);
        Ok(rows.checked_div(groups).unwrap_or(0))
    },
    "num_attention_heads, num_key_value_heads, hidden_size",
    "attention.head_count, attention.head_count_kv",
);

const XVERSE_ATTENTION: &[Rule] = {
    let [q, k, v, output] = attention(Need::Never, Need::Never);
    &[q.with(&[Change::Rotary("num_attention_heads")]), k.with(&[Change::RotaryOf(XVERSE_HEAD)]), v, output]
};

const XVERSE_KEYS: &[Key] = &[
    text_fn("tensor_data_layout", |_| Ok(Some("Meta AI original pth"))),
    count_fn("rope.dimension_count", |config| config.share_of_width().map(Some)),
];
