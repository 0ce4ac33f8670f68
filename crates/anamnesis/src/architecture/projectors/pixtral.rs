//! Pixtral, in Llava, Mistral 3 and LightOnOCR.

use super::prelude::*;

const RENAMES: &[Rename] = &[
    Rename::Prefix("vision_tower.transformer.layers.", "vision.layers."),
    Rename::Prefix("vision_tower.", "vision."),
    Rename::Prefix("multi_modal_projector.", "mm."),
    Rename::Prefix("model.vision_tower.transformer.layers.", "vision.layers."),
    Rename::Prefix("model.vision_tower.", "vision."),
    Rename::Prefix("model.multi_modal_projector.", "mm."),
    Rename::Prefix("model.vision_encoder.transformer.layers.", "vision.layers."),
    Rename::Prefix("model.vision_encoder.", "vision."),
    Rename::Prefix("model.vision_projection.", "mm."),
];

/// The rows of queries are those of pairs in llama.cpp's RoPE.
const PAIRED: &[Change] = &[Change::Rotary("vision_config.num_attention_heads")];

const RULES: &[Rule] = &[
    model("vision.patch_conv.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH]),
    model("vision.ln_pre.weight", "v.pre_ln.weight", &[V_HIDDEN]),
    vision("attention.q_proj.weight", "attn_q.weight", &[V_HIDDEN, V_HIDDEN]).with(PAIRED),
    vision("attention.k_proj.weight", "attn_k.weight", &[V_HIDDEN, V_HIDDEN]).with(PAIRED),
    vision("attention.v_proj.weight", "attn_v.weight", &[V_HIDDEN, V_HIDDEN]),
    vision("attention.o_proj.weight", "attn_out.weight", &[V_HIDDEN, V_HIDDEN]),
    vision("attention_norm.weight", "ln1.weight", &[V_HIDDEN]),
    vision("ffn_norm.weight", "ln2.weight", &[V_HIDDEN]),
    vision("feed_forward.gate_proj.weight", "ffn_gate.weight", &[V_FFN, V_HIDDEN]),
    vision("feed_forward.up_proj.weight", "ffn_up.weight", &[V_FFN, V_HIDDEN]),
    vision("feed_forward.down_proj.weight", "ffn_down.weight", &[V_HIDDEN, V_FFN]),
    model("mm.linear_1.*", "mm.1.*", &[TEXT, V_HIDDEN]).biased(OF_BIAS),
    model("mm.linear_2.*", "mm.2.*", &[TEXT, TEXT]).biased(OF_BIAS),
];

const OF_BIAS: Need = Need::Flag("multimodal_projector_bias");

/// The patches that Mistral 3 merges.
const MERGE_ROWS: Size = size(
    |config| {
        let merge = config.divisor("spatial_merge_size")?;
        Ok((V_HIDDEN.of)(config)?.saturating_mul(merge.saturating_mul(merge)))
    },
    "spatial_merge_size, vision_config.hidden_size",
    "",
);

const MERGER: &[Rule] = &[
    model("mm.norm.weight", "mm.input_norm.weight", &[V_HIDDEN]),
    model("mm.patch_merger.merging_layer.weight", "mm.patch_merger.weight", &[V_HIDDEN, MERGE_ROWS]),
];

const fn own_keys(name: fn(&Config) -> Result<Option<&'static str>>) -> [Key; 5] {
    let [silu, gelu] = needed_activation();
    [
        projector(name),
        epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-5)))),
        silu,
        gelu,
        count("vision.spatial_merge_size", &["spatial_merge_size"]),
    ]
}

pub(super) const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        classes: &[class("LlavaForConditionalGeneration", "llava")],
        applies: is_pixtral,
        renames: RENAMES,
        rules: &[RULES],
        keys: &[&vision_keys(VisionSizes::USUAL), &own_keys(|_| Ok(Some("pixtral")))],
        ..PROJECTOR
    },
    Architecture {
        classes: &[class("Mistral3ForConditionalGeneration", "mistral3")],
        applies: is_pixtral,
        renames: RENAMES,
        rules: &[RULES, MERGER],
        keys: &[&vision_keys(VisionSizes::USUAL), &own_keys(|_| Ok(Some("pixtral")))],
        ..PROJECTOR
    },
    Architecture {
        classes: &[class("LightOnOCRForConditionalGeneration", "lighton_ocr")],
        applies: is_pixtral,
        renames: RENAMES,
        rules: &[RULES, MERGER],
        keys: &[&vision_keys(VisionSizes::USUAL), &own_keys(|_| Ok(Some("lightonocr")))],
        ..PROJECTOR
    },
];

/// Other towers of Llava have no projector in llama.cpp's converter.
fn is_pixtral(raw: &serde_json::Map<String, serde_json::Value>) -> bool {
    raw.get("vision_config").and_then(|vision| vision.get("model_type")?.as_str()) == Some("pixtral")
}
