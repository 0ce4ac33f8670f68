//! AWQ weights as slices. Results are `[in, out]`, as the matrix is stored.

use super::slices::{decode_packed, float_scale};
use super::{Bf16Out, OutputElement};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::packed::{Grouping, PackedBytes, PackedMatrix, Words, ZeroPoints};

/// Decodes a weight in the GEMM layout: `(code - zero) * scale`.
///
/// `qweight` is I32 `[in, out/8]`, `qzeros` I32 `[groups, out/8]`, `scales` `[groups, out]`.
///
/// # Errors
/// `Unsupported` if `bits` is not 4 or the scale type is not read, `Parse` if lengths and shape disagree.
#[allow(clippy::too_many_arguments, reason = "the signature of earlier versions")]
pub fn dequantize_awq<E: OutputElement>(
    qweight: &[u8],
    scales: &[u8],
    qzeros: &[u8],
    in_features: usize,
    out_features: usize,
    group_size: usize,
    bits: u8,
    scale_dtype: Dtype,
) -> Result<Vec<u8>> {
    if bits != 4 {
        return Err(AnamnesisError::unsupported("AWQ", format!("{bits} bits; AWQ is decoded with 4")));
    }
    let scale = float_scale("AWQ", scale_dtype)?;
    let fits = in_features > 0 && out_features > 0 && out_features.is_multiple_of(8);
    if !fits || group_size == 0 || !in_features.is_multiple_of(group_size) {
        return Err(AnamnesisError::parse(format!(
            "{in_features} inputs in groups of {group_size} and {out_features} outputs do not pack into words of 8"
        )));
    }
    let matrix = PackedMatrix {
        words: Words::Awq,
        inputs: in_features as u64,
        outputs: out_features as u64,
        groups: (in_features / group_size) as u64,
        grouping: Grouping::Runs(group_size as u64),
        zeros: ZeroPoints::Stored,
        scale,
    };
    let stored = PackedBytes { codes: qweight, zeros: qzeros, scales, group_index: None };
    decode_packed::<E>(&matrix, stored)
}

/// [`dequantize_awq`] to BF16.
///
/// # Errors
/// As [`dequantize_awq`].
#[allow(clippy::too_many_arguments, reason = "the signature of earlier versions")]
pub fn dequantize_awq_to_bf16(
    qweight: &[u8],
    scales: &[u8],
    qzeros: &[u8],
    in_features: usize,
    out_features: usize,
    group_size: usize,
    bits: u8,
    scale_dtype: Dtype,
) -> Result<Vec<u8>> {
    dequantize_awq::<Bf16Out>(qweight, scales, qzeros, in_features, out_features, group_size, bits, scale_dtype)
}
