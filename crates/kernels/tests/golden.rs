//! The vectors in `data/`, which torch and `ml_dtypes` wrote through `data/generate.py`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use anamnesis_kernels::float::{bf16, e2m1, f16};
use anamnesis_kernels::*;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn words(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect()
}

fn numbers() -> Vec<f32> {
    floats(include_bytes!("data/encode_input.f32"))
}

fn codes_decode_to<F: Format8>(expected: &[u8]) {
    let codes: Vec<u8> = (0..=255).collect();
    let expected = floats(expected);
    assert_eq!(expected.len(), 256);
    for level in Level::available() {
        let mut found = [0.0; 256];
        assert_eq!(widen_format8::<F>(level, &codes, &mut found), 256);
        for ((code, found), expected) in codes.iter().zip(found).zip(&expected) {
            for found in [found, F::decode(*code)] {
                let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                assert!(same, "{} {code:#04X} at {level}: {found:e} instead of {expected:e}", F::NAME);
            }
        }
    }
}

fn numbers_encode_to<F: Format8>(expected: &[u8]) {
    let numbers = numbers();
    assert_eq!(numbers.len(), expected.len());
    for level in Level::available() {
        let mut found = vec![0; numbers.len()];
        assert_eq!(narrow::<F>(level, &numbers, &mut found), numbers.len());
        for ((number, found), expected) in numbers.iter().zip(found).zip(expected) {
            assert_eq!(found, *expected, "{} of {number:e} at {level}", F::NAME);
            assert_eq!(F::encode(*number), *expected, "{} of {number:e}", F::NAME);
        }
    }
}

#[test]
fn e4m3_is_what_torch_says() {
    codes_decode_to::<E4m3>(include_bytes!("data/decode_e4m3.f32"));
    numbers_encode_to::<E4m3>(include_bytes!("data/encode_e4m3.u8"));
}

#[test]
fn e5m2_is_what_torch_says() {
    codes_decode_to::<E5m2>(include_bytes!("data/decode_e5m2.f32"));
    numbers_encode_to::<E5m2>(include_bytes!("data/encode_e5m2.u8"));
}

#[test]
fn e4m3fnuz_is_what_torch_says() {
    codes_decode_to::<E4m3Fnuz>(include_bytes!("data/decode_e4m3fnuz.f32"));
    numbers_encode_to::<E4m3Fnuz>(include_bytes!("data/encode_e4m3fnuz.u8"));
}

#[test]
fn e5m2fnuz_is_what_torch_says() {
    codes_decode_to::<E5m2Fnuz>(include_bytes!("data/decode_e5m2fnuz.f32"));
    numbers_encode_to::<E5m2Fnuz>(include_bytes!("data/encode_e5m2fnuz.u8"));
}

#[test]
fn e8m0_is_what_torch_says() {
    codes_decode_to::<E8m0>(include_bytes!("data/decode_e8m0.f32"));
    numbers_encode_to::<E8m0>(include_bytes!("data/encode_e8m0.u8"));
}

#[test]
fn e2m1_is_what_ml_dtypes_says() {
    for (number, expected) in numbers().iter().zip(include_bytes!("data/encode_e2m1.u8")) {
        assert_eq!(e2m1::encode(*number), *expected, "{number:e}");
    }
    let magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    for (code, magnitude) in (0u8..).zip(magnitudes) {
        assert_eq!(e2m1::decode(code).to_bits(), f32::to_bits(magnitude));
        assert_eq!(e2m1::decode(code | 8).to_bits(), f32::to_bits(-magnitude));
    }
}

#[test]
fn bf16_and_f16_round_as_torch_does() {
    let expected =
        words(include_bytes!("data/encode_bf16.u16")).into_iter().zip(words(include_bytes!("data/encode_f16.u16")));
    for (number, (as_bf16, as_f16)) in numbers().into_iter().zip(expected) {
        if number.is_nan() {
            assert!(bf16::decode(bf16::encode(number)).is_nan() && bf16::decode(as_bf16).is_nan());
            assert!(f16::decode(f16::encode(number)).is_nan() && f16::decode(as_f16).is_nan());
        } else {
            assert_eq!(bf16::encode(number), as_bf16, "bf16 of {number:e}");
            assert_eq!(f16::encode(number), as_f16, "f16 of {number:e}");
        }
    }
}
