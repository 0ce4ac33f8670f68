//! Random data through the kernels, against the naive twins.

#![allow(clippy::unwrap_used, clippy::panic)]

mod naive;

use anamnesis_kernels::*;
use proptest::prelude::*;

fn bytes_agree(output: &str, width: usize, found: &[u8], expected: &[u8]) -> Result<(), TestCaseError> {
    for (found, expected) in found.chunks(width).zip(expected.chunks(width)) {
        prop_assert!(naive::same(output, found, expected), "{found:02X?} instead of {expected:02X?}");
    }
    Ok(())
}

fn rows_agree<F: Format8, O: Output>(
    codes: &[u8],
    scales: &[f32],
    run: usize,
    cols: usize,
) -> Result<(), TestCaseError> {
    let mut expected = vec![0; codes.len() * O::BYTES];
    naive::scaled(F::NAME, O::NAME, codes, scales, run, cols, &mut expected);
    for level in Level::available() {
        let mut found = vec![0; codes.len() * O::BYTES];
        prop_assert!(scaled_block_rows::<F, O>(level, codes, scales, run, cols, &mut found) <= found.len());
        bytes_agree(O::NAME, O::BYTES, &found, &expected)?;
    }
    Ok(())
}

/// Any bit pattern, with ordinary scales more often than chance would have them.
fn scale() -> impl Strategy<Value = f32> {
    prop_oneof![any::<u32>().prop_map(f32::from_bits), 1e-6f32..1.0, (-149i32..128).prop_map(|e| 2f64.powi(e) as f32)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn scaled_rows_agree_with_the_twin(
        codes in prop::collection::vec(any::<u8>(), 0..3000),
        scales in prop::collection::vec(scale(), 0..12),
        run in prop_oneof![Just(32usize), Just(64), Just(128), 1usize..300],
        cols in 1usize..700,
    ) {
        rows_agree::<E4m3, Bf16>(&codes, &scales, run, cols)?;
        rows_agree::<E4m3, F16>(&codes, &scales, run, cols)?;
        rows_agree::<E4m3, F32>(&codes, &scales, run, cols)?;
        rows_agree::<E5m2, Bf16>(&codes, &scales, run, cols)?;
        rows_agree::<E5m2, F16>(&codes, &scales, run, cols)?;
        rows_agree::<E4m3Fnuz, Bf16>(&codes, &scales, run, cols)?;
        rows_agree::<E5m2Fnuz, F32>(&codes, &scales, run, cols)?;
        rows_agree::<E8m0, F16>(&codes, &scales, run, cols)?;
    }

    #[test]
    fn rounding_agrees_with_half(values in prop::collection::vec(any::<u32>().prop_map(f32::from_bits), 0..500)) {
        for level in Level::available() {
            let mut found = vec![0; 2 * values.len()];
            prop_assert_eq!(round_slice::<Bf16>(level, &values, &mut found), found.len());
            let expected: Vec<u8> = values.iter().flat_map(|value| naive::round("bf16", *value)).collect();
            bytes_agree("bf16", 2, &found, &expected)?;
            prop_assert_eq!(round_slice::<F16>(level, &values, &mut found), found.len());
            let expected: Vec<u8> = values.iter().flat_map(|value| naive::round("f16", *value)).collect();
            bytes_agree("f16", 2, &found, &expected)?;
        }
    }

    #[test]
    fn every_code_survives_decoding_and_encoding(codes in prop::collection::vec(any::<u8>(), 0..300)) {
        fn survives<F: Format8>(level: Level, codes: &[u8]) -> Result<(), TestCaseError> {
            let mut values = vec![0.0; codes.len()];
            let mut again = vec![0; codes.len()];
            prop_assert_eq!(widen_format8::<F>(level, codes, &mut values), codes.len());
            prop_assert_eq!(narrow::<F>(level, &values, &mut again), codes.len());
            for (code, again) in codes.iter().zip(again) {
                prop_assert!(*code == again || F::decode(*code).is_nan() && F::decode(again).is_nan());
            }
            Ok(())
        }
        for level in Level::available() {
            survives::<E4m3>(level, &codes)?;
            survives::<E5m2>(level, &codes)?;
            survives::<E4m3Fnuz>(level, &codes)?;
            survives::<E5m2Fnuz>(level, &codes)?;
            survives::<E8m0>(level, &codes)?;
        }
    }
}
