//! The types that scales and offsets are stored in.

use anamnesis_kernels::{self as kernels, E4m3, Level, TopExponent};

use crate::catalog::Dtype;

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

    /// Little-endian values as `f32`.
    pub(crate) fn widen(self, level: Level, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::F32 => kernels::widen_f32(level, bytes, out),
            Self::Bf16 => kernels::widen_bf16(level, bytes, out),
            Self::F16 => kernels::widen_f16(level, bytes, out),
            Self::E8m0 => kernels::widen_e8m0(level, bytes, out, TopExponent::Nan),
            Self::Exponent => kernels::widen_e8m0(level, bytes, out, TopExponent::Infinity),
            Self::E4m3 => kernels::widen_format8::<E4m3>(level, bytes, out),
            Self::I8 => out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = byte.cast_signed().into()),
        }
    }
}
