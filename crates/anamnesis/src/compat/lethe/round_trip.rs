//! Checks that an encoder is the inverse of a decoder, for functions with the signatures of this crate.
//!
//! Intended for tests: panics with the first value that differs.
//!
//! ```
//! use anamnesis::lethe::round_trip::assert_bnb4_decode_encode_round_trip;
//! use anamnesis::{NF4_CODEBOOK, dequantize_bnb4_to_bf16, encode_bnb4};
//! assert_bnb4_decode_encode_round_trip(&NF4_CODEBOOK, &[1.0, 0.02], 64, dequantize_bnb4_to_bf16, encode_bnb4)?;
//! # Ok::<(), anamnesis::AnamnesisError>(())
//! ```

use crate::error::{AnamnesisError, Result};

/// The row scales that INT8 is tested with.
const ROW_SCALES: [f32; 8] = [1.0, 127.0, 0.02, 3.7e-5, 12.5, 1e-20, 6e4, 0.333];

/// Decodes every pair of codes in a block of every scale, encodes the values, decodes again and compares.
///
/// # Panics
/// If a value differs after the round trip.
///
/// # Errors
/// Errors of `decode` and `encode`; `Parse` if a block size is odd or zero.
pub fn assert_bnb4_decode_encode_round_trip<D, E>(
    codebook: &[f32; 16],
    scales: &[f32],
    block_size: usize,
    decode: D,
    encode: E,
) -> Result<()>
where
    D: Fn(&[u8], &[u8], &[u8], usize, usize) -> Result<Vec<u8>>,
    E: Fn(&[u8], &[u8], &[u8], usize, usize) -> Result<Vec<u8>>,
{
    if block_size == 0 || !block_size.is_multiple_of(2) {
        return Err(AnamnesisError::parse(format!("blocks of {block_size} values, an even number is needed")));
    }
    // Enough blocks per scale to hold all pairs of codes.
    let blocks = 512usize.div_ceil(block_size);
    let bytes = blocks * block_size / 2;
    let map = le_bytes(codebook);
    for &scale in scales {
        let codes: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
        let absmax = le_bytes(&vec![scale; blocks]);
        let values = decode(&codes, &absmax, &map, bytes * 2, block_size)?;
        let again = encode(&values, &absmax, &map, bytes * 2, block_size)?;
        let back = decode(&again, &absmax, &map, bytes * 2, block_size)?;
        assert_same(&values, &back, scale);
    }
    Ok(())
}

/// Decodes every code in a row of each of several scales, encodes the values, decodes again and compares.
///
/// # Panics
/// If a value differs after the round trip.
///
/// # Errors
/// Errors of `decode` and `encode`.
pub fn assert_bnb_int8_decode_encode_round_trip<D, E>(decode: D, encode: E) -> Result<()>
where
    D: Fn(&[u8], &[u8], usize, usize) -> Result<Vec<u8>>,
    E: Fn(&[u8], &[u8], usize, usize) -> Result<Vec<u8>>,
{
    let codes: Vec<u8> = (0..=u8::MAX).collect();
    for scale in ROW_SCALES {
        let scb = le_bytes(&[scale]);
        let values = decode(&codes, &scb, 1, codes.len())?;
        let again = encode(&values, &scb, 1, codes.len())?;
        let back = decode(&again, &scb, 1, codes.len())?;
        assert_same(&values, &back, scale);
    }
    Ok(())
}

/// Compares bits; if the scale is zero, the signs of its values are lost and not compared.
fn assert_same(before: &[u8], after: &[u8], scale: f32) {
    assert_eq!(before.len(), after.len(), "the number of bytes after a round trip at scale {scale}");
    let pairs = before.as_chunks::<2>().0.iter().zip(after.as_chunks::<2>().0);
    for (index, (before, after)) in pairs.enumerate() {
        let (before, after) = (u16::from_le_bytes(*before), u16::from_le_bytes(*after));
        let is_zero = scale == 0.0 && (before | after) & 0x7FFF == 0;
        assert!(before == after || is_zero, "value {index} at scale {scale}: BF16 {before:#06x} became {after:#06x}");
    }
}

fn le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::lethe::{FP4_CODEBOOK, NF4_CODEBOOK, encode_bnb_int8, encode_bnb4};
    use crate::compat::remember::{dequantize_bnb_int8_to_bf16, dequantize_bnb4_to_bf16};

    #[test]
    fn our_own_functions_are_inverse() {
        let mut of_the_library = FP4_CODEBOOK;
        of_the_library[8] = 0.0;
        for map in [NF4_CODEBOOK, FP4_CODEBOOK, of_the_library] {
            for block in [2, 32, 64, 128, 4096] {
                let scales = [1.0, 0.02, 0.013_671_875, 700.0, 0.333, 1e-30, 1e30, 0.0];
                assert_bnb4_decode_encode_round_trip(&map, &scales, block, dequantize_bnb4_to_bf16, encode_bnb4)
                    .unwrap();
            }
        }
        assert_bnb_int8_decode_encode_round_trip(dequantize_bnb_int8_to_bf16, encode_bnb_int8).unwrap();
    }

    #[test]
    fn a_wrong_inverse_is_noticed() {
        let shifted = |bf16: &[u8], absmax: &[u8], map: &[u8], elements, block| {
            let mut codes = encode_bnb4(bf16, absmax, map, elements, block)?;
            codes[40] ^= 1;
            Ok(codes)
        };
        let check = || {
            assert_bnb4_decode_encode_round_trip(&NF4_CODEBOOK, &[1.0], 64, dequantize_bnb4_to_bf16, shifted).unwrap();
        };
        assert!(std::panic::catch_unwind(check).is_err());
        let error =
            assert_bnb4_decode_encode_round_trip(&NF4_CODEBOOK, &[1.0], 0, dequantize_bnb4_to_bf16, encode_bnb4);
        assert!(error.is_err());
    }
}
