//! The types that scales and offsets are stored in.

use anamnesis_kernels::chosen::{self, Rounded};
use anamnesis_kernels::{self as kernels, Level, TopExponent};

use super::filled::filled;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;

/// A type of scales or offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ScaleType {
    F32,
    Bf16,
    F16,
    E8m0,
    /// A power of two as a biased exponent in a byte.
    Exponent,
    E4m3,
    I8,
}

impl ScaleType {
    /// Scales stored as this type, powers of two included.
    pub(crate) fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F8E8M0 => Some(Self::E8m0),
            Dtype::U8 => Some(Self::Exponent),
            other => Self::of_float(other),
        }
    }

    /// Scales stored as an ordinary float type.
    pub(crate) fn of_float(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Self::F32),
            Dtype::BF16 => Some(Self::Bf16),
            Dtype::F16 => Some(Self::F16),
            _ => None,
        }
    }

    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::E8m0 | Self::Exponent | Self::E4m3 | Self::I8 => 1,
        }
    }

    /// Little-endian values as `f32`, as many as `out` takes.
    pub(crate) fn widen(self, level: Level, bytes: &[u8], out: &mut [f32]) -> Result<()> {
        let written = match self {
            Self::F32 => kernels::widen_f32(level, bytes, out),
            Self::Bf16 => kernels::widen_bf16(level, bytes, out),
            Self::F16 => kernels::widen_f16(level, bytes, out),
            Self::E8m0 => kernels::widen_e8m0(level, bytes, out, TopExponent::Nan),
            Self::Exponent => kernels::widen_e8m0(level, bytes, out, TopExponent::Infinity),
            Self::E4m3 => chosen::widen_e4m3(level, bytes, out),
            Self::I8 => {
                out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = byte.cast_signed().into());
                out.len().min(bytes.len())
            }
        };
        filled(written, out.len())
    }

    /// Values as little-endian bytes, the nearest of this type, as many as `out` takes; how many bytes that are. Powers
    /// of two are taken for what they are.
    pub(crate) fn narrow(self, level: Level, values: &[f32], out: &mut [u8]) -> usize {
        match self {
            Self::F32 => chosen::round_slice(level, Rounded::F32, values, out),
            Self::Bf16 => chosen::round_slice(level, Rounded::Bf16, values, out),
            Self::F16 => chosen::round_slice(level, Rounded::F16, values, out),
            // 2^-127, the only power that is no normal number, has no exponent: its byte is 0 too.
            Self::E8m0 | Self::Exponent => {
                out.iter_mut().zip(values).for_each(|(out, value)| *out = (value.to_bits() >> 23) as u8);
                out.len().min(values.len())
            }
            Self::E4m3 => chosen::narrow_e4m3(level, values, out),
            Self::I8 => {
                out.iter_mut().zip(values).for_each(|(out, value)| *out = (*value as i8).cast_unsigned());
                out.len().min(values.len())
            }
        }
    }

    /// The type of the same name.
    pub(crate) const fn of_target(dtype: TargetDtype) -> Self {
        match dtype {
            TargetDtype::BF16 => Self::Bf16,
            TargetDtype::F16 => Self::F16,
            TargetDtype::F32 => Self::F32,
        }
    }
}

/// What a global scale does to the scales below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ScaleOp {
    /// Multiplies them, as ggml's does.
    Multiply,
    /// Divides them.
    Divide,
}
