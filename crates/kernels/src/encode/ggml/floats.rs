//! Four-bit floats: MXFP4 (`quantize_row_mxfp4_ref` of ggml) and NVFP4 (`quantize_row_nvfp4_ref`).

use super::EncodeBlocks;
use super::lanes::number_size;
use crate::base::simd::Simd;
use crate::decode::ggml::{Mxfp4, Nvfp4};

/// Twice the sixteen floats.
const MAP: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, -0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// The code that is nearest to each value under a scale, the first of several.
#[inline(always)]
fn nearest_codes<const N: usize>(values: &[f32; N], scale: f32) -> [u8; N] {
    let mut entries = MAP;
    for entry in &mut entries {
        *entry *= scale;
    }
    let (mut codes, mut errors) = ([0i32; N], [0.0; N]);
    for i in 0..N {
        errors[i] = (entries[0] - values[i]).abs();
    }
    for (code, entry) in (0..).zip(entries).skip(1) {
        for i in 0..N {
            let error = (entry - values[i]).abs();
            codes[i] = if error < errors[i] { code } else { codes[i] };
            errors[i] = if error < errors[i] { error } else { errors[i] };
        }
    }
    let mut bytes = [0; N];
    for i in 0..N {
        bytes[i] = codes[i] as u8;
    }
    bytes
}

/// The whole part of a number's logarithm to base two, which is taken in `f32`: just below a power of two it rounds up to it.
#[inline(always)]
fn whole_logarithm(size: f32) -> i32 {
    let (exponent, fraction) = (size.to_bits() >> 23, size.to_bits() & 0x007F_FFFF);
    // Logarithms are below 128 in their size, where numbers are less than 2^-16 apart: only fractions this near to one are
    // rounded up to it.
    if (1..255).contains(&exponent) && fraction < 0x007F_FF00 {
        return exponent as i32 - 127;
    }
    // Rounded once from f64, whose logarithm is near enough that no f32 lies between. Infinity becomes exponent zero.
    let logarithm = (f64::from(size).log2() as f32).floor();
    if logarithm < 1024.0 { logarithm as i32 } else { -125 }
}

impl EncodeBlocks for Mxfp4 {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<17>().0) {
            let size = number_size(simd, values);
            let exponent = if size > 0.0 { whole_logarithm(size).wrapping_add(125) as u8 } else { 0 };
            let codes = nearest_codes(values, half_of_power(exponent));
            out[0] = exponent;
            for place in 0..16 {
                out[1 + place] = codes[place] | codes[place + 16] << 4;
            }
        }
    }
}

/// Half of the power of two that an exponent stands for.
#[inline(always)]
fn half_of_power(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 => 0x0020_0000,
        1 => 0x0040_0000,
        exponent => (u32::from(exponent) - 1) << 23,
    })
}

/// The nearest E4M3 of a size, halves up; below and above it stays within what there is.
#[inline(always)]
fn e4m3(size: f32) -> u8 {
    if size.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
        return 0;
    }
    let bits = size.min(448.0).to_bits();
    let exponent = (bits >> 23) as i32 - 127 + 7;
    if exponent <= 0 {
        return (size * 512.0 + 0.5).min(7.0) as u8;
    }
    // A mantissa that rounds up to eight carries into the exponent.
    let code = ((exponent as u32) << 3 | (bits >> 20 & 7)) + (bits >> 19 & 1);
    if code >= 15 << 3 { 0x7E } else { code as u8 }
}

/// Half of what an E4M3 without a sign stands for.
#[inline(always)]
fn half_of_e4m3(code: u8) -> f32 {
    let (exponent, mantissa) = (code >> 3 & 15, f32::from(code & 7));
    match (code, exponent) {
        (0 | 0x7F, _) => 0.0,
        (_, 0) => mantissa / 1024.0,
        (_, exponent) => f32::from_bits((u32::from(exponent) + 119) << 23) * (1.0 + mantissa / 8.0),
    }
}

impl EncodeBlocks for Nvfp4 {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<64>().0.iter().zip(out.as_chunks_mut::<36>().0) {
            for (run, values) in values.as_chunks::<16>().0.iter().enumerate() {
                let scale = e4m3(number_size(simd, values) / 6.0);
                let codes = nearest_codes(values, half_of_e4m3(scale));
                out[run] = scale;
                for place in 0..8 {
                    out[4 + 8 * run + place] = codes[place] | codes[place + 8] << 4;
                }
            }
        }
    }
}
