//! Dimensions of the tensors of projectors.

use crate::architecture::config::Config;
use crate::architecture::rule::Stack;
use crate::architecture::size::{Size, first, size};
use crate::architecture::value::unexpected;
use crate::error::Result;

/// The hidden size of the language model.
pub(super) const TEXT: Size = size(
    |config| first(config, &["text_config.hidden_size", "hidden_size", "text_config.n_embd", "n_embd"]),
    "text_config.hidden_size",
    "",
);
/// The sizes of a vision tower.
pub(super) const IMAGE: Size =
    size(|config| first(config, &["vision_config.image_size"]), "vision_config.image_size", "");
pub(super) const PATCH: Size =
    size(|config| first(config, &["vision_config.patch_size"]), "vision_config.patch_size", "");
pub(super) const V_HIDDEN: Size = size(
    |config| first(config, &["vision_config.hidden_size", "vision_config.width", "vision_config.vt_hidden_size"]),
    "vision_config.hidden_size",
    "",
);
pub(super) const V_FFN: Size = size(
    |config| first(config, &["vision_config.intermediate_size", "vision_config.vt_intermediate_size"]),
    "vision_config.intermediate_size",
    "",
);
pub(super) const V_HEADS: Size = size(vision_heads, "vision_config.num_attention_heads", "");
pub(super) const V_LAYERS: Size = size(
    |config| {
        first(
            config,
            &[
                "vision_config.num_hidden_layers",
                "vision_config.n_layers",
                "vision_config.n_layer",
                "vision_config.num_layers",
                "vision_config.depth",
                "vision_config.layers",
                "vision_config.vt_num_hidden_layers",
            ],
        )
    },
    "vision_config.num_hidden_layers",
    "",
);
/// The size of a head of a vision tower.
pub(super) const HEAD: Size = size(
    |config| match config.count(&["vision_config.head_dim"])? {
        Some(size) => Ok(size),
        None => Ok((V_HIDDEN.of)(config)? / vision_heads(config)?.max(1)),
    },
    "vision_config.hidden_size, vision_config.num_attention_heads",
    "",
);
pub(super) const THREE_HIDDEN: Size =
    size(|config| Ok((V_HIDDEN.of)(config)?.saturating_mul(3)), "vision_config.hidden_size", "");
/// The number of patches of an image.
pub(super) const POSITIONS: Size = size(
    |config| {
        let side = (IMAGE.of)(config)? / config.divisor("vision_config.patch_size")?;
        Ok(side.saturating_mul(side))
    },
    "vision_config.image_size, vision_config.patch_size",
    "",
);
/// The hidden states of the patches that are merged into one.
pub(super) const MERGED: Size = size(
    |config| product(&[V_HIDDEN, MERGE, MERGE], config),
    "vision_config.hidden_size, vision_config.spatial_merge_size",
    "",
);
/// The output of a merger, by the name that some configurations have for it.
pub(super) const MERGED_OUT: Size = size(
    |config| config.count(&["vision_config.out_hidden_size"])?.map_or_else(|| (TEXT.of)(config), Ok),
    "vision_config.out_hidden_size",
    "",
);
/// The patches that are merged in each direction, 2 by default.
const MERGE: Size = size(
    |config| Ok(config.count(&["vision_config.spatial_merge_size"])?.unwrap_or(2)),
    "vision_config.spatial_merge_size",
    "",
);
pub(super) const CHANNELS: Size = size(|_| Ok(3), "", "");
pub(super) const TWO: Size = size(|_| Ok(2), "", "");

/// The layers of a vision tower.
pub(super) const VISION: Stack = Stack { hf: "vision.layers.", gguf: "v.blk.", layers: Some(V_LAYERS) };

/// The sizes of an audio tower, also by their names in Whisper.
pub(super) const A_HIDDEN: Size =
    size(|config| first(config, &["audio_config.hidden_size", "audio_config.d_model"]), "audio_config.hidden_size", "");
pub(super) const A_FFN: Size = size(
    |config| first(config, &["audio_config.intermediate_size", "audio_config.encoder_ffn_dim"]),
    "audio_config.intermediate_size",
    "",
);
pub(super) const A_HEADS: Size = size(
    |config| {
        let heads = first(config, &["audio_config.num_attention_heads", "audio_config.encoder_attention_heads"])?;
        divides(config, heads, A_HIDDEN, "audio_config.num_attention_heads")
    },
    "audio_config.num_attention_heads",
    "",
);
pub(super) const A_LAYERS: Size = size(
    |config| {
        first(config, &["audio_config.num_hidden_layers", "audio_config.num_layers", "audio_config.encoder_layers"])
    },
    "audio_config.num_hidden_layers",
    "",
);

/// The product of several sizes.
pub(super) fn product(sizes: &[Size], config: &Config) -> Result<u64> {
    sizes.iter().try_fold(1u64, |product, size| Ok(product.saturating_mul((size.of)(config)?)))
}

fn vision_heads(config: &Config) -> Result<u64> {
    let keys = [
        "vision_config.num_attention_heads",
        "vision_config.num_heads",
        "vision_config.heads",
        "vision_config.vt_num_attention_heads",
    ];
    divides(config, first(config, &keys)?, V_HIDDEN, config.present(&keys))
}

/// Refuses a number of heads that does not divide the hidden size.
pub(super) fn divides(config: &Config, heads: u64, hidden: Size, key: &str) -> Result<u64> {
    let width = (hidden.of)(config)?;
    match heads > 0 && width.is_multiple_of(heads) {
        true => Ok(heads),
        false => Err(unexpected(key, &heads.into(), &format!("a divisor of the hidden size {width}"))),
    }
}
