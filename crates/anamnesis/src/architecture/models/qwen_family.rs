//! Models that are Qwen 2 or 3 under other names: multimodal ones, encoders, and those of other vendors.

use crate::architecture::families::{QWEN2, QWEN3, QWEN3_MOE};
use crate::architecture::prelude::*;

/// Multimodal models around Qwen 2, and Qwen 2 of other vendors.
pub(super) static QWEN2_AROUND: Architecture = Architecture {
    name: "qwen2",
    classes: &[
        class("Qwen2AudioForConditionalGeneration", "qwen2_audio"),
        class("AudioFlamingo3ForConditionalGeneration", "audioflamingo3"),
        class("DotsOCRForCausalLM", "dots_ocr"),
    ],
    rules: &[EMBED_NORM_HEAD, NORMS, OPTIONAL_BIASES, GATED_FFN],
    keys: &[COMMON, POOLING],
    ..QWEN2
};

/// KORMo.
pub(super) static KORMO: Architecture = Architecture {
    name: "qwen2",
    classes: &[class("KORMoForCausalLM", "kormo")],
    rules: &[EMBED_NORM_HEAD, KORMO_NORMS, OPTIONAL_BIASES, GATED_FFN],
    keys: &[COMMON, POOLING],
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Qwen2, "kormo")], ..PIECES_OR_BPE },
    ..QWEN2
};

/// Biases of the attention projections, in models that have them.
const OPTIONAL_BIASES: &[Rule] = &attention(OPTIONAL, Need::Never);

/// Norms under the names of KORMo, and under the usual ones.
const KORMO_NORMS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("post_attention_layernorm.*", "ffn_norm.*", &[HIDDEN]),
    layer("pre_attention_layernorm.*", "attn_norm.*", &[HIDDEN]),
    layer("pre_mlp_layernorm.*", "ffn_norm.*", &[HIDDEN]),
];

/// Qwen 2 without a head: names without `model.`.
pub(super) static QWEN2_HEADLESS: Architecture = Architecture {
    name: "qwen2",
    classes: &[class("Qwen2Model", "qwen2")],
    renames: &[Rename::Prefix("", "model.")],
    rules: &[EMBED_AND_NORM, NORMS, OPTIONAL_BIASES, GATED_FFN],
    keys: &[COMMON, POOLING],
    ..QWEN2
};

/// Embedding and final norm.
const EMBED_AND_NORM: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]),
];

/// Qwen 3 around a vision tower of Step.
pub(super) static QWEN3_AROUND: Architecture = Architecture {
    name: "qwen3",
    classes: &[class("StepVLForConditionalGeneration", "step_robotics")],
    keys: &[COMMON, POOLING],
    ..QWEN3
};

/// Qwen 3 without a head.
pub(super) static QWEN3_HEADLESS: Architecture = Architecture {
    name: "qwen3",
    classes: &[class("Qwen3Model", "qwen3")],
    renames: &[Rename::Prefix("", "model.")],
    rules: &[EMBED_AND_NORM, NORMS, ATTENTION, QK_NORMS, GATED_FFN],
    keys: &[COMMON, POOLING],
    ..QWEN3
};

/// Qwen 2 and 2.5 with vision.
pub(super) static QWEN2VL: Architecture = Architecture {
    name: "qwen2vl",
    classes: &[
        class("Qwen2VLForConditionalGeneration", "qwen2_vl"),
        class("Qwen2VLModel", "qwen2_vl"),
        class("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl"),
        class("Qwen2_5OmniModel", "qwen2_5_omni"),
    ],
    renames: &[Rename::Prefix("thinker.", "")],
    ..QWEN2
};

/// Qwen 3 with vision.
pub(super) static QWEN3VL: Architecture = Architecture {
    name: "qwen3vl",
    classes: &[class("Qwen3VLForConditionalGeneration", "qwen3_vl")],
    renames: &[Rename::Anywhere("thinker.", "")],
    keys: &[COMMON, POOLING, DEEPSTACK],
    ..QWEN3
};

