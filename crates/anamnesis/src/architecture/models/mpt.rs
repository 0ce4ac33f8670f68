//! MPT and DBRX.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

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
