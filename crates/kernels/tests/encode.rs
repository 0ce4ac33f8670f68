//! The encoding kernels at every level of this CPU against their naive twins.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod naive;

use anamnesis_kernels::*;
use naive::encode as twin;

const NF4: [f32; 16] = [
    -1.0,
    -0.6961928,
    -0.52507305,
    -0.3949175,
    -0.28444138,
    -0.18477343,
    -0.091050036,
    0.0,
    0.0795803,
    0.1609302,
    0.2461123,
    0.33791524,
    0.44070983,
    0.562617,
    0.72295684,
    1.0,
];

/// FP4 with a code 8 of either sign.
fn fp4(code_8: f32) -> [f32; 16] {
    let half = [0.0, 0.0052083335, 0.6666667, 1.0, 0.33333334, 0.5, 0.16666667, 0.25];
    let mut map = [0.0; 16];
    map[..8].copy_from_slice(&half);
    map[8..].copy_from_slice(&half.map(|entry| -entry));
    map[8] = code_8;
    map
}

/// Maps of every kind: those of the formats first, then what nobody should write.
fn maps() -> Vec<[f32; 16]> {
    let mut not_numbers = NF4;
    (not_numbers[3], not_numbers[9]) = (f32::NAN, f32::INFINITY);
    vec![
        NF4,
        fp4(0.0),
        fp4(-0.0),
        std::array::from_fn(|code| (code * 7 % 16) as f32 / 2.0 - 3.5),
        std::array::from_fn(|code| (code / 4) as f32),
        std::array::from_fn(|code| 1.0 + code as f32 * f32::EPSILON),
        std::array::from_fn(|code| code as f32 * 1e30),
        [0.25; 16],
        [-0.0; 16],
        not_numbers,
    ]
}

/// Scales of every kind, ordinary ones first.
const SCALES: [f32; 14] = [
    1.0,
    0.013_671_875,
    3.1e-3,
    700.0,
    0.0,
    -0.0,
    -1.5,
    1e-40,
    1e-38,
    3e38,
    f32::INFINITY,
    f32::NAN,
    1e-45,
    0.020_000_001,
];

/// Every BF16.
fn every_value() -> Vec<f32> {
    (0..=0xFFFF).map(|upper: u32| f32::from_bits(upper << 16)).collect()
}

fn bf16_bytes(values: &[f32]) -> Vec<[u8; 2]> {
    values.iter().map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
}

/// Numbers of ordinary size with all of their bits in use.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn quotient(value: f32, scale: f32, scaling: Scaling) -> f32 {
    match scaling {
        Scaling::Divide if scale == 0.0 => 0.0,
        Scaling::Divide => value / scale,
        Scaling::Multiply if scale < 1e-38 => value * (1.0 / 1e-38),
        Scaling::Multiply => value * (1.0 / scale),
    }
}

#[test]
fn every_value_takes_its_code_from_every_map() {
    for (index, map) in maps().into_iter().enumerate() {
        let book = Codebook::nearest(map);
        // All values for the maps of the formats, some of every kind for the others.
        let values: Vec<f32> = every_value().into_iter().step_by(if index < 3 { 1 } else { 16 }).collect();
        let bytes = bf16_bytes(&values);
        for (turn, scaling) in [(0, Scaling::Divide), (1, Scaling::Multiply)] {
            let scales: Vec<f32> =
                (0..values.len() / 64).map(|block| SCALES[(block + block / 1024 + turn) % 14]).collect();
            let codes: Vec<u8> = values
                .iter()
                .enumerate()
                .map(|(i, &value)| twin::nearest(quotient(value, scales[i / 64], scaling), &map))
                .collect();
            let expected = twin::packed(&codes, 0);
            for level in Level::available() {
                let mut found = vec![0xA5; expected.len()];
                assert_eq!(
                    nearest_codes::<Bf16>(level, &bytes, &book, &scales, 64, scaling, &mut found),
                    expected.len()
                );
                let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
                assert_eq!(wrong, None, "byte of BF16 at {level}, {scaling:?}, {map:?}");
                assert_eq!(
                    nearest_codes::<F32>(level, &values, &book, &scales, 64, scaling, &mut found),
                    expected.len()
                );
                assert!(found == expected, "F32 at {level}, {scaling:?}, {map:?}");
            }
        }
    }
}

