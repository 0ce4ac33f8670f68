//! Decoders of ggml's block types as stored in GGUF files, one file each.
//!
//! A tensor is a run of blocks; a block holds its own scales and a fixed number of elements, always whole groups of
//! [`GROUP`]. Each value is computed in `f32` in the order of ggml's `dequantize_row_*`, which each file names, with one
//! rounding per operation, then rounded to the output.
//!
//! | family | types | a value is |
//! |---|---|---|
//! | one scale | [`Q1_0`], [`Q2_0`], [`Q4_0`], [`Q5_0`], [`Q8_0`], [`Q8_1`], [`Q8K`], [`Tq1_0`], [`Tq2_0`] | scale × integer |
//! | scale and minimum | [`Q4_1`], [`Q5_1`] | scale × integer + minimum |
//! | super-blocks | [`Q3K`], [`Q6K`] | (scale × sub-scale) × integer |
//! | super-blocks with minima | [`Q2K`], [`Q4K`], [`Q5K`] | (scale × sub-scale) × integer − (minimum × sub-minimum) |
//! | maps | [`Iq4Nl`], [`Iq4Xs`], [`Mxfp4`], [`Nvfp4`] | scale × one of 16 integers |
//! | grids | [`Iq2Xxs`], [`Iq2Xs`], [`Iq2S`], [`Iq3Xxs`], [`Iq3S`], [`Iq1S`], [`Iq1M`] | scale × point of a grid, and a sign or an offset |
//!
//! All fields are little-endian. Arrays without blocks (F32, F16, BF16, I8…) and the row-interleaved types of other
//! forks are not supported here.

mod fields;
mod grid;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod k_scales;
mod map;
mod memory;
mod mxfp4;
mod nvfp4;
mod q1_0;
mod q2_0;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod q8_1;
mod q8_k;
pub(crate) mod tables;
mod ternary;
mod tq1_0;
mod tq2_0;

pub use iq1_m::Iq1M;
pub use iq1_s::Iq1S;
pub use iq2_s::Iq2S;
pub use iq2_xs::Iq2Xs;
pub use iq2_xxs::Iq2Xxs;
pub use iq3_s::Iq3S;
pub use iq3_xxs::Iq3Xxs;
pub use iq4_nl::Iq4Nl;
pub use iq4_xs::Iq4Xs;
pub use mxfp4::Mxfp4;
pub use nvfp4::Nvfp4;
pub use q1_0::Q1_0;
pub use q2_0::Q2_0;
pub use q2_k::Q2K;
pub use q3_k::Q3K;
pub use q4_0::Q4_0;
pub use q4_1::Q4_1;
pub use q4_k::Q4K;
pub use q5_0::Q5_0;
pub use q5_1::Q5_1;
pub use q5_k::Q5K;
pub use q6_k::Q6K;
pub use q8_0::Q8_0;
pub use q8_1::Q8_1;
pub use q8_k::Q8K;
pub use tq1_0::Tq1_0;
pub use tq2_0::Tq2_0;

use crate::base::GROUP;
use crate::base::float::canonical_nan;
use crate::base::output::Output;
use crate::base::simd::Simd;

/// A type of block.
pub trait GgmlBlock: Copy + Send + Sync + 'static {
    /// The type's name in ggml.
    const NAME: &'static str;
    /// Elements of a block, a multiple of [`GROUP`].
    const BLOCK_ELEMENTS: usize;
    /// Bytes of a block.
    const BLOCK_BYTES: usize;
    /// The scales of a block, unpacked: all of its groups share them.
    type Scales: Copy;

    /// The scales of a block. NaN scales are canonical, so that rounding a NaN product gives NaN.
    fn scales<S: Simd>(simd: S, block: &[u8]) -> Self::Scales;

    /// The values of one group of a block.
    fn values<S: Simd>(simd: S, block: &[u8], scales: &Self::Scales, group: usize) -> [f32; GROUP];

    /// The values of one group of a block, rounded to the output.
    #[inline(always)]
    fn words<S: Simd, O: Output>(simd: S, block: &[u8], scales: &Self::Scales, group: usize) -> [O::Word; GROUP] {
        O::round_products(simd, &Self::values(simd, block, scales, group))
    }

    /// The values of one group of a block, each times a factor, rounded to the output. A NaN factor is canonical.
    #[inline(always)]
    fn words_times<S: Simd, O: Output>(
        simd: S,
        block: &[u8],
        scales: &Self::Scales,
        group: usize,
        factor: f32,
    ) -> [O::Word; GROUP] {
        O::round_products(simd, &map!(value in Self::values(simd, block, scales, group) => value * factor))
    }
}

