//! Qwen 3 Next and Qwen 3.5: linear attention in most layers, and a layer for multi-token prediction.

use crate::architecture::families::QWEN3_MOE;
use crate::architecture::prelude::*;

pub(super) static QWEN3NEXT: Architecture = Architecture {
    name: "qwen3next",
    classes: &[class("Qwen3NextForCausalLM", "qwen3_next")],
    renames: MTP,
    rules: &[
        EMBED_NORM_HEAD_PLUS,
        LAYER_NORMS,
        GATED_ATTENTION,
        LINEAR,
        LINEAR_NEXT,
        GATED_FFN,
        EXPERTS,
        SHARED_EXPERT,
        NEXTN_PLUS,
    ],
    keys: &[COMMON, EXPERT_SIZES, NEXTN_KEYS, KEYS],
    tokenizer: BPE,
    nextn_layers: NextnLayers::KeyOrStored("mtp_num_hidden_layers", "mtp.layers."),
    restore: Some(restored),
    ..QWEN3_MOE
};

/// Qwen 3.5: value heads in the order that llama.cpp repeats keys in.
pub(super) static QWEN35: Architecture = Architecture {
    name: "qwen35",
    classes: &[class("Qwen3_5ForCausalLM", "qwen3_5_text"), class("Qwen3_5ForConditionalGeneration", "qwen3_5")],
    rules: &[EMBED_NORM_HEAD_PLUS, LAYER_NORMS, GATED_ATTENTION, LINEAR_TILED, GATED_FFN, NEXTN_PLUS],
    keys: &[COMMON, EXPERT_SIZES, NEXTN_KEYS, KEYS, SECTIONS],
    restore: Some(restored),
    ..QWEN3NEXT_LIKE
};

/// MiniCPM-V 4.6 around Qwen 3.5, without a layer for multi-token prediction.
pub(super) static MINICPMV: Architecture = Architecture {
    name: "qwen35",
    classes: &[class("MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6")],
    dropped: &["mtp", "model.merger."],
    nextn_layers: NextnLayers::None,
    rules: &[EMBED_NORM_HEAD_PLUS, LAYER_NORMS, GATED_ATTENTION, LINEAR_TILED, GATED_FFN],
    keys: &[COMMON, EXPERT_SIZES, KEYS, SECTIONS],
    renames: &[],
    restore: Some(restored),
    ..QWEN3NEXT_LIKE
};

pub(super) static QWEN35MOE: Architecture = Architecture {
    name: "qwen35moe",
    classes: &[
        class("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text"),
        class("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"),
    ],
    rules: &[EMBED_NORM_HEAD_PLUS, LAYER_NORMS, GATED_ATTENTION, LINEAR_TILED, EXPERTS, SHARED_EXPERT, NEXTN_PLUS],
    keys: &[COMMON, EXPERT_SIZES, NEXTN_KEYS, KEYS, SECTIONS],
    restore: Some(restored),
    ..QWEN3NEXT_LIKE
};

const QWEN3NEXT_LIKE: Architecture = Architecture {
    renames: MTP,
    tokenizer: BPE,
    nextn_layers: NextnLayers::KeyOrStored("mtp_num_hidden_layers", "mtp.layers."),
    ..QWEN3_MOE
};

/// The names of the layer for multi-token prediction.
const MTP: &[Rename] = &[
    Rename::Prefix("model.mtp.", "mtp."),
    Rename::FurtherLayers("mtp.layers."),
    Rename::Anywhere("mtp.fc.", "mtp#eh_proj."),
    Rename::Anywhere("mtp.pre_fc_norm_embedding.", "mtp#enorm."),
    Rename::Anywhere("mtp.pre_fc_norm_hidden.", "mtp#hnorm."),
    Rename::Anywhere("mtp.norm.", "mtp#shared_head.norm."),
    Rename::Prefix("mtp#", "model.layers.{N}."),
];