#[test]
fn numbers_at_the_limits_take_the_code_of_the_twin() {
    for map in &maps()[..5] {
        let book = Codebook::nearest(*map);
        let mut sorted = *map;
        sorted.sort_by(f32::total_cmp);
        let mut numbers = Vec::new();
        for pair in sorted.windows(2) {
            let middle = (pair[0] + pair[1]) / 2.0;
            numbers.extend((-40..=40).map(|ulps: i32| f32::from_bits(middle.to_bits().wrapping_add_signed(ulps))));
        }
        numbers.extend(sorted);
        numbers.extend([16.0, -16.0, 16.000_002, -16.000_002, f32::MIN_POSITIVE, -1e-45, 1e-45, 0.0, -0.0]);
        let codes: Vec<u8> = numbers.iter().map(|&number| twin::nearest(number, map)).collect();
        let expected = twin::packed(&codes, twin::nearest(0.0, map));
        for level in Level::available() {
            let mut found = vec![0xA5; expected.len()];
            assert_eq!(
                nearest_codes::<F32>(level, &numbers, &book, &[1.0], numbers.len() + 1, Scaling::Divide, &mut found),
                expected.len()
            );
            assert_eq!(found, expected, "{level} {map:?}");
        }
    }
}

#[test]
fn limits_count_as_in_the_twin() {
    let mut order: [u8; 16] = std::array::from_fn(|code| code as u8);
    let map = fp4(0.0);
    order.sort_by(|&a, &b| map[usize::from(a)].total_cmp(&map[usize::from(b)]));
    let sorted = order.map(|code| map[usize::from(code)]);
    let limits: [f32; 15] = std::array::from_fn(|i| (sorted[i] + sorted[i + 1]) / 2.0);
    let book = Codebook::with(limits, order);
    let mut values = every_value();
    values.extend(
        limits.iter().flat_map(|limit| [-1, 0, 1].map(|ulp| f32::from_bits(limit.to_bits().wrapping_add_signed(ulp)))),
    );
    values.extend(noise(4097, 3));
    for scale in SCALES {
        for scaling in [Scaling::Divide, Scaling::Multiply] {
            let codes: Vec<u8> =
                values.iter().map(|&value| twin::counted(quotient(value, scale, scaling), &limits, &order)).collect();
            let expected = twin::packed(&codes, 0);
            for level in Level::available() {
                let mut found = vec![0xA5; expected.len()];
                assert_eq!(
                    nearest_codes::<F32>(level, &values, &book, &[scale], 1 << 20, scaling, &mut found),
                    expected.len()
                );
                let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
                assert_eq!(wrong, None, "byte at {level}, {scaling:?} {scale}");
            }
        }
    }
}

#[test]
fn blocks_of_every_length_agree_with_the_twin() {
    let book = Codebook::nearest(NF4);
    for block in [2, 16, 30, 32, 34, 64, 100, 4096] {
        for length in [0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 200, 333] {
            let values = noise(length, block as u32);
            let scales: Vec<f32> = values.chunks(block).map(|block| twin::largest(block, true)).collect();
            let codes: Vec<u8> =
                values.iter().enumerate().map(|(i, value)| twin::nearest(value / scales[i / block], &NF4)).collect();
            let mut expected = twin::packed(&codes, 7);
            expected.extend([0xA5; 3]);
            for level in Level::available() {
                let mut found = vec![0xA5; expected.len()];
                assert_eq!(
                    nearest_codes::<F32>(level, &values, &book, &scales, block, Scaling::Divide, &mut found),
                    length.div_ceil(2)
                );
                assert_eq!(found, expected, "{length} values in blocks of {block} at {level}");
                let mut largest = vec![-1.0; scales.len() + 1];
                assert_eq!(block_largest::<F32>(level, &values, block, &mut largest), scales.len());
                assert_eq!(largest.pop(), Some(-1.0));
                assert_eq!(largest, scales, "largest of {length} values in blocks of {block} at {level}");
            }
        }
    }
}