kernel! {
    /// Decodes `blocks` and rounds into `out`: as many whole blocks as both hold.
    ///
    /// ```
    /// use anamnesis_kernels::ggml::{Q8_0, decode_blocks};
    /// use anamnesis_kernels::{Bf16, Level};
    ///
    /// let mut block = [0x00; 34];
    /// (block[1], block[2], block[33]) = (0x38, 0x02, 0xFE); // a scale of 0.5; 2 first, -2 last
    /// let mut out = [0; 64];
    /// decode_blocks::<Q8_0, Bf16>(Level::detect(), &block, &mut out);
    /// assert_eq!((&out[..2], &out[62..]), (&[0x80, 0x3F][..], &[0x80, 0xBF][..])); // 1.0 and -1.0
    /// ```
    pub fn decode_blocks<B: GgmlBlock>(blocks: &[u8]) -> O in out = plain
}

kernel! {
    /// Decodes `blocks`, multiplies each value by `factor` and rounds into `out`: as many whole blocks as both hold.
    ///
    /// `factor` is the global scale of a tensor, as of [`Nvfp4`]. A value is rounded to `f32` before it is multiplied.
    pub fn decode_blocks_times<B: GgmlBlock>(blocks: &[u8], factor: f32) -> O in out = times
}

/// `blocks!(B, O, block, scales, group in blocks => words, out)`: writes the words of each group of each block.
///
/// A block has up to eight groups. They are unrolled, so that shifts and offsets are constants.
macro_rules! blocks {
    ($simd:expr, $type:ident, $output:ident, $block:ident, $scales:ident, $group:ident in $blocks:expr => $words:expr, $out:expr) => {{
        let bytes = $type::BLOCK_ELEMENTS * $output::BYTES;
        let written = ($blocks.len() / $type::BLOCK_BYTES).min($out.len() / bytes) * bytes;
        for ($block, out) in $blocks.chunks_exact($type::BLOCK_BYTES).zip($out.chunks_exact_mut(bytes)) {
            let $scales = &$type::scales($simd, $block);
            let mut groups = out.chunks_exact_mut(GROUP * $output::BYTES);
            blocks!(@each 0 1 2 3 4 5 6 7, $output, groups, $group => $words);
        }
        written
    }};
    (@each $($index:literal)+, $output:ident, $groups:ident, $group:ident => $words:expr) => {
        $(
            if let Some(out) = $groups.next() {
                let $group = $index;
                $output::write(&$words, out);
            }
        )+
    };
}

#[inline(always)]
fn plain<S: Simd, B: GgmlBlock, O: Output>(simd: S, blocks: &[u8], out: &mut [u8]) -> usize {
    blocks!(simd, B, O, block, scales, group in blocks => B::words::<S, O>(simd, block, scales, group), out)
}

#[inline(always)]
fn times<S: Simd, B: GgmlBlock, O: Output>(simd: S, blocks: &[u8], factor: f32, out: &mut [u8]) -> usize {
    let factor = canonical_nan(factor);
    blocks!(simd, B, O, block, scales, group in blocks => {
        B::words_times::<S, O>(simd, block, scales, group, factor)
    }, out)
}
