//! Every kernel at every level of this CPU against its naive twin: bits, not closeness.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod naive;

use anamnesis_kernels::*;

/// Lengths around every boundary of the walk: groups of 32, tables of 128, the switch to tables at 1024.
const LENGTHS: [usize; 18] = [0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 1000, 1023, 1024, 1025, 1187];

/// Scales of every kind, ordinary ones first.
const SCALES: [f32; 26] = [
    1.0,
    0.37,
    -2.5e-3,
    1.7e4,
    0.0,
    -0.0,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    1e-45,
    1e-40,
    -3e-39,
    1.2e-38,
    2e-36,
    3.3e38,
    1e36,
    6e-8,
    0.000_1,
    f32::from_bits(0x7FFF_FFFF),
    f32::from_bits(0xFF80_0001),
    // Halfway between two BF16, then two F16, with an even and an odd one below; and just beside the middle.
    f32::from_bits(0x3F80_8000),
    f32::from_bits(0x3F81_8000),
    f32::from_bits(0x3F80_1000),
    f32::from_bits(0x3F80_3000),
    f32::from_bits(0x3F80_8001),
    f32::from_bits(0x3F81_7FFF),
];

/// What unwritten bytes hold, so that a write past the end shows.
const PAINT: u8 = 0xA5;

/// All 256 codes in an order whose period of 251 does not divide any block.
fn painted_codes(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251 * 7 + i / 251 * 13 + i) as u8).collect()
}

/// Runs `kernel` at every level into painted bytes and compares with what the twin writes there.
fn compare<O: Output>(
    what: &str,
    elements: usize,
    twin: impl Fn(&mut [u8]),
    kernel: impl Fn(Level, &mut [u8]) -> usize,
) {
    let mut expected = vec![PAINT; (elements + 3) * O::BYTES];
    twin(&mut expected);
    let mut portable = vec![PAINT; (elements + 3) * O::BYTES];
    let count = kernel(Level::portable(), &mut portable);
    assert!(count <= elements * O::BYTES, "{what} to {}", O::NAME);
    for level in Level::available() {
        let mut found = vec![PAINT; (elements + 3) * O::BYTES];
        assert_eq!(kernel(level, &mut found), count, "{what} to {} at {level}", O::NAME);
        naive::assert_same_bits(&format!("{what} to {} at {level}", O::NAME), O::BYTES, &found, &portable);
        for (i, (found, expected)) in found.chunks(O::BYTES).zip(expected.chunks(O::BYTES)).enumerate() {
            let same = naive::same(O::NAME, found, expected);
            assert!(same, "{what} to {} at {level}, element {i}: {found:02X?} instead of {expected:02X?}", O::NAME);
        }
    }
}

fn scaled_agrees<F: Format8, O: Output>() {
    for (n, length) in LENGTHS.into_iter().enumerate() {
        let codes = painted_codes(length);
        for scale in
            SCALES.into_iter().skip(if length == 1024 { 0 } else { n % 3 }).step_by(if length == 1024 { 1 } else { 3 })
        {
            let what = format!("{} × {scale:e} ({length})", F::NAME);
            let twin = |out: &mut [u8]| naive::scaled(F::NAME, O::NAME, &codes, &[scale], usize::MAX, usize::MAX, out);
            compare::<O>(&what, length, twin, |level, out| scaled::<F, O>(level, &codes, scale, out));
        }
        let twin = |out: &mut [u8]| naive::scaled(F::NAME, O::NAME, &codes, &[1.0], usize::MAX, usize::MAX, out);
        compare::<O>(F::NAME, length, twin, |level, out| cast::<F, O>(level, &codes, out));
    }
}

fn scaled_runs_agree<F: Format8, O: Output>() {
    for run in [1, 3, 16, 31, 32, 33, 64, 128, 4096] {
        for length in LENGTHS {
            let codes = painted_codes(length);
            let scales: Vec<f32> = SCALES.into_iter().cycle().skip(length % 7).take(length.div_ceil(run)).collect();
            let what = format!("{} in runs of {run} ({length})", F::NAME);
            let twin = |out: &mut [u8]| naive::scaled(F::NAME, O::NAME, &codes, &scales, run, usize::MAX, out);
            compare::<O>(&what, length, twin, |level, out| scaled_runs::<F, O>(level, &codes, &scales, run, out));
        }
    }
}

