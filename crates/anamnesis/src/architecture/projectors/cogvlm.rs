//! CogVLM: EVA 2 CLIP with norms behind its layers, and a gated projection.

use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const PLACES: Size = of("vision_config.num_positions", |config| config.divisor("vision_config.num_positions"));
/// The width of the projection is that of the language model's layers.
const INNER: Size = of("intermediate_size", |config| config.divisor("intermediate_size"));

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("CogVLMForCausalLM", "cogvlm")],
    renames: &[
        Rename::Prefix("model.vision.transformer.layers.", "vision.layers."),
        Rename::Prefix("model.vision.linear_proj.", "mm."),
        Rename::Prefix("model.vision.", "vision."),
    ],
    rules: &[&[
        model("vision.boi", "v.boi", &[ONE, ONE, TEXT]),
        model("vision.eoi", "v.eoi", &[ONE, ONE, TEXT]),
        model("vision.patch_embedding.cls_embedding", "v.class_embd", &[ONE, V_HIDDEN]),
        model("vision.patch_embedding.position_embedding.weight", "v.position_embd.weight", &[PLACES, V_HIDDEN]),
        model("vision.patch_embedding.proj.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH]),
        model("vision.patch_embedding.proj.bias", "v.patch_embd.bias", &[V_HIDDEN]),
        biased(vision("input_layernorm.*", "ln1.*", &[V_HIDDEN])),
        biased(vision("post_attention_layernorm.*", "ln2.*", &[V_HIDDEN])),
        biased(vision("attention.query_key_value.*", "attn_qkv.*", &[THREE_HIDDEN, V_HIDDEN])),
        biased(vision("attention.dense.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("mlp.fc1.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
        biased(vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
        model("mm.linear_proj.weight", "mm.model.fc.weight", &[TEXT, V_HIDDEN]),
        biased(model("mm.norm1.*", "mm.post_fc_norm.*", &[TEXT])),
        model("mm.gate_proj.weight", "mm.gate.weight", &[INNER, TEXT]),
        model("mm.dense_h_to_4h.weight", "mm.up.weight", &[INNER, TEXT]),
        model("mm.dense_4h_to_h.weight", "mm.down.weight", &[TEXT, INNER]),
    ]],
    keys: &[
        &vision_keys(VisionSizes::USUAL),
        &[
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
            projector(|_| Ok(Some("cogvlm"))),
        ],
    ],
    ..PROJECTOR
}];
