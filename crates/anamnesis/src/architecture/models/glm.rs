//! GLM 4 with vision, GLM 4.5V, GLM-OCR, Solar Open: their differences from `glm4` and `glm4moe`.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

/// GLM 4V: queries and keys in the order of multimodal RoPE.
pub(super) static GLM4V: Architecture = Architecture {
    name: "glm4",
    classes: &[class("Glm4vForConditionalGeneration", "glm4v")],
    rules: &[EMBED_NORM_HEAD, ROTATED_ATTENTION, LAYER],
    keys: &[COMMON, ROPE],
    tokenizer: GLM4_TOKENS,
    ..PLAIN
};

/// GLM-OCR, with a layer for multi-token prediction.
pub(super) static GLM_OCR: Architecture = Architecture {
    name: "glm4",
    classes: &[class("GlmOcrForConditionalGeneration", "glm_ocr")],
    rules: &[EMBED_NORM_HEAD, ROTATED_ATTENTION, LAYER, NEXTN_TENSORS],
    keys: &[COMMON, ROPE, &[NEXTN_COUNT]],
    tokenizer: GLM4_TOKENS,
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    ..PLAIN
};

const GLM4_TOKENS: TokenizerRules = TokenizerRules {
    roles: &[("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("bos", "<|endoftext|>")],
    pre: &[(PreTokenizer::Llama3, "glm4")],
    ..BPE
};

/// The rows of each head that are reordered for multimodal RoPE.
const ROTATED: Size = size(
    |config| match config.rope().reals("mrope_section")? {
        Some(_) => Ok(half_of_head(config)?.unwrap_or(0)),
        None => Ok(0),
    },
    "partial_rotary_factor, head_dim",
    "rope.dimension_count",
);
const HALVED: &[Change] = &[Change::HalvedRotary(&RotatedRows { head: HEAD_DIM, rotated: ROTATED })];

const ROTATED_ATTENTION: &[Rule] = {
    let [q, k, v, output] = attention(OPTIONAL, Need::Never);
    &[q.with(HALVED), k.with(HALVED), v, output]
};

const LAYER: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_self_attn_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("post_mlp_layernorm.*", "post_ffw_norm.*", &[HIDDEN]),
    layer("mlp.gate_up_proj.*", "ffn_up.*", &[TWO_FFN, HIDDEN]),
    layer("mlp.down_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];

const ROPE: &[Key] = &[count_fn("rope.dimension_count", half_of_head)];

/// GLM 4.5V.
pub(super) static GLM4V_MOE: Architecture = Architecture {
    name: "glm4moe",
    classes: &[class("Glm4vMoeForConditionalGeneration", "glm4v_moe")],
    tokenizer: GLM_TOKENS,
    ..MOE
};

/// Solar Open.
pub(super) static SOLAR_OPEN: Architecture = Architecture {
    name: "glm4moe",
    classes: &[class("SolarOpenForCausalLM", "solar_open")],
    tokenizer: TokenizerRules {
        roles: &[("eos", "<|endoftext|>"), ("eot", "<|endoftext|>"), ("unk", "<unk>"), ("bos", "<|startoftext|>")],
        pre: &[(PreTokenizer::Qwen2, "solar-open")],
        ..BPE
    },
    ..MOE
};

/// The special tokens of GLM 4.5 and later.
pub(super) const GLM_TOKENS: TokenizerRules = TokenizerRules {
    roles: &[("bos", "[gMASK]"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("eom", "<|observation|>")],
    pre: &[(PreTokenizer::Llama3, "glm4")],
    ..BPE
};

const MOE: Architecture = Architecture {
    rules: &[
        EMBED_NORM_HEAD,
        OPTIONAL_BIASES,
        OPTIONAL_QK_NORMS,
        POST_ATTENTION_NORMS,
        CORRECTION,
        GATED_FFN,
        EXPERTS,
        SHARED_EXPERTS,
        NEXTN_TENSORS,
    ],
    keys: &[COMMON, MOE_KEYS],
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    ..PLAIN
};

const OPTIONAL_BIASES: &[Rule] = &attention(OPTIONAL, Need::Never);

const OPTIONAL_QK_NORMS: &[Rule] = &[
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]).when(OPTIONAL),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).when(OPTIONAL),
];

const MOE_KEYS: &[Key] = &[
    count_fn("rope.dimension_count", half_of_head),
    count("expert_count", &["n_routed_experts"]),
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_count", &["n_shared_experts"]),
    count("leading_dense_block_count", &["first_k_dense_replace"]),
    count_fn("expert_gating_func", |_| Ok(Some(2))),
    real("expert_weights_scale", &["routed_scaling_factor"]),
    flag("expert_weights_norm", "norm_topk_prob"),
    NEXTN_COUNT,
];

const NEXTN_COUNT: Key = count_fn("nextn_predict_layers", |config| {
    Ok(config.count(&["num_nextn_predict_layers"])?.map(|_| config.nextn_layers))
});
