//! Step3-VL and Step 3.7: a tower with layer scales, two convolutions that halve the image, and a projection.

use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
/// The inner width, or its ratio to the hidden size.
const INNER: Size = of("vision_config.intermediate_size, vision_config.mlp_ratio", |config| {
    if let Some(inner @ 1..) = config.count(&["vision_config.intermediate_size"])? {
        return Ok(inner);
    }
    let ratio = config.real(&["vision_config.mlp_ratio"])?.unwrap_or(8960.0 / 1536.0);
    let inner = ((V_HIDDEN.of)(config)? as f64 * ratio).round_ties_even();
    match inner >= 1.0 && inner <= f64::from(u32::MAX) {
        true => Ok(inner as u64),
        false => {
            let key = quoted("vision_config.mlp_ratio");
            Err(AnamnesisError::parse(format!("config.json: {key} is {ratio}, a positive number is needed")))
        }
    }
});
const DOUBLE: Size = of("vision_config.hidden_size", |config| product(&[V_HIDDEN, TWO], config));
const FOURFOLD: Size = of("vision_config.hidden_size", |config| product(&[DOUBLE, TWO], config));
const THREE: Size = CHANNELS;
const STRIDE: &str = "understand_projector_stride";

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[
        class("StepVLForConditionalGeneration", "step_robotics"),
        class("Step3p7ForConditionalGeneration", "step3p7"),
    ],
    renames: &[
        Rename::Prefix("vision_model.transformer.resblocks.", "vision.layers."),
        Rename::Prefix("vision_model.", "vision."),
        Rename::Prefix("vit_large_projector.", "mm.vit_large_projector."),
    ],
    rules: &[&[
        model("vision.conv1.weight", "v.patch_embd.weight", &[V_HIDDEN, THREE, PATCH, PATCH]),
        model("vision.positional_embedding", "v.position_embd.weight", &[POSITIONS, V_HIDDEN]),
        biased(model("vision.ln_pre.*", "v.pre_ln.*", &[V_HIDDEN])),
        biased(vision("ln_1.*", "ln1.*", &[V_HIDDEN])),
        biased(vision("ln_2.*", "ln2.*", &[V_HIDDEN])),
        vision("attn.in_proj_weight", "attn_qkv.weight", &[THREE_HIDDEN, V_HIDDEN]),
        vision("attn.in_proj_bias", "attn_qkv.bias", &[THREE_HIDDEN]),
        biased(vision("attn.out_proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("mlp.c_fc.*", "ffn_up.*", &[INNER, V_HIDDEN])),
        biased(vision("mlp.c_proj.*", "ffn_down.*", &[V_HIDDEN, INNER])),
        vision("ls_1.gamma", "ls1.weight", &[V_HIDDEN]),
        vision("ls_2.gamma", "ls2.weight", &[V_HIDDEN]),
        model("vision.vit_downsampler1.weight", "mm.0.weight", &[DOUBLE, V_HIDDEN, THREE, THREE]),
        model("vision.vit_downsampler1.bias", "mm.0.bias", &[DOUBLE]).when(OPTIONAL),
        model("vision.vit_downsampler2.weight", "mm.1.weight", &[FOURFOLD, DOUBLE, THREE, THREE]),
        model("vision.vit_downsampler2.bias", "mm.1.bias", &[FOURFOLD]).when(OPTIONAL),
        model("mm.vit_large_projector.weight", "mm.model.fc.weight", &[TEXT, FOURFOLD]),
    ]],
    keys: &[
        &vision_keys(VisionSizes { ffn: INNER, colours: COLOURS, ..VisionSizes::USUAL }.with_image(known_size)),
        &[
            projector(|_| Ok(Some("step3vl"))),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-5)))),
            count_fn("vision.projector.scale_factor", |_| Ok(Some(4))),
            count_fn("vision.preproc_image_size", |_| Ok(Some(3024))),
        ],
    ],
    types: TypeRules::PROJECTOR.and_f16_or_f32(&[".patch_embd.weight", "mm.0.weight", "mm.1.weight"]),
    ..PROJECTOR
}];

/// The colours of CLIP, by default.
const COLOURS: [ValueSource; 2] = [
    ValueSource::RealsFn(|config| colours(config, "image_mean", Some([0.481_454_66, 0.457_827_5, 0.408_210_73]))),
    ValueSource::RealsFn(|config| colours(config, "image_std", Some([0.268_629_54, 0.261_302_58, 0.275_777_11]))),
];

/// The size of images, in models of the sizes that the converter knows.
fn known_size(config: &Config) -> Result<Option<u64>> {
    let image = (IMAGE.of)(config)?;
    for (key, own, known) in [
        (STRIDE, config.needed(STRIDE)?, 2),
        (IMAGE.hf, image, 728),
        (V_HIDDEN.hf, (V_HIDDEN.of)(config)?, 1536),
        (V_LAYERS.hf, (V_LAYERS.of)(config)?, 47),
    ] {
        if own != known {
            let why = format!("config.json: {} is {own}, llama.cpp supports {known} only", quoted(key));
            return Err(AnamnesisError::parse(why));
        }
    }
    Ok(Some(image))
}
