//! Youtu-VL: SigLIP 2 with attention in windows, whose patches are rows of pixels.

use super::prelude::*;
use super::qwen2vl::image_size;

/// The values of a patch.
const PATCH_VALUES: Size = size(|config| product(&[PATCH, PATCH, CHANNELS], config), "vision_config.patch_size", "");

const ACTIVATION: &str = "vision_config.hidden_act";
const FULL_ATTENTION: &str = "vision_config.fullatt_block_indexes";

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("YoutuVLForConditionalGeneration", "youtu_vl")],
    renames: &[
        Rename::Prefix("siglip2.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("siglip2.vision_model.", "vision."),
        Rename::Prefix("merger.", "mm."),
    ],
    rules: &[
        SIGLIP_LAYERS,
        &[
            model("vision.embeddings.patch_embedding.weight", "v.patch_embd.weight", &[V_HIDDEN, PATCH_VALUES]),
            model("vision.embeddings.patch_embedding.bias", "v.patch_embd.bias", &[V_HIDDEN]),
            biased(model("vision.post_layernorm.*", "v.post_ln.*", &[V_HIDDEN])),
            model("mm.ln_q.weight", "mm.input_norm.weight", &[V_HIDDEN]),
            biased(model("mm.mlp.0.*", "mm.0.*", &[MERGED, MERGED])),
            biased(model("mm.mlp.2.*", "mm.2.*", &[MERGED_OUT, MERGED])),
        ],
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL.with_image(image_size)),
        &[
            projector(|_| Ok(Some("youtuvl"))),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
            flag_fn("use_gelu", |config| Ok(is_gelu(config)?.then_some(true))),
            flag_fn("use_silu", |config| Ok((!is_gelu(config)?).then_some(true))),
            count_fn("vision.spatial_merge_size", |config| {
                Ok(Some(config.count(&["vision_config.spatial_merge_size"])?.unwrap_or(2)))
            }),
            count("vision.window_size", &["vision_config.window_size"]),
            ints_fn("vision.wa_layer_indexes", |config| match config.counts(FULL_ATTENTION)? {
                Some(layers) => {
                    Ok(Some(layers.iter().map(|layer| i32::try_from(*layer).unwrap_or(i32::MAX)).collect()))
                }
                None => Err(AnamnesisError::parse(format!("config.json has no {}", quoted(FULL_ATTENTION)))),
            }),
        ],
    ],
    ..PROJECTOR
}];

/// Whether the activation is a kind of GELU, as by default; the other known one is SiLU.
fn is_gelu(config: &Config) -> Result<bool> {
    match config.text(ACTIVATION)?.unwrap_or("gelu").to_ascii_lowercase().as_str() {
        "gelu" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_new" | "gelu_accurate" => Ok(true),
        "silu" => Ok(false),
        other => {
            let why = format!("config.json: {} is {}, gelu or silu is needed", quoted(ACTIVATION), quoted(other));
            Err(AnamnesisError::parse(why))
        }
    }
}
