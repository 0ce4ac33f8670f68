//! Gemma 4 Unified: patches and frames go to the language model through a projection, without layers of their own.

use super::prelude::*;

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const HIDDEN: Size = of("vision_config.mm_embed_dim", |config| config.divisor("vision_config.mm_embed_dim"));
const FRAME: Size = of("audio_config.audio_embed_dim", |config| config.divisor("audio_config.audio_embed_dim"));
const TABLE: Size = of("vision_config.mm_posemb_size", |config| config.divisor("vision_config.mm_posemb_size"));
/// The side of the square of patches that becomes a token.
const SIDE: Size = of("vision_config.patch_size, vision_config.pooling_kernel_size", |config| {
    match config.count(&["vision_config.model_patch_size"])? {
        Some(side) => Ok(side),
        None => Ok((PATCH.of)(config)?.saturating_mul(config.divisor("vision_config.pooling_kernel_size")?)),
    }
});
const VALUES: Size = of("vision_config.patch_size, vision_config.pooling_kernel_size", |config| {
    product(&[SIDE, SIDE, CHANNELS], config)
});

/// The values of a patch, channel by channel, for each output or for one.
const CHANNEL_ROWS: &[Change] =
    &[Change::ChannelsFirst(SIDE), Change::Shaped(&[HIDDEN, CHANNELS, SIDE, SIDE], &[HIDDEN, VALUES])];
const CHANNEL_ROW: &[Change] = &[
    Change::Shaped(&[VALUES], &[ONE, VALUES]),
    Change::ChannelsFirst(SIDE),
    Change::Shaped(&[ONE, CHANNELS, SIDE, SIDE], &[VALUES]),
];

/// llama.cpp does not use the size of images.
const SIZES: VisionSizes = VisionSizes { hidden: HIDDEN, ..VisionSizes::USUAL }.with_image(|_| Ok(Some(224)));

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Gemma4UnifiedForConditionalGeneration", "gemma4_unified")],
    renames: &[
        Rename::Prefix("model.vision_embedder.", "vision."),
        Rename::Prefix("model.embed_vision.", "mm.vision."),
        Rename::Prefix("model.embed_audio.", "mm.audio."),
    ],
    rules: &[&[
        model("vision.patch_dense.weight", "v.patch_embd.weight", &[HIDDEN, VALUES]).with(CHANNEL_ROWS),
        model("vision.patch_dense.bias", "v.patch_embd.bias", &[HIDDEN]),
        biased(model("vision.patch_ln1.*", "v.patch_norm.1.*", &[VALUES])).with(CHANNEL_ROW),
        biased(model("vision.patch_ln2.*", "v.patch_norm.2.*", &[HIDDEN])),
        biased(model("vision.pos_norm.*", "v.patch_norm.3.*", &[HIDDEN])),
        model("vision.pos_embedding", "v.position_embd.weight", &[TWO, TABLE, HIDDEN]).with(&[Change::FirstTwoSwapped]),
        model("mm.vision.embedding_projection.weight", "mm.input_projection.weight", &[TEXT, HIDDEN]),
        model("mm.audio.embedding_projection.weight", "mm.a.input_projection.weight", &[TEXT, FRAME]),
    ]],
    keys: &[
        &without_layers(vision_keys(SIZES), 6),
        &without_layers(audio_keys(AudioSizes { hidden: FRAME, ..AudioSizes::USUAL }), 4),
        &[
            text_fn("vision.projector_type", |_| Ok(Some("gemma4uv"))),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
            text_fn("audio.projector_type", |_| Ok(Some("gemma4ua"))),
            count_fn("audio.num_mel_bins", |config| {
                Ok(Some(config.count(&["audio_config.input_feat_size"])?.unwrap_or(128)))
            }),
            real_fn("audio.attention.layer_norm_epsilon", |config| {
                Ok(Some(config.real(&["audio_config.layer_norm_eps"])?.unwrap_or(1e-6)))
            }),
        ],
    ],
    ..PROJECTOR
}];
