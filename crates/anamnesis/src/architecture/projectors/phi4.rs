//! Phi 4 with SigLIP 2, without the tower's last layer.

use super::prelude::*;

/// The patches of the table of positions, a square; 256 by default.
const PLACES: Size =
    size(|config| Ok(config.count(&["vision_config.num_patches"])?.unwrap_or(256)), "vision_config.num_patches", "");
/// The size of a patch, which the description of preprocessing gives.
const PATCH_SIDE: Size =
    size(|config| config.divisor("preprocessor_config.patch_size"), "preprocessor_config.patch_size", "");
/// The layers in front of the last.
const USED: Size = size(|config| Ok((V_LAYERS.of)(config)?.saturating_sub(1)), "vision_config.num_hidden_layers", "");

const KEY: &str = "vision_config.num_hidden_layers";
const OF_USED: Need = Need::When(KEY, |config, layer| Ok(needed_if(layer < (USED.of)(config)?)));
const OF_LAST: Need = Need::When(KEY, |config, layer| Ok(needed_if(layer >= (USED.of)(config)?)));

/// The last layer.
const fn last_layer() -> [Rule; 8] {
    let mut rules = siglip_layers(OF_LAST);
    let mut place = 0;
    while place < rules.len() {
        rules[place] = rules[place].left_out();
        place += 1;
    }
    rules
}

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Phi4ForCausalLMV", "phi4-siglip")],
    renames: &[
        Rename::Prefix("model.vision_tower.vision_tower.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_tower.vision_tower.vision_model.", "vision."),
        Rename::Prefix("vision_tower.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("vision_tower.vision_model.", "vision."),
        Rename::Prefix("model.mm_projector.", "mm."),
        Rename::Prefix("mm_projector.", "mm."),
    ],
    dropped: &["vision.head.", "vision.post_layernorm."],
    rules: &[
        &siglip_layers(OF_USED),
        &last_layer(),
        &[
            model(
                "vision.embeddings.patch_embedding.weight",
                "v.patch_embd.weight",
                &[V_HIDDEN, CHANNELS, PATCH_SIDE, PATCH_SIDE],
            )
            .with(&[Change::ChannelsFirst(PATCH_SIDE)]),
            model("vision.embeddings.patch_embedding.bias", "v.patch_embd.bias", &[V_HIDDEN]),
            model("vision.embeddings.position_embedding.weight", "v.position_embd.weight", &[PLACES, V_HIDDEN]),
            biased(model("mm.0.*", "mm.0.*", &[TEXT, V_HIDDEN])),
            biased(model("mm.2.*", "mm.2.*", &[TEXT, TEXT])),
        ],
    ],
    keys: &[
        &vision_keys(VisionSizes { layers: USED, ..VisionSizes::USUAL }.with_image(image_size)),
        &[
            sized("vision.patch_size", PATCH_SIDE),
            projector(|_| Ok(Some("phi4"))),
            count_fn("vision.image_min_pixels", |config| pixels(config, "min_num_patches")),
            count_fn("vision.image_max_pixels", |config| pixels(config, "max_num_patches")),
            is_true("use_gelu"),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
        ],
    ],
    ..PROJECTOR
}];

fn image_size(config: &Config) -> Result<Option<u64>> {
    let places = (PLACES.of)(config)?;
    let side = places.isqrt();
    if side.saturating_mul(side) != places {
        return Err(AnamnesisError::parse(format!("config.json: {} is {places}, no square", quoted(PLACES.hf))));
    }
    Ok(Some(side.saturating_mul((PATCH_SIDE.of)(config)?)))
}

/// The pixels of a number of patches.
fn pixels(config: &Config, key: &str) -> Result<Option<u64>> {
    match config.count(&[&format!("preprocessor_config.{key}"), key])? {
        Some(patches) => Ok(Some(product(&[PATCH_SIDE, PATCH_SIDE], config)?.saturating_mul(patches))),
        None => Err(AnamnesisError::parse(format!("preprocessor_config.json and config.json have no {}", quoted(key)))),
    }
}
