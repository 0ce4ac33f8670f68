//! The types of codes, scales and zero points, as values.

use anamnesis_kernels::float::e4m3::E4m3;
use anamnesis_kernels::float::e4m3fnuz::E4m3Fnuz;
use anamnesis_kernels::float::e5m2::E5m2;
use anamnesis_kernels::float::e5m2fnuz::E5m2Fnuz;
use anamnesis_kernels::float::{Format8, bf16, e2m1, f16};

use crate::catalog::Dtype;
use crate::error::Result;
use crate::scheme::coder::filled;

/// The type of a stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Number {
    U8,
    I8,
    U16,
    I16,
    I32,
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
    /// The type of codes.
    pub(super) fn of_codes(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::U8 => Self::U8,
            Dtype::I8 => Self::I8,
            Dtype::U16 => Self::U16,
            Dtype::I16 => Self::I16,
            Dtype::I32 => Self::I32,
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
    pub(super) fn of_scales(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::F32 => Self::F32,
            Dtype::F16 => Self::F16,
            Dtype::BF16 => Self::Bf16,
            Dtype::F8E8M0 => Self::E8m0,
            _ => return None,
        })
    }

    pub(super) const fn is_integer(self) -> bool {
        matches!(self, Self::U8 | Self::I8 | Self::U16 | Self::I16 | Self::I32)
    }

    /// Bytes of so many numbers.
    pub(super) const fn bytes(self, count: u64) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::E4m3 | Self::E5m2 | Self::E4m3Fnuz | Self::E5m2Fnuz | Self::E8m0 => count,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => count * 2,
            Self::I32 | Self::F32 => count * 4,
            Self::E2m1 => count.div_ceil(2),
        }
    }

    /// Widens little-endian numbers until `out` is full.
    pub(super) fn widen(self, bytes: &[u8], out: &mut [f32]) -> Result<()> {
        filled(bytes.len() as u64 as usize, self.bytes(out.len() as u64) as usize)?;
        match self {
            Self::U8 => each(bytes, out, |[byte]| byte.into()),
            Self::I8 => each(bytes, out, |[byte]| byte.cast_signed().into()),
            Self::U16 => each(bytes, out, |bytes| u16::from_le_bytes(bytes).into()),
            Self::I16 => each(bytes, out, |bytes| i16::from_le_bytes(bytes).into()),
            Self::I32 => each(bytes, out, |bytes| i32::from_le_bytes(bytes) as f32),
            Self::F32 => each(bytes, out, f32::from_le_bytes),
            Self::F16 => each(bytes, out, |bytes| f16::decode(u16::from_le_bytes(bytes))),
            Self::Bf16 => each(bytes, out, |bytes| bf16::decode(u16::from_le_bytes(bytes))),
            Self::E4m3 => each(bytes, out, |[byte]| E4m3::decode(byte)),
            Self::E5m2 => each(bytes, out, |[byte]| E5m2::decode(byte)),
            Self::E4m3Fnuz => each(bytes, out, |[byte]| E4m3Fnuz::decode(byte)),
            Self::E5m2Fnuz => each(bytes, out, |[byte]| E5m2Fnuz::decode(byte)),
            Self::E8m0 => each(bytes, out, |[byte]| power_of_two(byte)),
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
}

/// E8M0: a biased exponent, of which 255 is NaN.
fn power_of_two(byte: u8) -> f32 {
    match byte {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        exponent => f32::from_bits(u32::from(exponent) << 23),
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *out = value(*bytes);
    }
}
