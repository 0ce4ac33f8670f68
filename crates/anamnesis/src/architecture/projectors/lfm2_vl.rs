//! LFM2-VL: SigLIP 2, whose patches are rows of pixels.

use super::prelude::*;

/// The patches that the converter knows.
const SIXTEEN: Size = size(|_| Ok(16), "vision_config.patch_size", "");
const COUNTED: Size = size(|config| first(config, &["vision_config.num_patches"]), "vision_config.num_patches", "");
/// The hidden states of the patches that become one.
const UNSHUFFLED: Size = size(
    |config| {
        let factor = factor(config)?;
        Ok((V_HIDDEN.of)(config)?.saturating_mul(factor.saturating_mul(factor)))
    },
    "downsample_factor, vision_config.hidden_size",
    "",
);
const INNER: Size = size(|config| first(config, &["projector_hidden_size"]), "projector_hidden_size", "");
const OF_NORM: Need = Need::Flag("projector_use_layernorm");
const OF_BIAS: Need = Need::Flag("projector_bias");

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Lfm2VlForConditionalGeneration", "lfm2_vl")],
    renames: &[
        Rename::Prefix("model.vision_tower.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_tower.vision_model.", "vision."),
        Rename::Prefix("model.multi_modal_projector.", "mm."),
        Rename::Prefix("vision_tower.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("vision_tower.vision_model.", "vision."),
        // transformers 5 saves the tower without the name inside it.
        Rename::Prefix("vision_tower.encoder.layers.", "vision.layers."),
        Rename::Prefix("vision_tower.", "vision."),
        Rename::Prefix("model.vision_tower.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_tower.", "vision."),
        Rename::Prefix("multi_modal_projector.", "mm."),
    ],
    dropped: &["vision.head."],
    rules: &[&[
        model(
            "vision.embeddings.patch_embedding.weight",
            "v.patch_embd.weight",
            &[V_HIDDEN, CHANNELS, SIXTEEN, SIXTEEN],
        )
        .with(&[Change::ChannelsFirst(SIXTEEN)]),
        model("vision.embeddings.patch_embedding.bias", "v.patch_embd.bias", &[V_HIDDEN]),
        model("vision.embeddings.position_embedding.weight", "v.position_embd.weight", &[COUNTED, V_HIDDEN]),
        biased(model("vision.post_layernorm.*", "v.post_ln.*", &[V_HIDDEN])),
        biased(vision("layer_norm1.*", "ln1.*", &[V_HIDDEN])),
        biased(vision("layer_norm2.*", "ln2.*", &[V_HIDDEN])),
        biased(vision("mlp.fc1.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
        biased(vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
        biased(vision("self_attn.q_proj.*", "attn_q.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("self_attn.k_proj.*", "attn_k.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("self_attn.v_proj.*", "attn_v.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("self_attn.out_proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
        model("mm.layer_norm.*", "mm.input_norm.*", &[UNSHUFFLED]).when(OF_NORM).biased(OF_NORM),
        model("mm.linear_1.*", "mm.1.*", &[INNER, UNSHUFFLED]).biased(OF_BIAS),
        model("mm.linear_2.*", "mm.2.*", &[TEXT, INNER]).biased(OF_BIAS),
    ]],
    keys: &[
        // The size of images varies; llama.cpp needs one.
        &vision_keys(VisionSizes::USUAL.with_image(|_| Ok(Some(256)))),
        &[
            projector(|_| Ok(Some("lfm2"))),
            epsilon(|config| config.needed_real("vision_config.layer_norm_eps").map(Some)),
            count_fn("vision.projector.scale_factor", |config| factor(config).map(Some)),
            is_true("use_gelu"),
            count_fn("vision.block_count", used_layers),
        ],
    ],
    ..PROJECTOR
}];

fn factor(config: &Config) -> Result<u64> {
    Ok(config.count(&["downsample_factor"])?.unwrap_or(2))
}

/// The layers up to that whose output is used, counted from the last with -1.
fn used_layers(config: &Config) -> Result<Option<u64>> {
    let key = "vision_feature_layer";
    let layers = (V_LAYERS.of)(config)?;
    let layer = config.real(&[key])?.unwrap_or(-1.0);
    let left_out = -(layer + 1.0);
    match left_out.fract() == 0.0 && left_out >= 0.0 && left_out < layers as f64 {
        true => Ok(Some(layers - left_out as u64)),
        false => {
            let why = format!("config.json: {} is {layer}, a layer from -1 to -{layers} is needed", quoted(key));
            Err(AnamnesisError::parse(why))
        }
    }
}