const EMBED_NORM_HEAD_PLUS: &[Rule] = &[
    model("model.embed_tokens.*", "token_embd.*", &[VOCAB, HIDDEN]),
    model("model.norm.*", "output_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    model("lm_head.*", "output.*", &[VOCAB, HIDDEN]).when(UNTIED),
];

/// Whether a layer has linear attention; those for multi-token prediction do not.
pub(super) fn is_linear(config: &Config, layer: u64) -> Result<bool> {
    match config.text_of_layer("layer_types", layer)? {
        Some(kind) => Ok(kind == "linear_attention"),
        None if config.get("layer_types").is_some() || layer >= config.layers()? => Ok(false),
        None => {
            let interval = config.count(&["full_attention_interval"])?.unwrap_or(4);
            Ok(interval == 0 || !(layer + 1).is_multiple_of(interval))
        }
    }
}

const OF: &str = "layer_types, full_attention_interval";
pub(super) const FULL: Need = Need::When(OF, |config, layer| Ok(needed_if(!is_linear(config, layer)?)));
const FULL_BIAS: Need = Need::When("layer_types, attention_bias", |config, layer| match is_linear(config, layer)? {
    true => Ok(Presence::Surplus),
    false => flagged(config, "attention_bias"),
});
const LINEAR_NEED: Need = Need::When(OF, |config, layer| Ok(needed_if(is_linear(config, layer)?)));

/// `q_proj` has a gate for every value.
const GATED_Q: Size = size(|config| Ok((Q_DIM.of)(config)?.saturating_mul(2)), Q_DIM.hf, Q_DIM.gguf);

const LAYER_NORMS: &[Rule] = &[
    layer("input_layernorm.*", "attn_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
    layer("post_attention_layernorm.*", "post_attention_norm.*", &[HIDDEN]).with(&[Change::PlusOne]),
];

/// Gated attention, in the layers without linear attention.
pub(super) const GATED_ATTENTION: &[Rule] = &[
    layer("self_attn.q_proj.*", "attn_q.*", &[GATED_Q, HIDDEN]).when(FULL).biased(FULL_BIAS),
    layer("self_attn.k_proj.*", "attn_k.*", &[KV_DIM, HIDDEN]).when(FULL).biased(FULL_BIAS),
    layer("self_attn.v_proj.*", "attn_v.*", &[KV_DIM, HIDDEN]).when(FULL).biased(FULL_BIAS),
    layer("self_attn.o_proj.*", "attn_output.*", &[HIDDEN, Q_DIM]).when(FULL).biased(FULL_BIAS),
    layer("self_attn.q_norm.*", "attn_q_norm.*", &[HEAD_DIM]).with(&[Change::PlusOne]).when(FULL),
    layer("self_attn.k_norm.*", "attn_k_norm.*", &[HEAD_DIM]).with(&[Change::PlusOne]).when(FULL),
];

const KEY_HEADS: Size =
    size(|config| config.divisor("linear_num_key_heads"), "linear_num_key_heads", "ssm.group_count");
const VALUE_HEADS: Size =
    size(|config| config.divisor("linear_num_value_heads"), "linear_num_value_heads", "ssm.time_step_rank");
const KEY_SIZE: Size = size(|config| config.needed("linear_key_head_dim"), "linear_key_head_dim", "ssm.state_size");
const VALUE_SIZE: Size = size(
    |config| config.needed("linear_value_head_dim"),
    "linear_value_head_dim",
    "ssm.inner_size, ssm.time_step_rank",
);
const KERNEL: Size =
    size(|config| config.needed("linear_conv_kernel_dim"), "linear_conv_kernel_dim", "ssm.conv_kernel");
/// The values of one key head.
const VALUES_PER_KEY: Size = size(
    |config| {
        let heads = (VALUE_HEADS.of)(config)? / (KEY_HEADS.of)(config)?;
        Ok(heads.saturating_mul((VALUE_SIZE.of)(config)?))
    },
    "linear_num_value_heads, linear_num_key_heads, linear_value_head_dim",
    "ssm.time_step_rank, ssm.group_count, ssm.inner_size",
);
const KEYS_ROWS: Size = size(
    |config| Ok((KEY_HEADS.of)(config)?.saturating_mul((KEY_SIZE.of)(config)?)),
    "linear_num_key_heads, linear_key_head_dim",
    "ssm.group_count, ssm.state_size",
);
const TWO_KEYS_ROWS: Size = size(|config| Ok((KEYS_ROWS.of)(config)?.saturating_mul(2)), KEYS_ROWS.hf, KEYS_ROWS.gguf);
const INNER: Size = size(
    |config| Ok((VALUE_HEADS.of)(config)?.saturating_mul((VALUE_SIZE.of)(config)?)),
    "linear_num_value_heads, linear_value_head_dim",
    "ssm.inner_size",
);
const QKV: Size = size(
    |config| Ok((TWO_KEYS_ROWS.of)(config)?.saturating_add((INNER.of)(config)?)),
    "linear_num_key_heads, linear_key_head_dim, linear_num_value_heads, linear_value_head_dim",
    "ssm.group_count, ssm.state_size, ssm.inner_size",
);
const TWO_VALUE_HEADS: Size =
    size(|config| Ok((VALUE_HEADS.of)(config)?.saturating_mul(2)), VALUE_HEADS.hf, VALUE_HEADS.gguf);
const NONE: Size = size(|_| Ok(0), "", "");

/// The parts of every key head in `in_proj_qkvz`.
const QKVZ: &[Size] = &[KEY_SIZE, KEY_SIZE, VALUES_PER_KEY, VALUES_PER_KEY];

/// Linear attention of both.
const LINEAR: &[Rule] = &[
    layer("linear_attn.A_log", "ssm_a", &[VALUE_HEADS]).with(&[Change::NegativeExponential]).when(LINEAR_NEED),
    layer("linear_attn.dt_bias", "ssm_dt.bias", &[VALUE_HEADS]).when(LINEAR_NEED),
    layer("linear_attn.conv1d.weight", "ssm_conv1d.weight", &[QKV, KERNEL])
        .with(&[Change::WithoutMiddle])
        .when(LINEAR_NEED),
    layer("linear_attn.norm.*", "ssm_norm.*", &[VALUE_SIZE]).when(LINEAR_NEED),
    layer("linear_attn.out_proj.*", "ssm_out.*", &[HIDDEN, INNER]).when(LINEAR_NEED),
];

/// The projections of Qwen 3 Next, by key head.
const LINEAR_NEXT: &[Rule] = &[
    layer("linear_attn.in_proj_ba.*", "ssm_ba.*", &[TWO_VALUE_HEADS, HIDDEN]).when(LINEAR_NEED),
    layer("linear_attn.in_proj_qkvz.weight", "attn_qkv.weight", &[QKV, HIDDEN])
        .with(&[Change::Parts(&Parts { groups: KEY_HEADS, parts: QKVZ, first: 0, count: 3 })])
        .when(LINEAR_NEED),
    layer("linear_attn.in_proj_qkvz.weight", "attn_gate.weight", &[INNER, HIDDEN])
        .with(&[Change::Parts(&Parts { groups: KEY_HEADS, parts: QKVZ, first: 3, count: 1 })])
        .when(LINEAR_NEED),
];

const fn tiled(skipped: Size, width: Size, is_columns: bool) -> TiledHeads {
    TiledHeads { skipped, key_heads: KEY_HEADS, value_heads: VALUE_HEADS, width, is_columns }
}

const ROWS: Change = Change::Tiled(&tiled(NONE, VALUE_SIZE, false));
const AFTER_KEYS: Change = Change::Tiled(&tiled(TWO_KEYS_ROWS, VALUE_SIZE, false));
const HEADS_ONLY: Change = Change::Tiled(&tiled(NONE, ONE, false));
const COLUMNS: Change = Change::Tiled(&tiled(NONE, VALUE_SIZE, true));

/// Linear attention of Qwen 3.5.
pub(super) const LINEAR_TILED: &[Rule] = &[
    layer("linear_attn.A_log", "ssm_a", &[VALUE_HEADS])
        .with(&[HEADS_ONLY, Change::NegativeExponential])
        .when(LINEAR_NEED),
    layer("linear_attn.dt_bias", "ssm_dt.bias", &[VALUE_HEADS]).with(&[HEADS_ONLY]).when(LINEAR_NEED),
    layer("linear_attn.conv1d.weight", "ssm_conv1d.weight", &[QKV, KERNEL])
        .with(&[Change::WithoutMiddle, AFTER_KEYS])
        .when(LINEAR_NEED),
    layer("linear_attn.norm.*", "ssm_norm.*", &[VALUE_SIZE]).when(LINEAR_NEED),
    layer("linear_attn.out_proj.*", "ssm_out.*", &[HIDDEN, INNER]).with(&[COLUMNS]).when(LINEAR_NEED),
    layer("linear_attn.in_proj_qkv.*", "attn_qkv.*", &[QKV, HIDDEN]).with(&[AFTER_KEYS]).when(LINEAR_NEED),
    layer("linear_attn.in_proj_z.*", "attn_gate.*", &[INNER, HIDDEN]).with(&[ROWS]).when(LINEAR_NEED),
    layer("linear_attn.in_proj_a.*", "ssm_alpha.*", &[VALUE_HEADS, HIDDEN]).with(&[HEADS_ONLY]).when(LINEAR_NEED),
    layer("linear_attn.in_proj_b.*", "ssm_beta.*", &[VALUE_HEADS, HIDDEN]).with(&[HEADS_ONLY]).when(LINEAR_NEED),
];

const NEXTN_PLUS: &[Rule] = &[
    layer("eh_proj.*", "nextn.eh_proj.*", &[HIDDEN, TWO_HIDDEN]).when(NEXTN),
    layer("embed_tokens.*", "nextn.embed_tokens.*", &[VOCAB, HIDDEN]).when(NEXTN_OPTIONAL),
    layer("enorm.*", "nextn.enorm.*", &[HIDDEN]).with(&[Change::PlusOne]).when(NEXTN),
    layer("hnorm.*", "nextn.hnorm.*", &[HIDDEN]).with(&[Change::PlusOne]).when(NEXTN),
    layer("shared_head.head.*", "nextn.shared_head_head.*", &[VOCAB, HIDDEN]).when(NEXTN_OPTIONAL),
    layer("shared_head.norm.*", "nextn.shared_head_norm.*", &[HIDDEN]).with(&[Change::PlusOne]).when(NEXTN_OPTIONAL),
];

pub(super) const KEYS: &[Key] = &[
    count("ssm.conv_kernel", &["linear_conv_kernel_dim"]),
    count("ssm.state_size", &["linear_key_head_dim"]),
    count("ssm.group_count", &["linear_num_key_heads"]),
    count("ssm.time_step_rank", &["linear_num_value_heads"]),
    count_fn("ssm.inner_size", |config| (INNER.of)(config).map(Some)),
    flags_fn("attention.recurrent_layers", |config| match config.get("layer_types") {
        Some(_) => config.per_layer(|layer| is_linear(config, layer)).map(Some),
        None => Ok(None),
    }),
    count_or("full_attention_interval", &["full_attention_interval"], 4),
    count_fn("rope.dimension_count", |config| {
        let part = config.rope().real("partial_rotary_factor")?.unwrap_or(0.25);
        Ok(Some((config.head_size()? as f64 * part) as u64))
    }),
];

/// The sections of multimodal RoPE, if the configuration has none.
pub(super) const SECTIONS: &[Key] =
    &[ints_fn("rope.dimension_sections", |config| Ok(Some(sections(config)?.unwrap_or(vec![11, 11, 10, 0]))))];

fn restored(file: &Gguf<'_>, config: &mut serde_json::Map<String, serde_json::Value>) -> Result<usize> {
    restore::plain(file, config)?;
    if let Some(next) = config.remove("num_nextn_predict_layers") {
        set(config, "mtp_num_hidden_layers", next);
    }
    if let (Some(inner), Some(heads @ 1..)) = (file.count("ssm.inner_size"), file.count("ssm.time_step_rank")) {
        set(config, "linear_value_head_dim", inner / heads);
    }
    Ok(0)
}
