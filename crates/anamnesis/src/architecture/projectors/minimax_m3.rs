//! MiniMax M3: a tower with RoPE over three axes, and patches merged after their projection.

use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const INNER: Size = of("projector_hidden_size", |config| {
    config.count(&["projector_hidden_size"])?.map_or_else(|| (TEXT.of)(config), Ok)
});
const MERGE_KEY: &str = "vision_config.img_token_compression_config.spatial_merge_size";
const MERGE: Size = of(MERGE_KEY, |config| Ok(config.count(&[MERGE_KEY])?.unwrap_or(2)));
const MERGED_TEXT: Size = of(MERGE_KEY, |config| product(&[TEXT, MERGE, MERGE], config));

/// Queries and keys, with the halves of each axis together.
const fn rotated(hf: &'static str, gguf: &'static str) -> Rule {
    biased(vision(hf, gguf, &[V_HIDDEN, V_HIDDEN])).with(&[Change::AxesJoined(V_HEADS)])
}

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[
        class("MiniMaxM3SparseForConditionalGeneration", "minimax_m3_vl"),
        class("MiniMaxM3VLForConditionalGeneration", "minimax_m3_vl"),
    ],
    renames: &[
        Rename::Prefix("vision_tower.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("vision_tower.vision_model.", "vision."),
        Rename::Prefix("patch_merge_mlp.", "mm.merge."),
        Rename::Prefix("multi_modal_projector.", "mm."),
    ],
    rules: &[&[
        model("vision.embeddings.patch_embedding.weight", "v.patch_embd.weight", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
            .with(&[Change::Frame(0)]),
        model("vision.embeddings.patch_embedding.weight", "v.patch_embd.weight.1", &[V_HIDDEN, CHANNELS, PATCH, PATCH])
            .with(&[Change::Frame(1)]),
        biased(model("vision.pre_layrnorm.*", "v.pre_ln.*", &[V_HIDDEN])),
        biased(vision("layer_norm1.*", "ln1.*", &[V_HIDDEN])),
        biased(vision("layer_norm2.*", "ln2.*", &[V_HIDDEN])),
        biased(vision("mlp.fc1.*", "ffn_up.*", &[V_FFN, V_HIDDEN])),
        biased(vision("mlp.fc2.*", "ffn_down.*", &[V_HIDDEN, V_FFN])),
        rotated("self_attn.q_proj.*", "attn_q.*"),
        rotated("self_attn.k_proj.*", "attn_k.*"),
        biased(vision("self_attn.v_proj.*", "attn_v.*", &[V_HIDDEN, V_HIDDEN])),
        biased(vision("self_attn.out_proj.*", "attn_out.*", &[V_HIDDEN, V_HIDDEN])),
        biased(model("mm.linear_1.*", "mm.1.*", &[INNER, V_HIDDEN])),
        biased(model("mm.linear_2.*", "mm.2.*", &[TEXT, INNER])),
        biased(model("mm.merge.linear_1.*", "mm.merger.fc1.*", &[INNER, MERGED_TEXT])),
        biased(model("mm.merge.linear_2.*", "mm.merger.fc2.*", &[TEXT, INNER])),
    ]],
    keys: &[
        &vision_keys(VisionSizes::USUAL),
        &[
            projector(|_| Ok(Some("minimax_m3"))),
            is_true("use_gelu"),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-5)))),
            sized("vision.spatial_merge_size", MERGE),
        ],
    ],
    ..PROJECTOR
}];
