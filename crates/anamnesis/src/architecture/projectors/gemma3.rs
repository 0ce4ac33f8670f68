//! Gemma 3: a SigLIP tower, pooled and projected.

use super::prelude::*;

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Gemma3ForConditionalGeneration", "gemma3")],
    renames: &[
        Rename::Prefix("vision_tower.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("vision_tower.vision_model.", "vision."),
        Rename::Prefix("model.vision_tower.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_tower.vision_model.", "vision."),
        // transformers 5 saves the tower without the name inside it.
        Rename::Prefix("vision_tower.encoder.layers.", "vision.layers."),
        Rename::Prefix("vision_tower.", "vision."),
        Rename::Prefix("model.vision_tower.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_tower.", "vision."),
        Rename::Prefix("multi_modal_projector.", "mm."),
        Rename::Prefix("model.multi_modal_projector.", "mm."),
    ],
    dropped: &["vision.head."],
    rules: &[
        CONVOLUTION,
        SIGLIP_LAYERS,
        POSITIONS_AND_NORM,
        &[
            model("mm.mm_input_projection_weight", "mm.input_projection.weight", &[V_HIDDEN, TEXT]),
            model("mm.mm_soft_emb_norm.weight", "mm.soft_emb_norm.weight", &[V_HIDDEN]).with(&[Change::PlusOne]),
        ],
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL),
        &[
            projector(|_| Ok(Some("gemma3"))),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
            is_true("use_gelu"),
            count_fn("vision.projector.scale_factor", |config| scale_factor(config, PATCH)),
        ],
    ],
    types: TypeRules::PROJECTOR.and_f32(&["v.patch_embd.", "v.position_embd."]).and_f16(&["mm.input_projection."]),
    ..PROJECTOR
}];

/// The patches that are pooled in each direction, if they are not 4.
pub(super) fn scale_factor(config: &Config, patch: Size) -> Result<Option<u64>> {
    let tokens = config.count(&["preprocessor_config.image_seq_length"])?.unwrap_or(256);
    if tokens == 0 {
        return Err(AnamnesisError::parse(format!("preprocessor_config.json: {} is 0", quoted("image_seq_length"))));
    }
    let side = (IMAGE.of)(config)? / (patch.of)(config)?.max(1);
    Ok(Some(side / tokens.isqrt()).filter(|factor| *factor > 0 && *factor != 4))
}
