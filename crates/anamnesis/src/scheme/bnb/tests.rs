//! Compares the encoders with files that bitsandbytes wrote.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;

use anamnesis_kernels::Level;
use safetensors::{Dtype, SafeTensors};

use super::four_bit::{
    NESTED_BLOCK_SIZE, NestedMean, QuantType, encode_4bit_blocks, encode_nested_scales, nested_quant_map,
    quant_state_json,
};
use super::int8::encode_int8_rows;
use crate::catalog::TargetDtype;

/// The fixtures whose names begin with `start`.
fn fixtures(start: &str) -> Vec<(String, Vec<u8>)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/lethe");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name.starts_with(start) {
            found.push((name, std::fs::read(path).unwrap()));
        }
    }
    found
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The values that were quantised, and their type.
fn source(file: &SafeTensors<'_>) -> (Vec<f32>, Vec<usize>, TargetDtype) {
    let tensor = file.tensor("source").unwrap();
    let halves = tensor.data().as_chunks::<2>().0.iter().map(|half| u16::from_le_bytes(*half));
    let (values, dtype) = match tensor.dtype() {
        Dtype::F32 => (floats(tensor.data()), TargetDtype::F32),
        Dtype::BF16 => (halves.map(|bits| half::bf16::from_bits(bits).to_f32()).collect(), TargetDtype::BF16),
        Dtype::F16 => (halves.map(|bits| half::f16::from_bits(bits).to_f32()).collect(), TargetDtype::F16),
        other => panic!("{other}"),
    };
    (values, tensor.shape().to_vec(), dtype)
}

fn check_four_bit(level: Level, case: &str, bytes: &[u8], quant_type: QuantType) {
    let case = &format!("{case} at {level}");
    let file = SafeTensors::deserialize(bytes).unwrap();
    let (values, shape, dtype) = source(&file);
    let part = |name: &str| file.tensor(&format!("weight{name}")).unwrap().data().to_vec();
    let state = part(&format!(".quant_state.bitsandbytes__{}", quant_type.name()));
    let state = String::from_utf8(state).unwrap();
    let json: serde_json::Value = serde_json::from_str(&state).unwrap();
    let block_size = usize::try_from(json["blocksize"].as_u64().unwrap()).unwrap();

    let mut codes = vec![0xAA; values.len().div_ceil(2)];
    let mut absmax = vec![f32::NAN; values.len().div_ceil(block_size)];
    encode_4bit_blocks(level, &values, block_size, quant_type, &mut codes, &mut absmax).unwrap();
    assert_eq!(codes, part(""), "{case} codes");
    assert_eq!(to_bytes(quant_type.map()), part(".quant_map"), "{case} map");
    let mut offset = None;
    if case.contains("nested") {
        let mut mean = NestedMean::new(absmax.len());
        mean.push(&absmax[..absmax.len() / 3]);
        mean.push(&absmax[absmax.len() / 3..]);
        let mean = mean.mean().unwrap();
        offset = Some(mean);
        let mut scale_codes = vec![0xAA; absmax.len()];
        let mut nested = vec![f32::NAN; absmax.len().div_ceil(NESTED_BLOCK_SIZE)];
        encode_nested_scales(level, &absmax, mean, &mut scale_codes, &mut nested).unwrap();
        assert_eq!(to_bytes(&nested), part(".nested_absmax"), "{case} nested scales");
        assert_eq!(scale_codes, part(".absmax"), "{case} scale codes");
        assert_eq!(to_bytes(nested_quant_map()), part(".nested_quant_map"), "{case} nested map");
    } else {
        assert_eq!(to_bytes(&absmax), part(".absmax"), "{case} scales");
    }
    assert_eq!(quant_state_json(quant_type, block_size, dtype, &shape, offset), state, "{case}");
}

#[test]
fn four_bit_weights_are_those_of_bitsandbytes() {
    for quant_type in [QuantType::Nf4, QuantType::Fp4] {
        let cases = fixtures(quant_type.name());
        assert!(cases.len() >= 37, "{} cases", cases.len());
        for (case, bytes) in cases {
            Level::available().for_each(|level| check_four_bit(level, &case, &bytes, quant_type));
        }
    }
}

#[test]
fn eight_bit_weights_are_those_of_bitsandbytes() {
    let cases = fixtures("int8");
    assert!(cases.len() >= 10, "{} cases", cases.len());
    for (case, bytes) in cases {
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let (values, shape, _) = source(&file);
        let (expected, scales) = (file.tensor("weight").unwrap(), floats(file.tensor("SCB").unwrap().data()));
        let cols = shape[1];
        let rows = values.chunks(cols).enumerate();
        for (level, (index, row)) in Level::available().flat_map(|level| rows.clone().map(move |row| (level, row))) {
            let (mut codes, mut scale) = (vec![0xAA; cols], [f32::NAN]);
            let result = encode_int8_rows(level, row, cols, &mut codes, &mut scale);
            if scales[index].is_finite() {
                result.unwrap();
                assert_eq!(scale, [scales[index]], "{case} row {index} at {level}");
                assert_eq!(codes, expected.data()[index * cols..(index + 1) * cols], "{case} row {index} at {level}");
            } else {
                assert!(result.unwrap_err().to_string().contains("F16"), "{case} row {index} at {level}");
            }
        }
    }
}

#[test]
fn means_are_those_of_torch() {
    let bytes = &fixtures("means")[0].1;
    let file = SafeTensors::deserialize(bytes).unwrap();
    let counts = file.tensor("counts").unwrap().data().to_vec();
    let means = floats(file.tensor("means").unwrap().data());
    for (count, expected) in counts.as_chunks::<8>().0.iter().zip(means) {
        let count = usize::try_from(u64::from_le_bytes(*count)).unwrap();
        let mut mean = NestedMean::new(count);
        for index in 1..=count {
            let state = (index as u64 * 2_654_435_761) as u32;
            mean.push(&[(state >> 8) as f32 / (1 << 24) as f32]);
        }
        assert_eq!(mean.mean().unwrap().to_bits(), expected.to_bits(), "{count}");
    }
}

#[test]
fn a_value_that_is_not_finite_is_refused_by_its_index() {
    let level = Level::portable();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = [0.5; 200];
        values[130] = bad;
        let error = encode_4bit_blocks(level, &values, 64, QuantType::Nf4, &mut [0; 100], &mut [0.0; 4]).unwrap_err();
        assert!(error.to_string().contains("value 130"), "{error}");
        let error = encode_int8_rows(level, &values, 100, &mut [0; 200], &mut [0.0; 2]).unwrap_err();
        assert!(error.to_string().contains("value 130"), "{error}");
    }
    let values = [1.0, 65519.0, 1.0, 65520.0];
    let error = encode_int8_rows(level, &values, 2, &mut [0; 4], &mut [0.0; 2]).unwrap_err();
    assert!(error.to_string().contains("value 3 is 65520"), "{error}");
}

#[test]
fn scales_whose_sum_overflows_have_no_mean() {
    let mut mean = NestedMean::new(2);
    mean.push(&[3e38, 3e38]);
    assert!(mean.mean().is_err());
}
