//! The types of codes, scales and zero points, as values.

use anamnesis_kernels::Level;
use anamnesis_kernels::float::e4m3fnuz::E4m3Fnuz;
use anamnesis_kernels::float::e5m2::E5m2;
use anamnesis_kernels::float::e5m2fnuz::E5m2Fnuz;
use anamnesis_kernels::float::{Format8, e2m1};

use crate::catalog::Dtype;
use crate::error::Result;
use crate::scheme::coder::{ScaleType, filled};

/// The type of a stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Number {
    U8,
    I8,
    U16,
    I16,
    I32,
    U32,
    I64,
    F32,
    F16,
    Bf16,
    E4m3,
    E5m2,
    E4m3Fnuz,
    E5m2Fnuz,
    E8m0,
    /// Two in a byte, the first in the low half.
    E2m1,
}

impl Number {
    /// The type of integer codes and zero points.
    pub(crate) fn of_integers(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::U8 => Self::U8,
            Dtype::I8 => Self::I8,
            Dtype::U16 => Self::U16,
            Dtype::I16 => Self::I16,
            Dtype::I32 => Self::I32,
            Dtype::U32 => Self::U32,
            Dtype::I64 => Self::I64,
            _ => return None,
        })
    }

    /// The type of codes that are small floats.
    pub(crate) fn of_floats(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::F8E4M3 => Self::E4m3,
            Dtype::F8E5M2 => Self::E5m2,
            Dtype::F8E4M3Fnuz => Self::E4m3Fnuz,
            Dtype::F8E5M2Fnuz => Self::E5m2Fnuz,
            Dtype::F4 => Self::E2m1,
            // Small floats whose number is odd are presented as F32.
            Dtype::F32 => Self::F32,
            _ => return None,
        })
    }

    /// The type of scales.
    pub(crate) fn of_scales(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::F32 => Self::F32,
            Dtype::F16 => Self::F16,
            Dtype::BF16 => Self::Bf16,
            Dtype::F8E8M0 => Self::E8m0,
            _ => return None,
        })
    }

    pub(crate) const fn is_integer(self) -> bool {
        matches!(self, Self::U8 | Self::I8 | Self::U16 | Self::I16 | Self::I32 | Self::U32 | Self::I64)
    }

    /// Bytes of so many numbers.
    pub(crate) const fn bytes(self, count: u64) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::E4m3 | Self::E5m2 | Self::E4m3Fnuz | Self::E5m2Fnuz | Self::E8m0 => count,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => count * 2,
            Self::I32 | Self::U32 | Self::F32 => count * 4,
            Self::I64 => count * 8,
            Self::E2m1 => count.div_ceil(2),
        }
    }

    /// Widens little-endian numbers until `out` is full.
    pub(crate) fn widen(self, level: Level, bytes: &[u8], out: &mut [f32]) -> Result<()> {
        filled(bytes.len(), self.bytes(out.len() as u64) as usize)?;
        match self {
            Self::F32 => ScaleType::F32.widen(level, bytes, out)?,
            Self::F16 => ScaleType::F16.widen(level, bytes, out)?,
            Self::Bf16 => ScaleType::Bf16.widen(level, bytes, out)?,
            Self::E4m3 => ScaleType::E4m3.widen(level, bytes, out)?,
            Self::E8m0 => ScaleType::E8m0.widen(level, bytes, out)?,
            Self::I8 => ScaleType::I8.widen(level, bytes, out)?,
            Self::U8 => each(bytes, out, |[byte]| byte.into()),
            Self::U16 => each(bytes, out, |bytes| u16::from_le_bytes(bytes).into()),
            Self::I16 => each(bytes, out, |bytes| i16::from_le_bytes(bytes).into()),
            Self::I32 => each(bytes, out, |bytes| i32::from_le_bytes(bytes) as f32),
            Self::U32 => each(bytes, out, |bytes| u32::from_le_bytes(bytes) as f32),
            Self::I64 => each(bytes, out, |bytes| i64::from_le_bytes(bytes) as f32),
            Self::E5m2 => each(bytes, out, |[byte]| E5m2::decode(byte)),
            Self::E4m3Fnuz => each(bytes, out, |[byte]| E4m3Fnuz::decode(byte)),
            Self::E5m2Fnuz => each(bytes, out, |[byte]| E5m2Fnuz::decode(byte)),
            Self::E2m1 => {
                for (pair, byte) in out.chunks_mut(2).zip(bytes) {
                    for (value, code) in pair.iter_mut().zip([byte & 15, byte >> 4]) {
                        *value = e2m1::decode(code);
                    }
                }
            }
        }
        Ok(())
    }

    /// An integer; 0 if it is none.
    pub(crate) fn integer(self, bytes: &[u8], at: usize) -> i64 {
        match self {
            Self::U8 => nth(bytes, at, u8::from_le_bytes).into(),
            Self::I8 => nth(bytes, at, i8::from_le_bytes).into(),
            Self::U16 => nth(bytes, at, u16::from_le_bytes).into(),
            Self::I16 => nth(bytes, at, i16::from_le_bytes).into(),
            Self::I32 => nth(bytes, at, i32::from_le_bytes).into(),
            Self::U32 => nth(bytes, at, u32::from_le_bytes).into(),
            Self::I64 => nth(bytes, at, i64::from_le_bytes),
            _ => 0,
        }
    }
}

fn nth<const N: usize, T: Default>(bytes: &[u8], at: usize, value: impl Fn([u8; N]) -> T) -> T {
    bytes.as_chunks().0.get(at).map_or_else(T::default, |bytes| value(*bytes))
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *out = value(*bytes);
    }
}
