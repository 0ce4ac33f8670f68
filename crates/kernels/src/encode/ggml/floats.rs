//! The encoders of the four-bit floats MXFP4 (`quantize_row_mxfp4_ref` of ggml) and NVFP4 (`quantize_row_nvfp4_ref`).

use super::EncodeBlocks;
use super::lanes::amax_without_nan;
use crate::base::simd::Simd;
use crate::decode::ggml::{Mxfp4, Nvfp4};

/// Twice the values of E2M1 (`kvalues_mxfp4`).
const KVALUES_MXFP4: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, -0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// The nearest code of each value under a scale, the first of several (`best_index_mxfp4`).
#[inline(always)]
fn best_indices<const N: usize>(values: &[f32; N], scale: f32) -> [u8; N] {
    let mut entries = KVALUES_MXFP4;
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

/// `floor(log2f(size))`: just below a power of two the logarithm rounds up to it.
#[inline(always)]
fn floor_log2(size: f32) -> i32 {
    let (exponent, fraction) = (size.to_bits() >> 23, size.to_bits() & 0x007F_FFFF);
    // Logarithms of `f32` are below 128, where the spacing of `f32` is below 2^-16: only mantissas this close to 2
    // round up.
    if (1..255).contains(&exponent) && fraction < 0x007F_FF00 {
        return exponent as i32 - 127;
    }
    // One rounding from the logarithm in `f64`, which is accurate enough that no `f32` lies in between. Infinity gets
    // exponent zero.
    let logarithm = (f64::from(size).log2() as f32).floor();
    if logarithm < 1024.0 { logarithm as i32 } else { -125 }
}

impl EncodeBlocks for Mxfp4 {
    #[inline(always)]
    fn encode_row<S: Simd>(simd: S, values: &[f32], _importance: Option<&[f32]>, out: &mut [u8]) {
        for (values, out) in values.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<17>().0) {
            let size = amax_without_nan(simd, values);
            let exponent = if size > 0.0 { floor_log2(size).wrapping_add(125) as u8 } else { 0 };
            let codes = best_indices(values, half_e8m0(exponent));
            out[0] = exponent;
            for place in 0..16 {
                out[1 + place] = codes[place] | codes[place + 16] << 4;
            }
        }
    }
}

/// Half of an E8M0 value (`GGML_E8M0_TO_FP32_HALF`).
#[inline(always)]
fn half_e8m0(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 => 0x0020_0000,
        1 => 0x0040_0000,
        exponent => (u32::from(exponent) - 1) << 23,
    })
}

/// The nearest E4M3 without a sign, ties up, clamped to 0 and 448 (`ggml_fp32_to_ue4m3`).
#[inline(always)]
fn nearest_e4m3(size: f32) -> u8 {
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

/// Half of an E4M3 value without a sign (`ggml_ue4m3_to_fp32`).
#[inline(always)]
fn half_e4m3(code: u8) -> f32 {
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
                let scale = nearest_e4m3(amax_without_nan(simd, values) / 6.0);
                let codes = best_indices(values, half_e4m3(scale));
                out[run] = scale;
                for place in 0..8 {
                    out[4 + 8 * run + place] = codes[place] | codes[place + 8] << 4;
                }
            }
        }
    }
}
