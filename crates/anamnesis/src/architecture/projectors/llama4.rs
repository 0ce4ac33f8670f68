//! Llama 4.

use super::internvl::inverse;
use super::prelude::*;

/// The values of a patch.
const PATCH_VALUES: Size = size(|config| product(&[PATCH, PATCH, CHANNELS], config), "vision_config.patch_size", "");
/// The patches and the class token.
const TOKENS: Size = size(
    |config| Ok((POSITIONS.of)(config)?.saturating_add(1)),
    "vision_config.image_size, vision_config.patch_size",
    "",
);
const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const SHUFFLED: Size =
    of("vision_config.intermediate_size", |config| first(config, &["vision_config.intermediate_size"]));
const ADAPTED: Size =
    of("vision_config.projector_input_dim", |config| first(config, &["vision_config.projector_input_dim"]));
const OUT: Size =
    of("vision_config.projector_output_dim", |config| first(config, &["vision_config.projector_output_dim"]));
const VISION_OUT: Size =
    of("vision_config.vision_output_dim", |config| first(config, &["vision_config.vision_output_dim"]));

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Llama4ForConditionalGeneration", "llama4")],
    renames: &[
        Rename::Prefix("vision_model.model.layers.", "vision.layers."),
        Rename::Prefix("vision_model.", "vision."),
        Rename::Prefix("multi_modal_projector.", "mm."),
    ],
    rules: &[&[
        model("vision.class_embedding", "v.class_embd", &[V_HIDDEN]),
        model("vision.positional_embedding_vlm", "v.position_embd.weight", &[TOKENS, V_HIDDEN]),
        model("vision.patch_embedding.linear.weight", "v.patch_embd.weight", &[V_HIDDEN, PATCH_VALUES]),
        biased(model("vision.layernorm_pre.*", "v.pre_ln.*", &[V_HIDDEN])),
        biased(model("vision.layernorm_post.*", "v.post_ln.*", &[V_HIDDEN])),
        biased(vision("input_layernorm.*", "ln1.*", &[V_HIDDEN])),
        biased(vision("post_attention_layernorm.*", "attn_post_norm.*", &[V_HIDDEN])),
        biased(vision("mlp.fc1.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
        biased(vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
        biased(vision("self_attn.q_proj.*", "attn_q.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("self_attn.k_proj.*", "attn_k.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("self_attn.v_proj.*", "attn_v.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("self_attn.o_proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
        model("vision.vision_adapter.mlp.fc1.weight", "mm.model.mlp.1.weight", &[ADAPTED, SHUFFLED]),
        model("vision.vision_adapter.mlp.fc2.weight", "mm.model.mlp.2.weight", &[OUT, OUT]),
        model("mm.linear_1.weight", "mm.model.fc.weight", &[TEXT, VISION_OUT]),
    ]],
    keys: &[
        &vision_keys(VisionSizes::USUAL),
        &[
            projector(|_| Ok(Some("llama4"))),
            epsilon(|config| config.needed_real("vision_config.norm_eps").map(Some)),
            count_fn("vision.projector.scale_factor", |config| {
                inverse(config, "vision_config.pixel_shuffle_ratio").map(Some)
            }),
            flag_fn("use_gelu", |config| match config.text("vision_config.hidden_act")? {
                Some("gelu") => Ok(Some(true)),
                other => Err(AnamnesisError::parse(format!(
                    "config.json: {} is {}, gelu is needed",
                    quoted("vision_config.hidden_act"),
                    quoted(other.unwrap_or("null"))
                ))),
            }),
        ],
    ],
    ..PROJECTOR
}];
