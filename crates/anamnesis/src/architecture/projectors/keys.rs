//! Metadata keys that projectors share.

use super::sizes::{A_FFN, A_HEADS, A_HIDDEN, A_LAYERS, IMAGE, PATCH, TEXT, V_FFN, V_HEADS, V_HIDDEN, V_LAYERS};
use crate::architecture::config::Config;
use crate::architecture::key::{FILE_TYPE, Key, ValueSource};
use crate::architecture::size::Size;
use crate::architecture::value::{missing, unexpected};
use crate::error::Result;

/// The sizes of a vision tower that its keys name.
#[derive(Clone, Copy)]
pub(super) struct VisionSizes {
    pub image: ValueSource,
    pub patch: Size,
    pub hidden: Size,
    pub ffn: Size,
    pub layers: Size,
    pub heads: Size,
    /// The mean and the deviation of each colour.
    pub colours: [ValueSource; 2],
}

impl VisionSizes {
    pub(super) const USUAL: Self = Self {
        image: ValueSource::Size(IMAGE),
        patch: PATCH,
        hidden: V_HIDDEN,
        ffn: V_FFN,
        layers: V_LAYERS,
        heads: V_HEADS,
        colours: [
            ValueSource::RealsFn(|config| colours(config, "image_mean", None)),
            ValueSource::RealsFn(|config| colours(config, "image_std", None)),
        ],
    };

    /// The same with another size of images.
    pub(super) const fn with_image(self, image: fn(&Config) -> Result<Option<u64>>) -> Self {
        Self { image: ValueSource::CountFn(image), ..self }
    }
}

/// The sizes of an audio tower that its keys name.
#[derive(Clone, Copy)]
pub(super) struct AudioSizes {
    pub hidden: Size,
    pub ffn: Size,
    pub layers: Size,
    pub heads: Size,
}

impl AudioSizes {
    pub(super) const USUAL: Self = Self { hidden: A_HIDDEN, ffn: A_FFN, layers: A_LAYERS, heads: A_HEADS };
}

pub(super) const fn sized(gguf: &'static str, size: Size) -> Key {
    Key { gguf, from: ValueSource::Size(size) }
}

/// A flag that is set.
pub(super) const fn is_true(gguf: &'static str) -> Key {
    Key { gguf, from: ValueSource::BoolFn(|_| Ok(Some(true))) }
}

/// The type of a projector.
pub(super) const fn projector(name: fn(&Config) -> Result<Option<&'static str>>) -> Key {
    Key { gguf: "projector_type", from: ValueSource::TextFn(name) }
}

/// The epsilon of a vision tower's norms.
pub(super) const fn epsilon(of: fn(&Config) -> Result<Option<f64>>) -> Key {
    Key { gguf: "vision.attention.layer_norm_epsilon", from: ValueSource::RealFn(of) }
}

/// The keys of a vision tower.
pub(super) const fn vision_keys(sizes: VisionSizes) -> [Key; 11] {
    [
        FILE_TYPE,
        is_true("has_vision_encoder"),
        sized("vision.projection_dim", TEXT),
        Key { gguf: "vision.image_size", from: sizes.image },
        sized("vision.patch_size", sizes.patch),
        sized("vision.embedding_length", sizes.hidden),
        sized("vision.feed_forward_length", sizes.ffn),
        sized("vision.block_count", sizes.layers),
        sized("vision.attention.head_count", sizes.heads),
        Key { gguf: "vision.image_mean", from: sizes.colours[0] },
        Key { gguf: "vision.image_std", from: sizes.colours[1] },
    ]
}

/// The keys of an audio tower. In a projector with a vision tower, they follow its keys.
pub(super) const fn audio_keys(sizes: AudioSizes) -> [Key; 7] {
    [
        FILE_TYPE,
        is_true("has_audio_encoder"),
        sized("audio.projection_dim", TEXT),
        sized("audio.embedding_length", sizes.hidden),
        sized("audio.feed_forward_length", sizes.ffn),
        sized("audio.block_count", sizes.layers),
        sized("audio.attention.head_count", sizes.heads),
    ]
}

/// The keys of a tower without layers: the sizes from the width of the feed-forward network to the number of heads are 0.
pub(super) const fn without_layers<const N: usize>(mut keys: [Key; N], width: usize) -> [Key; N] {
    let mut place = width;
    while place < width + 3 {
        keys[place].from = ValueSource::CountFn(|_| Ok(Some(0)));
        place += 1;
    }
    keys
}

/// A number for each colour, by the description of preprocessing or by default.
pub(super) fn colours(config: &Config, name: &str, default: Option<[f64; 3]>) -> Result<Option<Vec<f32>>> {
    let key = format!("preprocessor_config.{name}");
    let Some(values) = config.reals(&key)? else {
        return default.map(|values| Some(values.map(|value| value as f32).to_vec())).ok_or_else(|| missing(&key));
    };
    let is_right = values.len() == 3 && values.iter().all(|value| value.is_finite());
    match is_right {
        true => Ok(Some(values.into_iter().map(|value| value as f32).collect())),
        false => Err(unexpected(&key, &values.into(), "a list of three numbers")),
    }
}

/// `use_gelu` or `use_silu`, by the activation of a vision tower; neither for another one.
pub(super) const fn activation() -> [Key; 2] {
    [
        Key { gguf: "use_gelu", from: ValueSource::BoolFn(|config| is_activation(config, "gelu")) },
        Key { gguf: "use_silu", from: ValueSource::BoolFn(|config| is_activation(config, "silu")) },
    ]
}

/// The same; another activation is refused.
pub(super) const fn needed_activation() -> [Key; 2] {
    [
        Key { gguf: "use_silu", from: ValueSource::BoolFn(|config| is_needed_activation(config, "silu")) },
        Key { gguf: "use_gelu", from: ValueSource::BoolFn(|config| is_needed_activation(config, "gelu")) },
    ]
}

const ACTIVATION: &str = "vision_config.hidden_act";

fn is_activation(config: &Config, name: &str) -> Result<Option<bool>> {
    Ok(config.text(ACTIVATION)?.is_some_and(|own| own.eq_ignore_ascii_case(name)).then_some(true))
}

fn is_needed_activation(config: &Config, name: &str) -> Result<Option<bool>> {
    match config.text(ACTIVATION)? {
        None => Err(missing(ACTIVATION)),
        Some(own @ ("silu" | "gelu")) => Ok((own == name).then_some(true)),
        Some(other) => Err(unexpected(ACTIVATION, &other.into(), "silu or gelu")),
    }
}
