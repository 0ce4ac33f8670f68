//! Idefics 3 and SmolVLM: a SigLIP tower whose patches are shuffled into fewer.

use super::prelude::*;

/// The hidden states of the patches that become one.
const SHUFFLED: Size = size(
    |config| {
        let scale = config.count(&["scale_factor"])?.unwrap_or(2);
        Ok((V_HIDDEN.of)(config)?.saturating_mul(scale.saturating_mul(scale)))
    },
    "scale_factor, vision_config.hidden_size",
    "",
);

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[
        class("Idefics3ForConditionalGeneration", "idefics3"),
        class("SmolVLMForConditionalGeneration", "smolvlm"),
    ],
    renames: &[
        Rename::Prefix("model.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_model.", "vision."),
        Rename::Prefix("model.connector.", "mm."),
    ],
    rules: &[
        CONVOLUTION,
        SIGLIP_LAYERS,
        POSITIONS_AND_NORM,
        &[model("mm.modality_projection.proj.weight", "mm.model.fc.weight", &[TEXT, SHUFFLED])],
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL),
        &[
            projector(|_| Ok(Some("idefics3"))),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-5)))),
            count_fn("vision.projector.scale_factor", |config| Ok(Some(config.count(&["scale_factor"])?.unwrap_or(2)))),
            is_true("use_gelu"),
            count_fn("vision.preproc_image_size", |config| {
                let edge = config.count(&["preprocessor_config.size.longest_edge"])?;
                edge.map_or_else(|| (IMAGE.of)(config), Ok).map(Some)
            }),
        ],
    ],
    types: TypeRules::PROJECTOR.and_f32(&["v.patch_embd.", "v.position_embd."]),
    ..PROJECTOR
}];
