//! Muse Glimmer.

use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const FRAMES: Size = of("vision_config.patch_temporal", |config| config.divisor("vision_config.patch_temporal"));
const HEIGHT: Size = of("vision_config.pos_emb_height", |config| config.divisor("vision_config.pos_emb_height"));
const CELLS: Size = of("vision_config.pos_emb_height, vision_config.pos_emb_width", |config| {
    Ok((HEIGHT.of)(config)?.saturating_mul(config.divisor("vision_config.pos_emb_width")?))
});
const MERGE: Size = of("vision_config.merge_size", |config| config.divisor("vision_config.merge_size"));
const MERGED_PATCHES: Size =
    of("vision_config.hidden_size, vision_config.merge_size", |config| product(&[V_HIDDEN, MERGE, MERGE], config));
const INNER: Size = of("projector_hidden_size", |config| first(config, &["projector_hidden_size"]));
const PAIRED: &[Change] = &[Change::Rotary("vision_config.num_attention_heads")];

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("MuseGlimmerForConditionalGeneration", "muse_glimmer")],
    renames: &[
        Rename::Prefix("model.vision_tower.layers.", "vision.layers."),
        Rename::Prefix("model.vision_tower.", "vision."),
        Rename::Prefix("model.vision_adapter.", "mm.adapter."),
        Rename::Prefix("model.vision_projection.", "mm.projection."),
    ],
    rules: &[&[
        model(
            "vision.patch_embedder.patch_embedding.weight",
            "v.patch_embd.weight",
            &[V_HIDDEN, CHANNELS, PATCH, PATCH],
        )
        .with(&[Change::SummedFrames(FRAMES, PATCH)]),
        model("vision.patch_embedder.position_embedding_table.weight", "v.position_embd.weight", &[CELLS, V_HIDDEN]),
        biased(model("vision.ln_pre.*", "v.pre_ln.*", &[V_HIDDEN])),
        biased(model("vision.ln_post.*", "v.post_ln.*", &[V_HIDDEN])),
        biased(vision("attn.q_proj.*", "attn_q.*", &[V_HIDDEN, V_HIDDEN]).with(PAIRED)),
        biased(vision("attn.k_proj.*", "attn_k.*", &[V_HIDDEN, V_HIDDEN]).with(PAIRED)),
        biased(vision("attn.v_proj.*", "attn_v.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("attn.proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("mlp.fc1.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
        biased(vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
        biased(vision("norm1.*", "ln1.*", &[V_HIDDEN])),
        biased(vision("norm2.*", "ln2.*", &[V_HIDDEN])),
        model("mm.adapter.fc1.weight", "mm.0.weight", &[INNER, MERGED_PATCHES]),
        model("mm.adapter.fc2.weight", "mm.1.weight", &[INNER, INNER]),
        model("mm.projection.weight", "mm.2.weight", &[TEXT, INNER]),
    ]],
    keys: &[
        &vision_keys(VisionSizes::USUAL.with_image(|config| product(&[HEIGHT, PATCH, MERGE], config).map(Some))),
        &[
            projector(|_| Ok(Some("muse-glimmer"))),
            epsilon(|config| config.needed_real("vision_config.layer_norm_eps").map(Some)),
            sized("vision.spatial_merge_size", MERGE),
        ],
    ],
    ..PROJECTOR
}];