/// Qwen 3 with speech recognition.
pub(super) static QWEN3ASR: Architecture = Architecture {
    name: "qwen3vl",
    classes: &[class("Qwen3ASRForConditionalGeneration", "qwen3_asr")],
    renames: &[Rename::Anywhere("thinker.", "")],
    keys: &[COMMON, POOLING, NO_DEEPSTACK],
    tokenizer: TokenizerRules {
        overrides: TokenOverrides {
            ids: &[("bos", "<|im_end|>"), ("eos", "<|im_end|>")],
            chat_template: Some(ASR_TEMPLATE),
            ..NO_OVERRIDES
        },
        ..PIECES_OR_BPE
    },
    ..QWEN3
};

/// Qwen 3 MoE with vision: experts are stored transposed.
pub(super) static QWEN3VLMOE: Architecture = Architecture {
    name: "qwen3vlmoe",
    classes: &[class("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe")],
    renames: &[Rename::Anywhere("thinker.", "")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN, TRANSPOSED_EXPERTS],
    keys: &[COMMON, EXPERT_SIZES, DEEPSTACK],
    tokenizer: BPE,
    ..QWEN3_MOE
};

/// The thinker of Qwen 3 Omni.
pub(super) static QWEN3OMNI: Architecture = Architecture {
    name: "qwen3vlmoe",
    classes: &[class("Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe")],
    renames: &[Rename::Anywhere("thinker.", "")],
    rules: &[EMBED_NORM_HEAD, NORMS, ATTENTION, QK_NORMS, GATED_FFN, TRANSPOSED_EXPERTS],
    keys: &[COMMON, EXPERT_SIZES, NO_DEEPSTACK],
    tokenizer: TokenizerRules {
        overrides: TokenOverrides { ids: &[("bos", "<|im_end|>"), ("eos", "<|im_end|>")], ..NO_OVERRIDES },
        ..BPE
    },
    ..QWEN3_MOE
};

const TRANSPOSED_EXPERTS: &[Rule] = &[
    layer("mlp.gate.weight", "ffn_gate_inp.weight", &[EXPERT_COUNT, HIDDEN]).when(SPARSE),
    layer("mlp.experts.{X}.down_proj.weight", "ffn_down_exps.weight", EXPERTS_DOWN).when(SPARSE),
    layer("mlp.experts.{X}.gate_proj.weight", "ffn_gate_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.{X}.up_proj.weight", "ffn_up_exps.weight", EXPERTS_UP).when(SPARSE),
    layer("mlp.experts.down_proj", "ffn_down_exps.weight", EXPERTS_DOWN).with(&[Change::Transposed]).when(SPARSE),
    layer("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", EXPERTS_UP)
        .with(&[Change::Transposed, Change::First(Halves::Rows)])
        .when(SPARSE),
    layer("mlp.experts.gate_up_proj", "ffn_up_exps.weight", EXPERTS_UP)
        .with(&[Change::Transposed, Change::Second(Halves::Rows)])
        .when(SPARSE),
];

/// The layers that receive features of the vision tower.
const DEEPSTACK: &[Key] = &[count_fn("n_deepstack_layers", |config| {
    let indices = config.counts("vision_config.deepstack_visual_indexes")?;
    Ok(Some(indices.map_or(0, |indices| indices.len() as u64)))
})];

const NO_DEEPSTACK: &[Key] = &[count_fn("n_deepstack_layers", |_| Ok(Some(0)))];

/// The chat template of Qwen 3 ASR.
const ASR_TEMPLATE: &str = concat!(
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}",
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
);

/// Diffusion models over Qwen 2's and Qwen 3 MoE's layers.
pub(super) static DREAM: Architecture = Architecture {
    name: "dream",
    classes: &[class("DreamModel", "Dream")],
    rules: &[EMBED_NORM_HEAD, NORMS, OPTIONAL_BIASES, GATED_FFN],
    keys: &[COMMON, POOLING, DIFFUSION],
    tokenizer: TokenizerRules { declared_types: true, ..PIECES_OR_BPE },
    ..QWEN2
};

pub(super) static RND1: Architecture = Architecture {
    name: "rnd1",
    classes: &[class("RND1", "rnd1")],
    keys: &[COMMON, EXPERT_SIZES, DIFFUSION],
    tokenizer: BPE,
    ..QWEN3_MOE
};

/// Attention in both directions, and the token that is replaced.
const DIFFUSION: &[Key] =
    &[flag_fn("attention.causal", |_| Ok(Some(false))), count("tokenizer.ggml.mask_token_id", &["mask_token_id"])];