#[test]
fn short_arguments_are_survived_and_counted() {
    let book = Codebook::nearest(NF4);
    let values = noise(100, 1);
    for level in Level::available() {
        for (scales, bytes) in [(0, 50), (1, 50), (2, 7), (9, 0), (2, 31)] {
            for scale in [0.0, 1.0] {
                let scales = vec![scale; scales];
                naive::assert_counted(bytes, |out| {
                    nearest_codes::<F32>(level, &values, &book, &scales, 64, Scaling::Divide, out)
                });
                naive::assert_counted(bytes, |out| row_codes::<F32>(level, &values, &scales, 64, Steps::Divide, out));
            }
        }
        let mut found = [0xA5; 50];
        assert_eq!(nearest_codes::<F32>(level, &values, &book, &[1.0; 100], 0, Scaling::Divide, &mut found), 50);
        assert_eq!(row_codes::<F32>(level, &values, &[1.0; 100], 0, Steps::Divide, &mut found), 50);
        assert_eq!(block_largest::<F32>(level, &values, 0, &mut [0.0; 7]), 7);
    }
}

#[test]
fn every_value_is_counted_in_steps() {
    let mut values = every_value();
    values.extend((-600..600).map(|half| half as f32 / 4.0));
    values.extend(noise(4096, 5).iter().map(|value| value * 130.0));
    values.extend([0.499_999_97, -0.499_999_97, 0.500_000_06, 126.499_99, 126.5, 127.5, -127.5, -128.5, -127.499_99]);
    for scale in SCALES.into_iter().chain([127.0, 254.0, 31.75]) {
        for steps in [Steps::Divide, Steps::Multiply] {
            let expected: Vec<u8> = match steps {
                Steps::Divide => values.iter().map(|&value| twin::steps_away(value, scale)).collect(),
                Steps::Multiply => values.iter().map(|&value| twin::steps_to_even(value, scale)).collect(),
            };
            for level in Level::available() {
                let mut found = vec![0xA5; expected.len()];
                assert_eq!(row_codes::<F32>(level, &values, &[scale], 1 << 20, steps, &mut found), expected.len());
                let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
                let what = wrong.map(|at| (values[at], found[at].cast_signed(), expected[at].cast_signed()));
                assert_eq!(what, None, "{level} {steps:?} {scale}");
            }
        }
    }
}

#[test]
fn halves_and_bf16_are_read_as_they_are() {
    let bytes: Vec<[u8; 2]> = (0..=0xFFFFu16).map(u16::to_le_bytes).collect();
    let halves: Vec<f32> = (0..=0xFFFF).map(|bits| half::f16::from_bits(bits).to_f32()).collect();
    for level in Level::available() {
        for (values, name) in [(every_value(), "bf16"), (halves.clone(), "f16")] {
            let mut largest = vec![0.0; values.len() / 16];
            for with_nan in [true, false] {
                let written = match (name, with_nan) {
                    ("bf16", true) => block_largest::<Bf16>(level, &bytes, 16, &mut largest),
                    ("bf16", false) => block_largest_number::<Bf16>(level, &bytes, 16, &mut largest),
                    (_, true) => block_largest::<F16>(level, &bytes, 16, &mut largest),
                    (_, false) => block_largest_number::<F16>(level, &bytes, 16, &mut largest),
                };
                assert_eq!(written, largest.len());
                for (block, found) in values.chunks(16).zip(&largest) {
                    let expected = twin::largest(block, with_nan);
                    assert!(
                        found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                        "{level} {name}"
                    );
                }
            }
        }
    }
}
