//! NVFP4: 64 E2M1 codes in four sub-blocks of 16, each with an eight-bit scale; a value is
//! `scale × map[code]`, with the map of [`Mxfp4`](super::Mxfp4).
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | scales, E4M3 without a sign: bit 7 is ignored, and 0x7F (not 0xFF) is zero |
//! | 4 | 32 | codes, 8 bytes per sub-block: the low nibbles are elements 0–7, the high nibbles 8–15 |
//!
//! The map holds twice the E2M1 values and the scales are halved. Every value is exact. The global scale of a tensor is
//! stored in another tensor: see [`decode_blocks_times`](super::decode_blocks_times).
//!
//! Follows `dequantize_row_nvfp4` of ggml.

use super::GgmlBlock;
use super::fields::{bytes, in_halves, pair};
use super::map::{TwiceSplitNibbles, look_up, padded};
use super::memory::in_memory;
use super::mxfp4::MAP;
use crate::base::GROUP;
use crate::base::output::Output;
use crate::base::simd::{SMALL_TABLE, Simd};
use crate::decode::mirror::Mirror;

/// The type NVFP4.
#[derive(Clone, Copy, Debug)]
pub struct Nvfp4;

/// Half of the value of a scale (`ggml_ue4m3_to_fp32`).
const fn half_of_scale(byte: u8) -> f32 {
    let magnitude = byte as u32 & 0x7F;
    // The biases of E4M3 and F32 differ by 120; 119 halves the value.
    let normal = f32::from_bits((magnitude << 20) + (119 << 23));
    let subnormal = (magnitude as f32) * (1.0 / 1024.0);
    let number = if magnitude < 8 { subnormal } else { normal };
    if byte == 0x7F { 0.0 } else { number }
}

/// Half of the value of every scale code.
static HALVES: [f32; 256] = {
    let mut halves = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        halves[byte] = half_of_scale(byte as u8);
        byte += 1;
    }
    halves
};

/// The map, which is symmetric.
static MIRROR: Mirror = match Mirror::of(&MAP) {
    Some(mirror) => mirror,
    None => panic!("the E2M1 map is symmetric"),
};

impl GgmlBlock for Nvfp4 {
    const NAME: &'static str = "NVFP4";
    const BLOCK_ELEMENTS: usize = 64;
    const BLOCK_BYTES: usize = 36;
    type Scales = [f32; 4];

    #[inline(always)]
    fn scales<S: Simd>(_simd: S, block: &[u8]) -> [f32; 4] {
        bytes(block, 0).map(|byte: u8| HALVES[usize::from(byte)])
    }

    #[inline(always)]
    fn values<S: Simd>(simd: S, block: &[u8], scales: &[f32; 4], group: usize) -> [f32; GROUP] {
        let floats = look_up::<S, TwiceSplitNibbles>(simd, &MAP, bytes(block, 4 + 16 * group));
        in_halves(floats, pair(scales, group))
    }

    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scales: &[f32; 4], group: usize) -> [O::Word; GROUP] {
        if !O::TABLES {
            return O::round_products(simd, &Self::values(simd, block, scales, group));
        }
        let products = in_memory(&MIRROR).products(pair(scales, group));
        mirrored::<S, O>(simd, block, &products, group)
    }

    #[inline(always)]
    fn words_times<S: Simd, O: Output>(
        simd: S,
        block: &[u8],
        scales: &[f32; 4],
        group: usize,
        factor: f32,
    ) -> [O::Word; GROUP] {
        if !O::TABLES || !factor.is_finite() {
            let values = Self::values(simd, block, scales, group);
            return O::round_products(simd, &map!(value in values => value * factor));
        }
        let products = in_memory(&MIRROR).products(pair(scales, group)).map(|product| product * factor);
        mirrored::<S, O>(simd, block, &products, group)
    }
}

/// The words of a group with finite products.
#[inline(always)]
fn mirrored<S: Simd, O: Output>(
    simd: S,
    block: &[u8],
    products: &[f32; SMALL_TABLE],
    group: usize,
) -> [O::Word; GROUP] {
    let tables = in_memory(&MIRROR).tables::<S, O>(simd, products);
    O::look_up_by_half::<S, TwiceSplitNibbles>(simd, &tables, &padded(bytes(block, 4 + 16 * group)))
}