fn block_rows_agree<F: Format8, O: Output>() {
    // Rows, columns, run; 8,300 columns are more than one panel of tables.
    let shapes: [(usize, usize, usize); 9] = [
        (1, 128, 128),
        (3, 300, 128),
        (5, 129, 128),
        (8, 256, 128),
        (9, 31, 128),
        (6, 8300, 128),
        (5, 200, 64),
        (4, 100, 7),
        (0, 9, 128),
    ];
    for (rows, cols, run) in shapes {
        for cut in [0, 17] {
            let codes = painted_codes((rows * cols).saturating_sub(cut));
            let scales: Vec<f32> = SCALES.into_iter().cycle().skip(cut).take(cols.div_ceil(run)).collect();
            let what = format!("{} in {rows} × {cols} by {run}, less {cut}", F::NAME);
            let twin = |out: &mut [u8]| naive::scaled(F::NAME, O::NAME, &codes, &scales, run, cols, out);
            compare::<O>(&what, codes.len(), twin, |level, out| {
                scaled_block_rows::<F, O>(level, &codes, &scales, run, cols, out)
            });
        }
    }
}

/// Calls a function for all formats and outputs.
macro_rules! every_format_and_output {
    ($function:ident) => {
        every_format_and_output!($function, E4m3 E5m2 E4m3Fnuz E5m2Fnuz E8m0)
    };
    ($function:ident, $($format:ident)+) => {
        $( $function::<$format, Bf16>(); $function::<$format, F16>(); $function::<$format, F32>(); )+
    };
}

#[test]
fn one_scale_agrees_with_the_twin() {
    every_format_and_output!(scaled_agrees);
}

#[test]
fn runs_of_scales_agree_with_the_twin() {
    every_format_and_output!(scaled_runs_agree);
}

#[test]
fn block_rows_agree_with_the_twin() {
    every_format_and_output!(block_rows_agree);
}

/// Values of every kind: painted bit patterns, and the neighbourhood of each power of two.
fn painted_values(length: usize) -> Vec<f32> {
    (0..length as u32)
        .map(|i| match i % 3 {
            0 => i.wrapping_mul(0x9E37_79B9),
            1 => (i.wrapping_mul(0x0080_0000) ^ ((i & 0x80) << 24)).wrapping_add(i % 5).wrapping_sub(2),
            _ => (0x3000_0000 + i.wrapping_mul(0x0001_F123) % 0x1800_0000) ^ ((i & 4) << 29),
        })
        .map(f32::from_bits)
        .collect()
}

fn round_slice_agrees<O: Output>() {
    for length in LENGTHS.into_iter().chain([9000]) {
        let values = painted_values(length);
        let twin = |out: &mut [u8]| {
            for (bytes, value) in out.chunks_mut(O::BYTES).zip(&values) {
                bytes.copy_from_slice(&naive::round(O::NAME, *value));
            }
        };
        compare::<O>("f32", length, twin, |level, out| round_slice::<O>(level, &values, out));
    }
}

#[test]
fn rounding_agrees_with_the_twin() {
    round_slice_agrees::<Bf16>();
    round_slice_agrees::<F16>();
    round_slice_agrees::<F32>();
}

fn narrow_agrees<F: Format8>() {
    for length in LENGTHS {
        let values = painted_values(length);
        let expected: Vec<u8> = values.iter().map(|value| naive::encode(F::NAME, *value)).collect();
        for level in Level::available() {
            let mut found = vec![PAINT; length + 3];
            assert_eq!(narrow::<F>(level, &values, &mut found), values.len());
            for (i, expected) in expected.iter().enumerate() {
                assert_eq!(found[i], *expected, "{} at {level}: {:e}", F::NAME, values[i]);
            }
            assert_eq!(found[length..], [PAINT; 3]);
        }
    }
}

#[test]
fn narrowing_agrees_with_the_twin() {
    narrow_agrees::<E4m3>();
    narrow_agrees::<E5m2>();
    narrow_agrees::<E4m3Fnuz>();
    narrow_agrees::<E5m2Fnuz>();
    narrow_agrees::<E8m0>();
}

