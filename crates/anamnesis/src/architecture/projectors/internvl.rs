//! InternVL: a tower of its own with scaled residuals, and patches shuffled into fewer.

use super::prelude::*;

/// The patches and the class token.
const TOKENS: Size =
    size(|config| Ok(positions(config)?.saturating_add(1)), "vision_config.image_size, vision_config.patch_size", "");
/// The hidden states of the patches that become one.
const SHUFFLED: Size = size(
    |config| {
        let factor = scale_factor(config)?;
        Ok((V_HIDDEN.of)(config)?.saturating_mul(factor.saturating_mul(factor)))
    },
    "downsample_ratio, vision_config.hidden_size",
    "",
);
/// Sizes that may be lists of two.
const SIDE: Size = size(|config| side(config, "vision_config.patch_size"), "vision_config.patch_size", "");

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("InternVisionModel", "intern_vit_6b")],
    renames: &[
        Rename::Prefix("vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("vision_model.", "vision."),
        Rename::Prefix("mlp1.", "mm."),
    ],
    rules: &[
        &[
            model("vision.embeddings.class_embedding", "v.class_embd", &[ONE, ONE, V_HIDDEN]),
            model("vision.embeddings.position_embedding", "v.position_embd.weight", &[ONE, TOKENS, V_HIDDEN]),
            model("vision.embeddings.patch_embedding.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, SIDE, SIDE]),
            model("vision.embeddings.patch_embedding.bias", "v.patch_embd.bias", &[V_HIDDEN]),
            biased(vision("attn.proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
            vision("attn.q_norm.weight", "attn_q_norm.weight", &[V_HIDDEN]).when(OPTIONAL),
            vision("attn.k_norm.weight", "attn_k_norm.weight", &[V_HIDDEN]).when(OPTIONAL),
            vision("ls1", "ls1.weight", &[V_HIDDEN]),
            vision("ls2", "ls2.weight", &[V_HIDDEN]),
            biased(vision("mlp.fc1.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
            biased(vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
            vision("norm1.*", "ln1.*", &[V_HIDDEN]).biased(OPTIONAL),
            vision("norm2.*", "ln2.*", &[V_HIDDEN]).biased(OPTIONAL),
            biased(model("mm.0.*", "mm.model.mlp.0.*", &[SHUFFLED])),
            biased(model("mm.1.*", "mm.model.mlp.1.*", &[TEXT, SHUFFLED])),
            biased(model("mm.3.*", "mm.model.mlp.3.*", &[TEXT, TEXT])),
        ],
        &split_qkv("attn.qkv.*"),
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL.with_image(|config| side(config, "vision_config.image_size").map(Some))),
        &[count_fn("vision.patch_size", |config| (SIDE.of)(config).map(Some))],
        &own_keys(),
    ],
    types: TypeRules::PROJECTOR.and_f32(&[".position_embd."]),
    ..PROJECTOR
}];

const fn own_keys() -> [Key; 7] {
    let [silu, gelu] = needed_activation();
    [
        projector(|_| Ok(Some("internvl"))),
        epsilon(|config| config.needed_real("vision_config.layer_norm_eps").map(Some)),
        silu,
        gelu,
        count_fn("vision.projector.scale_factor", |config| scale_factor(config).map(Some)),
        count_fn("vision.preproc_min_tiles", |config| tiles(config, "min_dynamic_patch")),
        count_fn("vision.preproc_max_tiles", |config| tiles(config, "max_dynamic_patch")),
    ]
}

fn tiles(config: &Config, key: &str) -> Result<Option<u64>> {
    Ok(config.count(&[key])?.filter(|tiles| *tiles > 0))
}

/// A size, or the first of a list.
fn side(config: &Config, key: &str) -> Result<u64> {
    let is_list = config.get(key).is_some_and(serde_json::Value::is_array);
    let size = if is_list { config.count_of_layer(key, 0)?.unwrap_or(0) } else { config.needed(key)? };
    match size {
        0 => Err(AnamnesisError::parse(format!("config.json: {} is 0", quoted(key)))),
        size => Ok(size),
    }
}

fn positions(config: &Config) -> Result<u64> {
    let across = side(config, "vision_config.image_size")? / side(config, "vision_config.patch_size")?;
    Ok(across.saturating_mul(across))
}

/// How many patches become one in each direction.
fn scale_factor(config: &Config) -> Result<u64> {
    inverse(config, "downsample_ratio")
}

/// The whole part of the inverse of a ratio.
pub(super) fn inverse(config: &Config, key: &str) -> Result<u64> {
    let ratio = config.needed_real(key)?;
    match ratio > 0.0 && ratio <= 1.0 && (1.0 / ratio) <= f64::from(u32::MAX) {
        true => Ok((1.0 / ratio) as u64),
        false => {
            Err(AnamnesisError::parse(format!("config.json: {} is {ratio}, a ratio up to 1 is needed", quoted(key))))
        }
    }
}
