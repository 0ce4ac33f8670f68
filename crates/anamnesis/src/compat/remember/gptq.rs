//! GPTQ weights as slices. Results are `[in, out]`, as the matrix is stored.

use super::slices::{decode_packed, float_scale};
use super::{Bf16Out, OutputElement};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::packed::{Grouping, PackedBytes, PackedMatrix, Words, ZeroPoints};

/// Decodes a weight in the original GPTQ format: `(code - (zero + 1)) * scale`.
///
/// `qweight` is I32 `[in·bits/32, out]`, `qzeros` I32 `[groups, out·bits/32]`, `scales` `[groups, out]`; the group of
/// an input is `g_idx[input]` (I32) if given, else `input / group_size`. A stored zero point of all ones is not wrapped
/// to 0 by the increment.
///
/// # Errors
/// `Unsupported` if `bits` is neither 4 nor 8 or the scale type is not supported, `Parse` if lengths and shape disagree
/// or a group index is out of range.
#[allow(clippy::too_many_arguments, reason = "the signature of earlier versions")]
pub fn dequantize_gptq<E: OutputElement>(
    qweight: &[u8],
    scales: &[u8],
    qzeros: &[u8],
    g_idx: Option<&[u8]>,
    in_features: usize,
    out_features: usize,
    group_size: usize,
    bits: u8,
    scale_dtype: Dtype,
) -> Result<Vec<u8>> {
    if !matches!(bits, 4 | 8) {
        return Err(AnamnesisError::unsupported("GPTQ", format!("{bits} bits; slices are decoded with 4 or 8")));
    }
    let scale = float_scale("GPTQ", scale_dtype)?;
    let per_word = 32 / usize::from(bits);
    let whole = |features: usize| features > 0 && features.is_multiple_of(per_word);
    if !whole(in_features) || !whole(out_features) || group_size == 0 || !in_features.is_multiple_of(group_size) {
        return Err(AnamnesisError::parse(format!(
            "{in_features} inputs in groups of {group_size} and {out_features} outputs do not pack into words of {per_word}"
        )));
    }
    let matrix = PackedMatrix {
        words: Words::Gptq(bits),
        inputs: in_features as u64,
        outputs: out_features as u64,
        groups: (in_features / group_size) as u64,
        grouping: Grouping::Runs(group_size as u64),
        zeros: ZeroPoints::PlusOneUnbounded,
        scale,
    };
    let stored = PackedBytes { codes: qweight, zeros: qzeros, scales, group_index: g_idx };
    decode_packed::<E>(&matrix, stored)
}

/// [`dequantize_gptq`] to BF16.
///
/// # Errors
/// As [`dequantize_gptq`].
#[allow(clippy::too_many_arguments, reason = "the signature of earlier versions")]
pub fn dequantize_gptq_to_bf16(
    qweight: &[u8],
    scales: &[u8],
    qzeros: &[u8],
    g_idx: Option<&[u8]>,
    in_features: usize,
    out_features: usize,
    group_size: usize,
    bits: u8,
    scale_dtype: Dtype,
) -> Result<Vec<u8>> {
    dequantize_gptq::<Bf16Out>(qweight, scales, qzeros, g_idx, in_features, out_features, group_size, bits, scale_dtype)
}
