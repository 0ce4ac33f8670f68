//! Codes under scales and offsets, packing and extremes: every level against what each operation says by itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use anamnesis_kernels::float::{E4m3, E5m2, Format8, e2m1};
use anamnesis_kernels::{Factor, Goal, Level, Ratio, Step, block_range, group_codes, pack_bits, spread_bits};

/// Reproducible noise (SplitMix64).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn rounded(step: Step, value: f32) -> f32 {
    match step {
        Step::F32 => value,
        Step::Bf16 => half::bf16::from_f32(value).to_f32(),
        Step::F16 => half::f16::from_f32(value).to_f32(),
    }
}

/// One code, in the plainest words.
fn code(goal: Goal, value: f32, scale: f32, offset: f32) -> u8 {
    let number = match goal {
        Goal::E4m3(Factor::Times) | Goal::E5m2(Factor::Times) => value * scale,
        Goal::E4m3(Factor::TimesRounded(step)) | Goal::E5m2(Factor::TimesRounded(step)) => rounded(step, value * scale),
        Goal::E4m3(Factor::Divided(step)) | Goal::E5m2(Factor::Divided(step)) => rounded(step, value / scale),
        Goal::E2m1 | Goal::E2m1KeepsZero | Goal::E2m1TiesToZero | Goal::E2m1SignedZero => value / scale,
        Goal::Integer { ratio, .. } => match ratio {
            Ratio::Quotient(step) => rounded(step, value / scale),
            Ratio::QuotientAway => (value / scale).round(),
            Ratio::QuotientPlus(step) => rounded(step, rounded(step, value / scale) + offset),
            Ratio::Difference => (value - offset) / scale,
            Ratio::ProductPlus => value * scale + offset,
            Ratio::RoundedPlusF32 => (value / scale).round_ties_even() + offset,
            Ratio::RoundedPlusF16 => {
                let whole = rounded(Step::F16, value / scale).round_ties_even();
                rounded(Step::F16, whole + offset)
            }
        },
    };
    match goal {
        Goal::E4m3(_) => E4m3::encode(number),
        Goal::E2m1 if number == 0.0 => 0,
        Goal::E2m1 | Goal::E2m1KeepsZero => e2m1::encode(number),
        Goal::E2m1TiesToZero => {
            let nearest = |code: &u8| (number.abs() - e2m1::decode(*code)).abs();
            let code = (0..8u8).min_by(|a, b| nearest(a).total_cmp(&nearest(b))).unwrap();
            if number < 0.0 && code > 0 { code | 8 } else { code }
        }
        Goal::E2m1SignedZero => {
            let nearest = |code: &u8| (number.abs() - e2m1::decode(*code)).abs();
            let code = (0..8u8).min_by(|a, b| nearest(a).total_cmp(&nearest(b))).unwrap();
            if number > 0.0 { code } else { code | 8 }
        }
        Goal::E5m2(_) => E5m2::encode(number.clamp(-57344.0, 57344.0)),
        Goal::Integer { low, high, plus, .. } => {
            (number.clamp(low.into(), high.into()).round_ties_even() as i32 + i32::from(plus)) as u8
        }
    }
}

const STEPS: [Step; 3] = [Step::F32, Step::Bf16, Step::F16];

/// Every goal there is, whole numbers with three kinds of limits.
fn goals() -> Vec<Goal> {
    let mut goals = vec![Goal::E2m1, Goal::E2m1KeepsZero, Goal::E2m1TiesToZero, Goal::E2m1SignedZero];
    let rounded = STEPS.into_iter().flat_map(|step| [Factor::Divided(step), Factor::TimesRounded(step)]);
    for factor in rounded.chain([Factor::Times]) {
        goals.extend([Goal::E4m3(factor), Goal::E5m2(factor)]);
    }
    let mut ratios =
        vec![Ratio::QuotientAway, Ratio::Difference, Ratio::ProductPlus, Ratio::RoundedPlusF16, Ratio::RoundedPlusF32];
    for step in STEPS {
        ratios.extend([Ratio::Quotient(step), Ratio::QuotientPlus(step)]);
    }
    for ratio in ratios {
        for (low, high, plus) in [(-128, 127, 0), (-8, 7, 8), (0, 255, 0)] {
            goals.push(Goal::Integer { ratio, low, high, plus });
        }
    }
    goals
}

