//! The stored types of scales and offsets, and the global scale's operation.

use anamnesis_kernels::chosen::{self, Rounded};
use anamnesis_kernels::{self as kernels, Level, TopExponent};

use super::filled::filled;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;

/// The stored type of scales or offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ScaleType {
    F32,
    Bf16,
    F16,
    E8m0,
    /// A biased exponent in a byte, of which 255 is infinity; `E8m0` has NaN there.
    Exponent,
    /// A biased exponent in a byte, placed in the exponent field of an F32: 0 is zero, 255 is infinity.
    ExponentField,
    E4m3,
    I8,
}

impl ScaleType {
    /// The scale type of a dtype: a float type, or a power of two in a byte.
    pub(crate) fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F8E8M0 => Some(Self::E8m0),
            Dtype::U8 => Some(Self::Exponent),
            other => Self::of_float(other),
        }
    }

    /// The scale type of an ordinary float type.
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
            Self::E8m0 | Self::Exponent | Self::ExponentField | Self::E4m3 | Self::I8 => 1,
        }
    }

    /// Widens little-endian values to `f32` until `out` is full.
    pub(crate) fn widen(self, level: Level, bytes: &[u8], out: &mut [f32]) -> Result<()> {
        let written = match self {
            Self::F32 => kernels::widen_f32(level, bytes, out),
            Self::Bf16 => kernels::widen_bf16(level, bytes, out),
            Self::F16 => kernels::widen_f16(level, bytes, out),
            Self::E8m0 => kernels::widen_e8m0(level, bytes, out, TopExponent::Nan),
            Self::Exponent => kernels::widen_e8m0(level, bytes, out, TopExponent::Infinity),
            Self::ExponentField => {
                let field = |byte: u8| f32::from_bits(u32::from(byte) << 23);
                out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = field(*byte));
                out.len().min(bytes.len())
            }
            Self::E4m3 => chosen::widen_e4m3(level, bytes, out),
            Self::I8 => {
                out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = byte.cast_signed().into());
                out.len().min(bytes.len())
            }
        };
        filled(written, out.len())
    }

    /// Rounds values to this type and writes them as little-endian bytes until `out` is full. Returns how many bytes
    /// were written. For the power-of-two types, the values must be powers of two.
    pub(crate) fn narrow(self, level: Level, values: &[f32], out: &mut [u8]) -> usize {
        match self {
            Self::F32 => chosen::round_slice(level, Rounded::F32, values, out),
            Self::Bf16 => chosen::round_slice(level, Rounded::Bf16, values, out),
            Self::F16 => chosen::round_slice(level, Rounded::F16, values, out),
            // 2^-127 is subnormal, and its exponent field is 0, as its byte must be.
            Self::E8m0 | Self::Exponent | Self::ExponentField => {
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

    /// The scale type of an output type.
    pub(crate) const fn of_target(dtype: TargetDtype) -> Self {
        match dtype {
            TargetDtype::BF16 => Self::Bf16,
            TargetDtype::F16 => Self::F16,
            TargetDtype::F32 => Self::F32,
        }
    }
}

/// Whether block scales are multiplied or divided by the global scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ScaleOp {
    /// Multiplied, as in ggml.
    Multiply,
    /// Divided.
    Divide,
}
