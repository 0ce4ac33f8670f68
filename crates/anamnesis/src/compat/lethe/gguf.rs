//! Encoding values as ggml blocks, byte for byte as ggml does.

use anamnesis_kernels::Level;

use crate::catalog::{BlockType, TargetDtype};
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{filled, vanished};
use crate::scheme::ggml::{GgmlDecoder, encode_rows, is_encoded};
use crate::scheme::{Context, TileDecoder};

/// Number of blocks decoded at a time.
const CHECKED_BLOCKS: usize = 64;

/// Encodes values. With an importance vector, the values are rows of its length; without one they are a single row.
///
/// ```
/// use anamnesis::{BlockType, lethe::gguf};
/// let values: Vec<f32> = (0..64).map(|index| index as f32).collect();
/// assert_eq!(gguf::encode(BlockType::Q8_0, &values, None)?.len(), 2 * 34);
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
///
/// # Errors
/// `Parse` if the values are not whole rows, the rows are not whole blocks, or the type requires an importance vector;
/// `Unsupported` for a type that is not used for weights.
pub fn encode(block: BlockType, values: &[f32], importance: Option<&[f32]>) -> Result<Vec<u8>> {
    let blocks = values.len() as u64 / block.block_elements();
    let mut out = vec![0; (blocks * block.block_bytes()) as usize];
    encode_into(block, values, importance, &mut out)?;
    Ok(out)
}

/// [`encode`] into a slice of exactly the length of the blocks.
///
/// # Errors
/// As [`encode`], and `Parse` if `out` has another length.
pub fn encode_into(block: BlockType, values: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Result<()> {
    let row = importance.map_or(values.len(), <[f32]>::len);
    let elements = block.block_elements() as usize;
    if !is_encoded(block) {
        return Err(AnamnesisError::unsupported(block.name(), "weights are not stored in blocks of this type"));
    }
    if !row.is_multiple_of(elements) || row == 0 && !values.is_empty() || row > 0 && !values.len().is_multiple_of(row) {
        let count = values.len();
        return Err(AnamnesisError::parse(format!(
            "{count} values in rows of {row} are no whole blocks of {block}, which has {elements}"
        )));
    }
    let expected = values.len() / elements * block.block_bytes() as usize;
    if out.len() != expected {
        let found = out.len();
        return Err(AnamnesisError::parse(format!("the output has {found} bytes, {expected} are needed")));
    }
    let needs = matches!(block, BlockType::IQ1_S | BlockType::IQ1_M | BlockType::IQ2_XXS | BlockType::IQ2_XS);
    if needs && importance.is_none() {
        return Err(AnamnesisError::parse(format!("{block} needs an importance of values")));
    }
    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
        return Err(AnamnesisError::NotFinite { tensor: String::new(), index: index as u64, value: values[index] });
    }
    filled(encode_rows(Level::detect(), block, values, row, importance, out), out.len())?;
    check_finite(block, values, out)
}

/// Refuses blocks that decode to non-finite values or lose their largest value.
fn check_finite(block: BlockType, values: &[f32], out: &[u8]) -> Result<()> {
    let (elements, bytes) = (block.block_elements() as usize, block.block_bytes() as usize);
    let (mut decoded, mut context) = (vec![0; elements * CHECKED_BLOCKS * 4], Context::default());
    let pieces = values.chunks(elements * CHECKED_BLOCKS).zip(out.chunks(bytes * CHECKED_BLOCKS));
    for (piece, (values, out)) in pieces.enumerate() {
        let decoded = &mut decoded[..values.len() * 4];
        let range = 0..values.len() as u64;
        let written = GgmlDecoder::new(block).decode(range, &[out], TargetDtype::F32, decoded, &mut context)?;
        filled(written, decoded.len())?;
        let numbers: Vec<_> = decoded.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let infinite = numbers.iter().position(|number| !number.is_finite());
        let lost = infinite.or_else(|| vanished(values, block.block_elements(), |place| numbers[place]));
        if let Some(place) = lost {
            let index = (piece * elements * CHECKED_BLOCKS + place) as u64;
            let (value, decoded, encoding) = (values[place], numbers[place], block.name().to_owned());
            return Err(AnamnesisError::Overflow { tensor: String::new(), index, value, decoded, encoding });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::remember::{F32Out, dequantize_gguf};

    #[test]
    fn encoded_values_decode_near_the_input_and_encode_again_to_the_same_blocks() {
        let values: Vec<f32> = (0..512).map(|index| ((index * 37 % 101) as f32 - 50.0) / 64.0).collect();
        let weights: Vec<f32> = (0..256).map(|index| 0.5 + (index % 7) as f32).collect();
        for block in BlockType::all().filter(|block| is_encoded(*block)) {
            let bytes = encode(block, &values, Some(&weights)).unwrap();
            let kind = crate::container::gguf::GgufType::from_dtype(crate::catalog::Dtype::Block(block)).unwrap();
            let decoded = dequantize_gguf::<F32Out>(&bytes, kind, values.len()).unwrap();
            let decoded: Vec<f32> = decoded.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let energy = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>();
            let error = energy(&mut values.iter().zip(&decoded).map(|(a, b)| a - b));
            assert!(error < 0.5 * energy(&mut values.iter().copied()), "{block}: {error}");
        }
    }

    #[test]
    fn values_that_cannot_be_encoded_are_refused_by_name() {
        let values = [0.5; 64];
        for (block, values, importance, words) in [
            (BlockType::Q4_0, &values[..33], None, "rows of 33"),
            (BlockType::Q4_K, &values[..], None, "no whole blocks of Q4_K"),
            (BlockType::Q4_0, &values[..], Some(&values[..48]), "rows of 48"),
            (BlockType::Q8_1, &values[..], None, "not stored"),
            (BlockType::Q8_0, &[f32::NAN; 32][..], None, "NaN"),
            (BlockType::Q4_0, &[1e6; 32][..], None, "value 0 is 1e6, which Q4_0 would hold as"),
            (BlockType::Q6_K, &[1e9; 256][..], None, "value 0 is 1e9, which Q6_K would hold as"),
            (BlockType::Q4_0, &[1.0; 64][..], Some(&[3e38; 64][..]), "which Q4_0 would hold as"),
            (BlockType::IQ2_XS, &[1.0; 256][..], None, "needs an importance"),
        ] {
            let error = encode(block, values, importance).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(encode_into(BlockType::Q8_0, &values, None, &mut [0; 67]).unwrap_err().to_string().contains("68"));
    }
}