fn widen_agrees(
    what: &str,
    bytes_each: usize,
    kernel: impl Fn(Level, &[u8], &mut [f32]) -> usize,
    twin: impl Fn(&[u8]) -> f32,
) {
    for length in LENGTHS.into_iter().chain([65536]) {
        let bytes: Vec<u8> = match bytes_each {
            1 => (0..length).map(|i| i as u8).collect(),
            2 => (0..length)
                .flat_map(|i| (i as u16).wrapping_mul(if length == 65536 { 1 } else { 60_013 }).to_le_bytes())
                .collect(),
            _ => painted_values(length).into_iter().flat_map(f32::to_le_bytes).collect(),
        };
        for level in Level::available() {
            let mut found = vec![9.25; length + 3];
            assert_eq!(kernel(level, &bytes, &mut found), length, "{what} at {level}");
            for (i, element) in bytes.chunks(bytes_each).enumerate() {
                let (found, expected) = (found[i], twin(element));
                let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                assert!(same, "{what} at {level}, {element:02X?}: {found:e} instead of {expected:e}");
            }
            assert_eq!(found[length..], [9.25; 3]);
        }
    }
}

#[test]
fn widening_agrees_with_the_twin() {
    widen_agrees("bf16", 2, widen_bf16, |bytes| half::bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32());
    widen_agrees("f16", 2, widen_f16, |bytes| half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32());
    widen_agrees("f32", 4, widen_f32, |bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    for top in [TopExponent::Nan, TopExponent::Infinity] {
        let kernel = |level, bytes: &[u8], out: &mut [f32]| widen_e8m0(level, bytes, out, top);
        widen_agrees("e8m0", 1, kernel, |bytes| naive::widen_e8m0(bytes[0], top));
    }
    widen_agrees("e4m3", 1, widen_format8::<E4m3>, |bytes| naive::decode("e4m3", bytes[0]));
    widen_agrees("e5m2", 1, widen_format8::<E5m2>, |bytes| naive::decode("e5m2", bytes[0]));
    widen_agrees("e4m3fnuz", 1, widen_format8::<E4m3Fnuz>, |bytes| naive::decode("e4m3fnuz", bytes[0]));
    widen_agrees("e5m2fnuz", 1, widen_format8::<E5m2Fnuz>, |bytes| naive::decode("e5m2fnuz", bytes[0]));
}

#[test]
fn columns_without_a_scale_are_not_written_and_not_counted() {
    let codes = painted_codes(5 * 700);
    for (run, count) in [(128, 3), (32, 7), (20, 9), (4096, 0), (128, 0)] {
        let scales = &SCALES[..count];
        let twin = |out: &mut [u8]| naive::scaled("e4m3", "bf16", &codes, scales, run, 700, out);
        compare::<Bf16>("rows without scales", codes.len(), twin, |level, out| {
            let written = scaled_block_rows::<E4m3, Bf16>(level, &codes, scales, run, 700, out);
            assert_eq!(written, 5 * 2 * 700.min(run * count));
            written
        });
        let row = &codes[..700];
        let twin = |out: &mut [u8]| naive::scaled("e4m3", "f32", row, scales, run, 700, out);
        compare::<F32>("a row without scales", row.len(), twin, |level, out| {
            scaled_runs::<E4m3, F32>(level, row, scales, run, out)
        });
    }
}

#[test]
fn short_outputs_are_filled_and_not_exceeded() {
    let codes = painted_codes(100);
    for level in Level::available() {
        let mut out = vec![PAINT; 2 * 45 + 1];
        assert_eq!(scaled::<E4m3, Bf16>(level, &codes, 1.0, &mut out), 90);
        assert_eq!(out[90], PAINT);
        let mut short = vec![0.0; 5];
        assert_eq!(widen_bf16(level, &codes, &mut short), 5);
        assert_eq!(narrow::<E4m3>(level, &[1.0; 100], &mut out), 91);
        assert_eq!(scaled_runs::<E4m3, F32>(level, &codes, &[1.0], 0, &mut out), 4);
        assert_eq!(scaled_block_rows::<E4m3, F32>(level, &codes, &[1.0], 0, 0, &mut out), 88);
    }
}
