//! The element count of a call and the default zero point.

use crate::base::output::Output;
use crate::base::packing::Packing;

/// The number of elements that all slices hold.
#[inline(always)]
pub(crate) fn count<P: Packing, O: Output>(
    packed: &[u8],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &[u8],
) -> usize {
    let blocks = if zeros.is_empty() { scales.len() } else { scales.len().min(zeros.len()) };
    P::codes_in(packed.len()).min(out.len() / O::BYTES).min(blocks.saturating_mul(block))
}

/// The zero point of a block, +0 by default: subtracting +0 changes no bit, not even of −0.
#[inline(always)]
pub(crate) fn zero_of(zeros: &[f32], block: usize) -> f32 {
    zeros.get(block).copied().unwrap_or(0.0)
}
