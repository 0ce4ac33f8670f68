//! PaddleOCR-VL: SigLIP, and patches merged by two layers.

use super::prelude::*;

const MIN_PIXELS: Size =
    size(|config| config.divisor("preprocessor_config.min_pixels"), "preprocessor_config.min_pixels", "");
const MAX_PIXELS: Size =
    size(|config| config.divisor("preprocessor_config.max_pixels"), "preprocessor_config.max_pixels", "");

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("PaddleOCRVisionModel", "paddleocr_vl")],
    renames: &[
        Rename::Prefix("visual.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("visual.vision_model.", "vision."),
        Rename::Prefix("mlp_AR.", "mm."),
    ],
    dropped: &["vision.head.", "vision.embeddings.packing_position_embedding."],
    rules: &[
        CONVOLUTION,
        SIGLIP_LAYERS,
        POSITIONS_AND_NORM,
        &[
            biased(model("mm.pre_norm.*", "mm.input_norm.*", &[V_HIDDEN])),
            biased(model("mm.linear_1.*", "mm.1.*", &[MERGED, MERGED])),
            biased(model("mm.linear_2.*", "mm.2.*", &[TEXT, MERGED])),
        ],
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL.with_image(|config| Ok(Some((MAX_PIXELS.of)(config)?.isqrt())))),
        &[
            projector(|_| Ok(Some("paddleocr"))),
            sized("vision.image_max_pixels", MAX_PIXELS),
            sized("vision.image_min_pixels", MIN_PIXELS),
            is_true("use_gelu"),
            epsilon(|config| Ok(Some(config.real(&["vision_config.rms_norm_eps"])?.unwrap_or(1e-6)))),
        ],
    ],
    ..PROJECTOR
}];
