//! Exaone 3 and 3.5, Exaone 4, 4.5, and Exaone MoE.

use crate::architecture::families::PLAIN;
use crate::architecture::prelude::*;

pub(super) static EXAONE3: Architecture = Architecture {
    name: "exaone",
    classes: &[class("ExaoneForCausalLM", "exaone")],
    layer_prefix: "transformer.h.",
    rules: &[EXAONE3_TENSORS],
    keys: &[COMMON, EXAONE3_KEYS],
    derived_tensors: ROPE_FREQS,
    tokenizer: TokenizerRules { pre: &[(PreTokenizer::Digits, "exaone")], ..BPE },
    ..PLAIN
};

const EXAONE3_TENSORS: &[Rule] = &[
    model("transformer.wte.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("transformer.ln_f.*", "output_norm.*", &[HIDDEN]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
    layer("ln_1.*", "attn_norm.*", &[HIDDEN]),
    layer("ln_2.*", "ffn_norm.*", &[HIDDEN]),
    layer("attn.attention.q_proj.*", "attn_q.*", &[Q_DIM, HIDDEN]),
    layer("attn.attention.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]),
    layer("attn.attention.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]),
    layer("attn.attention.out_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]),
    layer("mlp.c_fc_0.*", "ffn_gate.*", &[FFN, HIDDEN]),
    layer("mlp.c_fc_1.*", "ffn_up.*", &[FFN, HIDDEN]),
    layer("mlp.c_proj.*", "ffn_down.*", &[HIDDEN, FFN]),
];

const EXAONE3_KEYS: &[Key] = &[count_fn("rope.dimension_count", |config| {
    let part = config.rope().real("partial_rotary_factor")?.unwrap_or(1.0);
    Ok(Some((part * config.share_of_width()? as f64) as u64))
})];

pub(super) static EXAONE4: Architecture = Architecture {
    name: "exaone4",
    classes: &[class("Exaone4ForCausalLM", "exaone4")],
    rules: &[EMBED_NORM_HEAD, ATTENTION, QK_NORMS, POST_NORMS, GATED_FFN],
    keys: &[COMMON, &[count("vocab_size", &["vocab_size"])], WINDOWS],
    derived_tensors: FREQS16,
    tokenizer: TOKENS4,
    ..PLAIN
};

/// The RoPE frequency factors, by a factor of 16 by default.
const FREQS16: &[DerivedTensor] = &[DerivedTensor {
    name: "rope_freqs.weight",
    row: None,
    values: |config| config.rope().llama3_factors_by(config.head_size()?, 16.0),
}];

pub(super) static EXAONE4_5: Architecture = Architecture {
    name: "exaone4",
    classes: &[class("Exaone4_5_ForConditionalGeneration", "exaone4_5")],
    renames: MTP,
    rules: &[EMBED_NORM_HEAD, ATTENTION, QK_NORMS, POST_NORMS, GATED_FFN, NEXTN_TENSORS],
    keys: &[COMMON, &[count("vocab_size", &["vocab_size"])], WINDOWS, NEXTN_KEYS],
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    derived_tensors: FREQS16,
    tokenizer: TOKENS4,
    ..PLAIN
};

const TOKENS4: TokenizerRules = TokenizerRules { pre: &[(PreTokenizer::Qwen2, "exaone4")], ..BPE };

/// The names of the layer for multi-token prediction.
const MTP: &[Rename] = &[
    Rename::FurtherLayers("mtp.layers."),
    Rename::Anywhere("mtp.fc.", "mtp#eh_proj."),
    Rename::Anywhere("mtp.pre_fc_norm_embedding.", "mtp#enorm."),
    Rename::Anywhere("mtp.pre_fc_norm_hidden.", "mtp#hnorm."),
    Rename::Anywhere("mtp.norm.", "mtp#shared_head.norm."),
    Rename::Prefix("mtp#", "model.layers.{N}."),
];

const POST_NORMS: &[Rule] = &[
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]),
    layer("post_feedforward_layernorm.*", "post_ffw_norm.*", &[HIDDEN]),
];

const WINDOWS: &[Key] =
    &[count("attention.sliding_window", &["sliding_window"]), flags_fn("attention.sliding_window_pattern", windows)];

/// The layers with a sliding window: a list, letters that repeat, or all but every nth.
fn windows(config: &Config) -> Result<Option<Vec<bool>>> {
    if config.get("sliding_window").is_none() {
        return Ok(None);
    }
    if let Some(layers) = sliding_layers(config)? {
        return Ok(Some(layers));
    }
    let Some(pattern) = config.get("sliding_window_pattern") else { return Ok(None) };
    if let Some(letters) = pattern.as_str().filter(|letters| !letters.is_empty()) {
        let letters: Vec<char> = letters.chars().collect();
        let is_local = |layer: u64| letters.get((layer % letters.len() as u64) as usize) == Some(&'L');
        return config.per_layer(|layer| Ok(is_local(layer))).map(Some);
    }
    let every = config.divisor("sliding_window_pattern")?;
    config.per_layer(|layer| Ok(!(layer + 1).is_multiple_of(every))).map(Some)
}

pub(super) static MOE: Architecture = Architecture {
    name: "exaone-moe",
    classes: &[class("ExaoneMoeForCausalLM", "exaone_moe"), class("ExaoneMoEForCausalLM", "exaone_moe")],
    renames: MTP,
    rules: &[
        EMBED_NORM_HEAD,
        NORMS,
        ATTENTION,
        QK_NORMS,
        GATED_FFN,
        EXPERTS,
        SHARED_EXPERTS,
        OWN_CORRECTION,
        CORRECTION,
        NEXTN_TENSORS,
    ],
    keys: &[COMMON, &[count("vocab_size", &["vocab_size"])], WINDOWS, MOE_KEYS],
    nextn_layers: NextnLayers::Key("num_nextn_predict_layers"),
    derived_tensors: FREQS16,
    ..PLAIN
};

const OWN_CORRECTION: &[Rule] =
    &[layer("mlp.e_score_correction_bias", "exp_probs_b.bias", &[EXPERT_COUNT]).when(OPTIONAL_SPARSE)];

const MOE_KEYS: &[Key] = &[
    count("expert_feed_forward_length", &["moe_intermediate_size"]),
    count("expert_shared_count", &["num_shared_experts"]),
    count_fn("expert_shared_feed_forward_length", |config| {
        let shared = config.needed("num_shared_experts")?;
        Ok(Some(config.needed("moe_intermediate_size")?.saturating_mul(shared)))
    }),
    real("expert_weights_scale", &["routed_scaling_factor"]),
    flag("expert_weights_norm", "norm_topk_prob"),
    count_or("leading_dense_block_count", &["first_k_dense_replace", "first_last_k_dense_replace"], 0),
    count_fn("nextn_predict_layers", |config| Ok(Some(config.nextn_layers))),
    text_fn("rope.scaling.type", |_| Ok(Some("none"))),
];
