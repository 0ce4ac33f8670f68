//! Encodings: any values are quantised and decoded again, or refused; finite values stay finite and within their range.

use anamnesis::{AnamnesisError, BlockType, ConvertTarget, encode};

use crate::input::Input;

/// Values may grow by this factor: scales are rounded, and searched for the whole block.
const GROWTH: f32 = 2.0;
/// And by this much: half the smallest step of scales in half precision, times the largest code.
const STEP: f32 = 1e-5;

/// An input selects the encoding and the shape; its rest is the values, as BF16, repeated.
pub fn round_trip(bytes: &[u8]) {
    let mut input = Input(bytes);
    let targets = ConvertTarget::all().filter(|target| target.is_quantized()).map(|target| target.name());
    let names: Vec<&str> = targets.chain(BlockType::all().map(|block| block.name())).collect();
    let name = names[usize::from(u16::from_le_bytes(input.take())) % names.len()];
    let (rows, cols) = (1 + input.below(4), [32, 64, 128, 256, 16, 48, 512, 1][input.below(8)]);
    let taken = input.0.as_chunks::<2>().0;
    let value = |index: usize| {
        let bits = taken.get(index % taken.len().max(1)).map_or(0, |bytes| u16::from_le_bytes(*bytes));
        f32::from_bits(u32::from(bits) << 16)
    };
    let values: Vec<f32> = (0..rows * cols).map(value).collect();
    let encoded = match encode(name, &values, &[rows, cols]) {
        Ok(encoded) => encoded,
        Err(error) => return assert!(!matches!(error, AnamnesisError::Internal { .. }), "{name}: {error}"),
    };
    let decoded: Vec<f32> = match encoded.decode("layer.weight") {
        Ok(decoded) => decoded,
        Err(error) => panic!("{name}: an encoded tensor is not decoded: {error}"),
    };
    assert_eq!(decoded.len(), values.len(), "{name}");
    let largest = values.iter().fold(0f32, |largest, value| largest.max(value.abs()));
    for (decoded, value) in decoded.iter().zip(&values) {
        assert!(decoded.is_finite(), "{name}: {value} became {decoded}");
        assert!(decoded.abs() <= GROWTH * largest + STEP, "{name}: {value} of at most {largest} became {decoded}");
    }
}
