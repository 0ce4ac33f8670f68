//! MiniCPM-V 4.6: SigLIP with a merger between its layers.

use super::prelude::*;

/// The hidden states of the four patches that become one.
const FOUR: Size = size(|config| product(&[V_HIDDEN, TWO, TWO], config), "vision_config.hidden_size", "");
const FOUR_INNER: Size = size(|config| product(&[V_FFN, TWO, TWO], config), "vision_config.intermediate_size", "");

/// Whether four patches become one twice, by default, or only once.
const MODE: &str = "preprocessor_config.downsample_mode";
const TWICE: Need = Need::When(MODE, |config, _| Ok(needed_if(is_twice(config)?)));

const fn merger(hf: &'static str, gguf: &'static str, shape: &'static [Size]) -> Rule {
    model(hf, gguf, shape).when(TWICE).biased(TWICE)
}

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6")],
    renames: &[
        Rename::Prefix("model.vision_tower.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_tower.", "vision."),
        Rename::Prefix("model.merger.", "mm."),
    ],
    rules: &[
        CONVOLUTION,
        SIGLIP_LAYERS,
        POSITIONS_AND_NORM,
        &[
            merger("vision.vit_merger.layer_norm1.*", "v.vit_merger.ln1.*", &[V_HIDDEN]),
            merger("vision.vit_merger.self_attn.q_proj.*", "v.vit_merger.attn_q.*", &[V_HIDDEN, V_HIDDEN]),
            merger("vision.vit_merger.self_attn.k_proj.*", "v.vit_merger.attn_k.*", &[V_HIDDEN, V_HIDDEN]),
            merger("vision.vit_merger.self_attn.v_proj.*", "v.vit_merger.attn_v.*", &[V_HIDDEN, V_HIDDEN]),
            merger("vision.vit_merger.self_attn.out_proj.*", "v.vit_merger.attn_out.*", &[V_HIDDEN, V_HIDDEN]),
            merger("vision.vit_merger.pre_norm.*", "v.vit_merger.ds_ln.*", &[FOUR]),
            merger("vision.vit_merger.linear_1.*", "v.vit_merger.ds_ffn_up.*", &[FOUR_INNER, FOUR]),
            merger("vision.vit_merger.linear_2.*", "v.vit_merger.ds_ffn_down.*", &[V_HIDDEN, FOUR_INNER]),
            biased(model("mm.mlp.0.pre_norm.*", "mm.input_norm.*", &[FOUR])),
            biased(model("mm.mlp.0.linear_1.*", "mm.up.*", &[FOUR, FOUR])),
            biased(model("mm.mlp.0.linear_2.*", "mm.down.*", &[TEXT, FOUR])),
        ],
    ],
    keys: &[
        // The size of a slice, not that of the table of positions.
        &vision_keys(VisionSizes::USUAL.with_image(|config| {
            let slice = config.count(&["preprocessor_config.scale_resolution"])?;
            slice.map_or_else(|| (IMAGE.of)(config), Ok).map(Some)
        })),
        &[
            projector(|_| Ok(Some("minicpmv4_6"))),
            count_fn("vision.projector.scale_factor", |config| Ok(Some(if is_twice(config)? { 4 } else { 2 }))),
            ints_fn("vision.wa_layer_indexes", |config| {
                let layer = config.count(&["insert_layer_id", "vision_config.insert_layer_id"])?.unwrap_or(6);
                Ok(Some(vec![i32::try_from(layer).unwrap_or(i32::MAX)]))
            }),
            is_true("use_gelu"),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
        ],
    ],
    ..PROJECTOR
}];

fn is_twice(config: &Config) -> Result<bool> {
    match config.text(MODE)?.unwrap_or("16x") {
        "16x" => Ok(true),
        "4x" => Ok(false),
        other => Err(AnamnesisError::parse(format!(
            "preprocessor_config.json: {} is {}, 4x or 16x is needed",
            quoted("downsample_mode"),
            quoted(other)
        ))),
    }
}
