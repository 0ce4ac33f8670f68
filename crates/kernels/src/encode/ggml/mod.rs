//! The encoders of the ggml block types: the bytes of `ggml_quantize_chunk`.
//!
//! Every value goes through the operations of the C code in the same order, with one rounding each, so that scales,
//! ties and zero blocks are identical. Scale searches process sixteen sub-blocks at a time, one per lane.
//!
//! | file | types | follows in ggml |
//! |---|---|---|
//! | `legacy` | Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q1_0, Q2_0 | `quantize_row_*_ref`; with importance `quantize_row_*_impl` |
//! | `k_with_min` | Q2_K, Q4_K, Q5_K | `quantize_row_q*_K_ref`, `quantize_row_q*_K_impl` |
//! | `k_signed` | Q3_K, Q6_K | `quantize_row_q*_K_ref`, `quantize_row_q*_K_impl` |
//! | `ternary` | TQ1_0, TQ2_0 | `quantize_row_tq*_0_ref` |
//! | `iq4` | IQ4_NL, IQ4_XS | `quantize_row_iq4_nl_impl` |
//! | `floats` | MXFP4, NVFP4 | `quantize_row_mxfp4_ref`, `quantize_row_nvfp4_ref` |
//! | `iq2_iq3` | IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S | `quantize_row_iq2_*_impl`, `quantize_row_iq3_*_impl` |
//! | `iq1` | IQ1_S, IQ1_M | `quantize_row_iq1_s_impl`, `quantize_row_iq1_m_impl` |
//!
//! `search` has `make_qx_quants`, `make_qkx2_quants`, `make_qkx3_quants` and `make_qp_quants`, `q3_quants`
//! `make_q3_quants`, `partition` the search of IQ1, `grid`, `neighbours` and `grid_fit` the grid points of the
//! IQ types, `lanes` the shared arithmetic.

#![allow(clippy::needless_range_loop, reason = "lanes of several arrays go through the same operations")]

/// `super_blocks!(Type, bytes, encode)`: a type whose super-blocks are encoded one by one, each with its own weights.
macro_rules! super_blocks {
    ($type:ident, $bytes:literal, $encode:ident) => {
        impl EncodeBlocks for $type {
            #[inline(always)]
            fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
                debug_assert_eq!(values.len() / QK_K * $bytes, out.len(), "a row of whole blocks");
                let blocks = values.as_chunks::<QK_K>().0.iter().zip(out.as_chunks_mut::<$bytes>().0);
                for (index, (values, out)) in blocks.enumerate() {
                    $encode(simd, values, part(importance, index * QK_K, QK_K), out);
                }
            }
        }
    };
}

mod floats;
mod grid;
mod grid_fit;
mod iq1;
mod iq2_iq3;
mod iq4;
mod k_signed;
mod k_with_min;
mod lanes;
mod legacy;
mod levels;
mod neighbours;
mod partition;
mod q3_quants;
mod search;
mod ternary;

use crate::base::simd::Simd;
use crate::decode::ggml::GgmlBlock;

/// A block type that values can be encoded to.
pub trait EncodeBlocks: GgmlBlock {
    /// Encodes one row of whole blocks. `importance` has a weight for every column.
    fn encode_row<S: Simd>(simd: S, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]);
}

kernel! {
    /// Encodes rows of `row` values into `out`, optionally with an importance weight for each column.
    ///
    /// Only whole rows of whole blocks are encoded, as many as `values` and `out` hold; nothing if there are fewer
    /// weights than columns.
    ///
    /// ```
    /// use anamnesis_kernels::ggml::Q8_0;
    /// use anamnesis_kernels::{Level, encode_rows};
    ///
    /// let mut values = [0.0; 32];
    /// (values[0], values[31]) = (63.5, -31.75);
    /// let mut block = [0; 34];
    /// encode_rows::<Q8_0>(Level::detect(), &values, 32, None, &mut block);
    /// assert_eq!((&block[..3], block[33]), (&[0x00, 0x38, 127][..], 0xC0)); // a scale of 0.5; 127 first, -64 last
    /// ```
    pub fn encode_rows<B: EncodeBlocks>(values: &[f32], row: usize, importance: Option<&[f32]>, out: &mut [u8]) = rows
}

#[inline(always)]
fn rows<S: Simd, B: EncodeBlocks>(
    simd: S,
    values: &[f32],
    row: usize,
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> usize {
    let blocks = row / B::BLOCK_ELEMENTS;
    if row == 0 || !row.is_multiple_of(B::BLOCK_ELEMENTS) || importance.is_some_and(|weights| weights.len() < row) {
        return 0;
    }
    let importance = importance.map(|weights| &weights[..row]);
    let bytes = blocks * B::BLOCK_BYTES;
    debug_assert_eq!(bytes / B::BLOCK_BYTES * B::BLOCK_ELEMENTS, row, "a row of whole blocks");
    let written = (values.len() / row).min(out.len() / bytes) * bytes;
    for (values, out) in values.chunks_exact(row).zip(out.chunks_exact_mut(bytes)) {
        B::encode_row(simd, values, importance, out);
    }
    written
}

/// The importance weights of one block.
#[inline(always)]
fn part(importance: Option<&[f32]>, start: usize, count: usize) -> Option<&[f32]> {
    importance.and_then(|weights| weights.get(start..start + count))
}
