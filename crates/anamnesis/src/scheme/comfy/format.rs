//! The formats that ComfyUI's markers name, with their options.

use crate::error::{AnamnesisError, Result};
use crate::quant_config::Args;
use crate::scheme::coder::Rotation;

/// A format whose weights this scheme decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Nvfp4,
    Mxfp8,
    Int8,
    Int8Blocks,
    ConvRotW4A4,
    W4A8,
    Awq,
    SvdQuant,
}

/// The name in a marker, and the format.
const NAMES: [(&str, Format); 10] = [
    ("nvfp4", Format::Nvfp4),
    ("mxfp8", Format::Mxfp8),
    ("int8_tensorwise", Format::Int8),
    ("int8_blockwise", Format::Int8Blocks),
    ("convrot_w4a4", Format::ConvRotW4A4),
    ("asym_w4a8_int8", Format::W4A8),
    ("w4a8", Format::W4A8),
    ("w4a8_int8", Format::W4A8),
    ("awq_w4a16", Format::Awq),
    ("svdquant_w4a4", Format::SvdQuant),
];

/// The default size of a rotated group.
const DEFAULT_ROTATION: u64 = 256;

impl Format {
    pub(super) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    /// The name in reports.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Nvfp4 => "ComfyUI NVFP4",
            Self::Mxfp8 => "ComfyUI MXFP8",
            Self::Int8 => "ComfyUI INT8",
            Self::Int8Blocks => "ComfyUI INT8 in blocks",
            Self::ConvRotW4A4 => "ComfyUI ConvRot W4A4",
            Self::W4A8 => "ComfyUI W4A8",
            Self::Awq => "ComfyUI AWQ W4A16",
            Self::SvdQuant => "ComfyUI SVDQuant W4A4",
        }
    }

    /// The bits of the activations that the layer quantises while it runs, if they differ from the weight's meaning.
    pub(super) const fn activation_bits(self) -> Option<u8> {
        match self {
            Self::ConvRotW4A4 | Self::SvdQuant => Some(4),
            Self::W4A8 => Some(8),
            _ => None,
        }
    }

    /// The suffixes of the parts of a weight after `X.weight`; the first of several names that is present is used.
    pub(super) const fn parts(self) -> &'static [Part] {
        const fn one(name: &'static str) -> Part {
            Part { names: [name, name], is_needed: true }
        }
        const fn either(first: &'static str, second: &'static str) -> Part {
            Part { names: [first, second], is_needed: true }
        }
        const fn optional(name: &'static str) -> Part {
            Part { names: [name, name], is_needed: false }
        }
        match self {
            Self::Nvfp4 => &const { [one("weight_scale"), one("weight_scale_2")] },
            Self::Mxfp8 | Self::Int8 | Self::Int8Blocks | Self::ConvRotW4A4 => &const { [one("weight_scale")] },
            Self::W4A8 => {
                &const {
                    [
                        one("weight_s_rel"),
                        one("weight_s_channel"),
                        optional("weight_codebook"),
                        optional("weight_correction"),
                    ]
                }
            }
            Self::Awq => &const { [one("weight_scale"), either("weight_zeros", "weight_zero")] },
            Self::SvdQuant => {
                &const {
                    [
                        one("weight_scale"),
                        either("weight_proj_down", "proj_down"),
                        either("weight_proj_up", "proj_up"),
                        either("weight_smooth_factor", "smooth_factor"),
                    ]
                }
            }
        }
    }

    /// The rotation of a marked weight.
    pub(super) fn rotation(self, marker: &Args<'_>) -> Result<Option<Rotation>> {
        let is_rotated = match self {
            Self::Int8 => marker.flag(&["convrot"])? == Some(true),
            Self::ConvRotW4A4 | Self::W4A8 => true,
            _ => false,
        };
        if !is_rotated {
            return Ok(None);
        }
        let size = block_size(marker, "convrot_groupsize", DEFAULT_ROTATION)?;
        let rotation = Rotation::of(size);
        rotation.map(Some).ok_or_else(|| AnamnesisError::parse(format!("groups of {size} columns cannot be rotated")))
    }
}

/// A part of a weight: its name in the module, or its other name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) names: [&'static str; 2],
    pub(super) is_needed: bool,
}

/// A positive number in a marker.
pub(super) fn block_size<'a>(marker: &Args<'a>, key: &'a str, default: u64) -> Result<u64> {
    let Some(found) = marker.integer(&[key])? else { return Ok(default) };
    let size = u64::try_from(found.value).ok().filter(|&size| size > 0);
    size.ok_or_else(|| {
        AnamnesisError::parse(format!("{}: {key} is {}; a positive number is needed", found.place, found.value))
    })
}
