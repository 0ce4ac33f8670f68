//! The first DeepSeek MoE, DeepSeek V3.2, DeepSeek-OCR, and models with DeepSeek's attention: GLM 4.7 Flash, GLM 5,
//! Kimi-VL, Youtu.

use super::glm::GLM_TOKENS;
use crate::architecture::families::{DEEPSEEK, LLAMA};
use crate::architecture::latent::{LATENT_ATTENTION, LATENT_KEYS, Q_RANK};
use crate::architecture::prelude::*;

/// DeepSeek MoE with plain attention.
pub(super) static DEEPSEEK1: Architecture = Architecture {
    name: "deepseek",
    classes: &[class("DeepseekForCausalLM", "deepseek")],
    rules: &[EMBED_NORM_HEAD, NORMS, PERMUTED_ATTENTION, GATED_FFN, EXPERTS, SHARED_EXPERTS],
    keys: &[COMMON, FIRST_KEYS],
    derived_tensors: &[],
    tokenizer: PIECES_OR_BPE,
    ..LLAMA
};

const FIRST_KEYS: &[Key] = &[
    ROPE_OF_HEAD,
    text_fn("rope.scaling.type", |_| Ok(Some("none"))),
    count("leading_dense_block_count", &["first_k_dense_replace"]),
    count("vocab_size", &["vocab_size"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    real_fn("expert_weights_scale", |_| Ok(Some(1.0))),
    count("expert_count", &["n_routed_experts"]),
    count("expert_shared_count", &["n_shared_experts"]),
];

/// DeepSeek V2 and V3 inside Kimi-VL and Youtu.
pub(super) static AROUND: Architecture = Architecture {
    name: "deepseek2",
    classes: &[
        class("KimiVLForConditionalGeneration", "kimi_vl"),
        class("KimiK25ForConditionalGeneration", "kimi_k25"),
        class("YoutuForCausalLM", "youtu"),
        class("YoutuVLForConditionalGeneration", "youtu_vl"),
    ],
    dropped: &["sam_model", "qwen2_model"],
    drops_nextn_layers: true,
    ..DEEPSEEK
};

/// DeepSeek-OCR: DeepSeek's experts with plain attention.
pub(super) static OCR: Architecture = Architecture {
    name: "deepseek2-ocr",
    classes: &[
        class("DeepseekOCRForCausalLM", "deepseek_vl_v2"),
        class("UnlimitedOCRForCausalLM", "deepseek_vl_v2"),
        class("DeepseekV2ForCausalLM", "deepseek_v2"),
    ],
    applies: |raw| {
        let class = raw.get("architectures").and_then(|classes| classes.get(0)).and_then(|class| class.as_str());
        class.is_some_and(|class| class.ends_with("OCRForCausalLM") || class == "DeepseekOCR2ForCausalLM")
    },
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, GATED_FFN, EXPERTS, SHARED_EXPERTS, CORRECTION],
    dropped: &["model.sam_model", "model.qwen2_model", "sam_model", "qwen2_model"],
    first_keys: &[TEMPLATE],
    keys: &[COMMON, OCR_KEYS],
    drops_nextn_layers: true,
    ..DEEPSEEK
};

const TEMPLATE: Key =
    text_fn("tokenizer.chat_template", |_| Ok(Some("{% for m in messages %}{{m['content']}}{% endfor %}")));

const OCR_KEYS: &[Key] = &[
    real_or("attention.layer_norm_rms_epsilon", &["rms_norm_eps"], 1e-6),
    count_fn("leading_dense_block_count", |config| match config.count(&["first_k_dense_replace"])? {
        Some(leading) => Ok(Some(leading)),
        None if config.get("n_routed_experts").is_some() => Ok(Some(0)),
        None => config.layers().map(Some),
    }),
    count("vocab_size", &["vocab_size"]),
    count("attention.q_lora_rank", &["q_lora_rank"]),
    count("expert_feed_forward_length", &["moe_intermediate_size", "intermediate_size"]),
    count("expert_count", &["n_routed_experts"]),
    count_or("expert_shared_count", &["n_shared_experts"], 0),
    real("expert_weights_scale", &["routed_scaling_factor"]),
    flag_fn("expert_weights_norm", |config| Ok(config.flag("norm_topk_prob")?.filter(|norm| *norm))),
    count("rope.dimension_count", &["qk_rope_head_dim"]),
    count_fn("attention.sliding_window", |config| {
        Ok(config.count(&["sliding_window_size", "sliding_window"])?.filter(|window| *window > 0))
    }),
];

/// DeepSeek V3.2: an indexer selects the keys, and a layer for multi-token prediction.
pub(super) static DEEPSEEK32: Architecture = Architecture {
    name: "deepseek32",
    classes: &[class("DeepseekV32ForCausalLM", "deepseek_v32")],
    rules: INDEXED,
    keys: &[COMMON, LATENT_KEYS, COUNTED_NEXTN, INDEXER_KEYS],
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    ..DEEPSEEK
};

/// GLM 5.
pub(super) static GLM_DSA: Architecture = Architecture {
    name: "glm-dsa",
    classes: &[class("GlmMoeDsaForCausalLM", "glm_moe_dsa")],
    rules: INDEXED,
    keys: &[COMMON, LATENT_KEYS, GLM_ROPE, COUNTED_NEXTN, INDEXER_KEYS, INDEXER_TYPES],
    tokenizer: GLM_TOKENS,
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    ..DEEPSEEK
};

/// GLM 4.7 Flash.
pub(super) static GLM_LITE: Architecture = Architecture {
    name: "deepseek2",
    classes: &[class("Glm4MoeLiteForCausalLM", "glm4_moe_lite")],
    rules: &[EMBED_NORM_HEAD, NORMS, LATENT_ATTENTION, GATED_FFN, EXPERTS, SHARED_EXPERTS, NEXTN_TENSORS],
    keys: &[COMMON, LATENT_KEYS, NEXTN_KEYS],
    tokenizer: GLM_TOKENS,
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    ..DEEPSEEK
};

/// The layers for multi-token prediction, also if there are none.
const COUNTED_NEXTN: &[Key] = &[count_fn("nextn_predict_layers", |config| {
    Ok(config.count(&["num_nextn_predict_layers"])?.map(|_| config.nextn_layers))
})];

const GLM_ROPE: &[Key] = &[count_fn("rope.dimension_count", |config| {
    let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
    Ok(Some((config.needed("qk_rope_head_dim")? as f64 * part) as u64))
})];

const INDEXED: &[&[Rule]] =
    &[EMBED_NORM_HEAD, NORMS, LATENT_ATTENTION, INDEXER, GATED_FFN, EXPERTS, SHARED_EXPERTS, NEXTN_TENSORS];

pub(super) const INDEX_HEADS: Size =
    size(|config| config.needed("index_n_heads"), "index_n_heads", "attention.indexer.head_count");
pub(super) const INDEX_SIZE: Size =
    size(|config| config.needed("index_head_dim"), "index_head_dim", "attention.indexer.key_length");
pub(super) const INDEX_DIM: Size = size(
    |config| Ok(config.needed("index_n_heads")?.saturating_mul(config.needed("index_head_dim")?)),
    "index_n_heads, index_head_dim",
    "attention.indexer.head_count, attention.indexer.key_length",
);

/// The layers that have an indexer: all, or those of type `full`.
pub(super) const HAS_INDEXER: Need = Need::When("indexer_types", |config, layer| {
    Ok(match config.text_of_layer("indexer_types", layer)? {
        Some(kind) => needed_if(kind == "full"),
        None => Presence::Allowed,
    })
});

pub(super) const INDEXER: &[Rule] = &[
    layer("self_attn.indexer.wq_b.*", "indexer.attn_q_b.*", &[INDEX_DIM, Q_RANK]).when(HAS_INDEXER),
    layer("self_attn.indexer.wk.*", "indexer.attn_k.*", &[INDEX_SIZE, HIDDEN]).when(HAS_INDEXER),
    layer("self_attn.indexer.k_norm.*", "indexer.k_norm.*", &[INDEX_SIZE]).when(HAS_INDEXER).biased(HAS_INDEXER),
    layer("self_attn.indexer.weights_proj.*", "indexer.proj.*", &[INDEX_HEADS, HIDDEN]).when(HAS_INDEXER),
];

pub(super) const INDEXER_KEYS: &[Key] = &[
    count("attention.indexer.head_count", &["index_n_heads"]),
    count("attention.indexer.key_length", &["index_head_dim"]),
    count("attention.indexer.top_k", &["index_topk"]),
];

pub(super) const INDEXER_TYPES: &[Key] = &[flags_fn("attention.indexer.types", |config| {
    let kinds = config.texts("indexer_types")?;
    Ok(kinds.map(|kinds| kinds.into_iter().map(|kind| kind == "full").collect()))
})];