#[test]
fn codes_are_those_of_the_plain_formula_at_every_level() {
    let mut random = Random::new(15);
    for (count, group) in [(0, 1), (1, 1), (31, 16), (96, 16), (100, 32), (257, 64), (300, 7), (131, 131), (64, 1000)] {
        let groups = usize::div_ceil(count, group).max(1);
        let mut number = || (random.next() as i32 as f32) / (1u32 << 28) as f32;
        // Halves among them, which are what roundings differ in.
        let values: Vec<f32> =
            (0..count).map(|index| if index % 3 == 0 { (number() * 4.0).round() / 4.0 } else { number() }).collect();
        let scales: Vec<f32> =
            (0..groups).map(|index| if index % 2 == 0 { 0.5 } else { number().abs() + 0.01 }).collect();
        let offsets: Vec<f32> = (0..groups).map(|_| number().round()).collect();
        for level in Level::available() {
            for goal in goals() {
                let mut codes = vec![0xAA; count];
                assert_eq!(group_codes(level, goal, &values, group, &scales, &offsets, &mut codes), count);
                for (index, (&value, &found)) in values.iter().zip(&codes).enumerate() {
                    let (scale, offset) = (scales[index / group], offsets[index / group]);
                    let want = code(goal, value, scale, offset);
                    assert_eq!(found, want, "{goal:?} of {value} / {scale} + {offset} at {level}, {group}");
                }
            }
        }
    }
}

#[test]
fn values_past_the_last_scale_are_left_alone() {
    for group in [16, 32, 40] {
        let mut codes = [0xAA; 100];
        let goal = Goal::Integer { ratio: Ratio::Quotient(Step::F32), low: -8, high: 7, plus: 0 };
        assert_eq!(group_codes(Level::detect(), goal, &[1.0; 100], group, &[1.0], &[], &mut codes), group);
        assert_eq!((codes[0], codes[group - 1], codes[group]), (1, 1, 0xAA), "{group}");
    }
}

#[test]
fn packed_codes_are_spread_again() {
    let mut random = Random::new(16);
    for bits in 1..=8u8 {
        for count in [0, 1, 7, 8, 9, 64, 131] {
            let codes: Vec<u8> = (0..count).map(|_| random.next() as u8 & (0xFF >> (8 - bits))).collect();
            for level in Level::available() {
                let mut packed = vec![0; (count * usize::from(bits)).div_ceil(8)];
                assert_eq!(pack_bits(level, &codes, bits, &mut packed), packed.len());
                // Spreading reads whole groups of bytes.
                packed.resize(packed.len() + 64, 0);
                let mut spread = vec![0xAA; count];
                assert_eq!(spread_bits(level, &packed, bits, &mut spread), count);
                assert_eq!(spread, codes, "{bits} bits, {count} codes at {level}");
            }
        }
    }
}

#[test]
fn extremes_are_found_in_blocks_of_any_size() {
    let mut random = Random::new(17);
    let values: Vec<f32> = (0..300).map(|_| random.next() as i32 as f32).collect();
    for block in [1, 5, 16, 32, 64, 100, 300, 1000] {
        for level in Level::available() {
            let count = values.len().div_ceil(block);
            let (mut lows, mut highs) = (vec![0.0; count], vec![0.0; count]);
            assert_eq!(block_range(level, &values, block, &mut lows, &mut highs), count);
            for (index, block) in values.chunks(block).enumerate() {
                let fold = |pick: fn(f32, f32) -> f32| block.iter().copied().reduce(pick).unwrap();
                assert_eq!((lows[index], highs[index]), (fold(f32::min), fold(f32::max)), "at {level}");
            }
        }
    }
}
