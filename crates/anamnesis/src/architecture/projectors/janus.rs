//! Janus-Pro: a SigLIP tower and an aligner of several layers.

use super::prelude::*;

/// The width of the layers, which follows from a ratio.
const INNER: Size = size(
    |config| {
        let ratio = config.needed_real("vision_config.mlp_ratio")?;
        Ok(((V_HIDDEN.of)(config)? as f64 * ratio).round_ties_even() as u64)
    },
    "vision_config.hidden_size, vision_config.mlp_ratio",
    "",
);
/// The width that the converter writes: `intermediate_size`, if there is one.
const WRITTEN: Size = size(
    |config| config.count(&["vision_config.intermediate_size"])?.map_or_else(|| (INNER.of)(config), Ok),
    "vision_config.intermediate_size, vision_config.mlp_ratio",
    "",
);
const OUT: Size = size(|config| first(config, &["vision_config.projection_dim"]), "vision_config.projection_dim", "");

/// The layers of the aligner after the first.
const DEPTH: &str = "vision_config.depth";
const fn hidden_layer(hf: &'static str, gguf: &'static str, need: Need) -> Rule {
    model(hf, gguf, &[OUT, OUT]).when(need).biased(need)
}
const SECOND: Need = Need::When(DEPTH, |config, _| Ok(needed_if(config.count(&[DEPTH])?.unwrap_or(2) > 1)));
const THIRD: Need = Need::When(DEPTH, |config, _| Ok(needed_if(config.count(&[DEPTH])?.unwrap_or(2) > 2)));
const FOURTH: Need = Need::When(DEPTH, |config, _| Ok(needed_if(config.count(&[DEPTH])?.unwrap_or(2) > 3)));

const fn own_keys() -> [Key; 4] {
    let [gelu, silu] = activation();
    let eps = epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6))));
    [projector(|_| Ok(Some("janus_pro"))), eps, gelu, silu]
}

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("JanusForConditionalGeneration", "janus")],
    renames: &[
        Rename::Prefix("model.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_model.", "vision."),
        Rename::Prefix("model.aligner.", "mm."),
    ],
    rules: &[
        CONVOLUTION,
        &[
            model("vision.embeddings.position_embedding.weight", "v.position_embd.weight", &[POSITIONS, V_HIDDEN]),
            biased(model("vision.post_layernorm.*", "v.post_ln.*", &[V_HIDDEN])),
            biased(vision("layer_norm1.*", "ln1.*", &[V_HIDDEN])),
            biased(vision("layer_norm2.*", "ln2.*", &[V_HIDDEN])),
            biased(vision("mlp.fc1.*", "ffn_up.*", &[INNER, V_HIDDEN])),
            biased(vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, INNER])),
            vision("self_attn.q_proj.*", "attn_q.*", &[V_HIDDEN, V_HIDDEN]).biased(OPTIONAL),
            vision("self_attn.k_proj.*", "attn_k.*", &[V_HIDDEN, V_HIDDEN]).biased(OPTIONAL),
            vision("self_attn.v_proj.*", "attn_v.*", &[V_HIDDEN, V_HIDDEN]).biased(OPTIONAL),
            biased(vision("self_attn.projection_layer.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
            biased(model("mm.fc1.*", "mm.0.*", &[OUT, V_HIDDEN])),
            hidden_layer("mm.hidden_layers.0.*", "mm.1.*", SECOND),
            hidden_layer("mm.hidden_layers.1.*", "mm.2.*", THIRD),
            hidden_layer("mm.hidden_layers.2.*", "mm.3.*", FOURTH),
        ],
    ],
    keys: &[&vision_keys(VisionSizes { ffn: WRITTEN, ..VisionSizes::USUAL }), &own_keys()],
    ..PROJECTOR
}];
