//! NaN of every sign and payload in codes, maps, scales, zero points and factors: every level gives the bits of the twin.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod naive;

use anamnesis_kernels::*;
use naive::packed::{code, less, put};
use naive::{arithmetic, canonical, round, scaled_value};

/// A generator of numbers, most of which are NaN.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    fn number(&mut self) -> f32 {
        let bits = self.bits();
        match bits % 8 {
            0 => 0.37,
            1 => 0.0,
            2 => f32::from_bits(bits & 0x8000_0000 | 0x7F80_0000),
            // Quiet, signalling and all ones.
            3 => f32::from_bits(bits | 0x7FFF_FFFF),
            _ => f32::from_bits(bits | 0x7F80_0000 | 1),
        }
    }

    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.bits() as u8).collect()
    }
}

/// Runs `kernel` at every level and compares with what the twin writes.
fn compare<O: Output>(
    what: &str,
    elements: usize,
    twin: impl Fn(&mut [u8]),
    kernel: impl Fn(Level, &mut [u8]) -> usize,
) {
    let mut expected = vec![0; elements * O::BYTES];
    twin(&mut expected);
    for level in Level::available() {
        let mut found = vec![0xA5; elements * O::BYTES];
        assert_eq!(kernel(level, &mut found), elements * O::BYTES, "{what} to {} at {level}", O::NAME);
        for (i, (found, expected)) in found.chunks(O::BYTES).zip(expected.chunks(O::BYTES)).enumerate() {
            assert_eq!(found, expected, "{what} to {} at {level}, element {i}", O::NAME);
        }
    }
}

fn floats_agree<F: Format8, O: Output>() {
    let mut random = Random(7);
    for run in [1, 16, 20, 32, 128, 4096] {
        for _ in 0..20 {
            let codes = random.bytes(700);
            let scales = random.numbers(700usize.div_ceil(run));
            let twin = |out: &mut [u8]| naive::scaled(F::NAME, O::NAME, &codes, &scales, run, usize::MAX, out);
            compare::<O>(&format!("{} in runs of {run}", F::NAME), 700, twin, |level, out| {
                scaled_runs::<F, O>(level, &codes, &scales, run, out)
            });
            let twin = |out: &mut [u8]| {
                for (i, code) in codes.iter().enumerate() {
                    let bytes = round(O::NAME, scaled_value(naive::decode(F::NAME, *code), scales[0]));
                    out[i * O::BYTES..][..O::BYTES].copy_from_slice(&bytes);
                }
            };
            compare::<O>(F::NAME, 700, twin, |level, out| scaled::<F, O>(level, &codes, scales[0], out));
            let twin = |out: &mut [u8]| naive::scaled(F::NAME, O::NAME, &codes, &scales, run, 140, out);
            compare::<O>(&format!("rows of {} in runs of {run}", F::NAME), 700, twin, |level, out| {
                scaled_block_rows::<F, O>(level, &codes, &scales, run, 140, out)
            });
        }
    }
}

fn codes_agree<P: Packing, O: Output>() {
    let mut random = Random(8);
    for block in [1, 7, 16, 32, 64] {
        for _ in 0..20 {
            let packed = random.bytes(200 * P::BITS / 8);
            let map: [f32; 16] = random.numbers(16).try_into().unwrap();
            let (zeros, scales) = (random.numbers(200), random.numbers(200));
            let value = |i: usize| {
                let code = code(P::NAME, &packed, i);
                if P::BITS == 8 { f32::from(code) } else { map[usize::from(code)] }
            };
            for zeros in [&zeros[..], &[]] {
                let twin = |out: &mut [u8]| {
                    for i in 0..200 {
                        put(O::NAME, less(value(i), zeros, i / block) * scales[i / block], i, out);
                    }
                };
                compare::<O>(&format!("{} in blocks of {block}", P::NAME), 200, twin, |level, out| {
                    coded_blocks::<P, O>(level, &packed, &map, zeros, &scales, block, out)
                });
                let biased = Arithmetic { formula: Formula::Biased, step: Step::F32 };
                let twin = |out: &mut [u8]| {
                    for i in 0..200 {
                        let offset = zeros.get(i / block).copied().unwrap_or(0.0);
                        put(O::NAME, value(i) * scales[i / block] + offset, i, out);
                    }
                };
                compare::<O>(&format!("biased {} in blocks of {block}", P::NAME), 200, twin, |level, out| {
                    ruled_blocks::<P, O>(level, biased, &packed, &map, zeros, &scales, block, out)
                });
            }
            let groups: Vec<u32> = (0..200).map(|_| random.bits() % 200).collect();
            let code = |i: usize| f32::from(code(P::NAME, &packed, i));
            let twin = |out: &mut [u8]| {
                for i in 0..200 {
                    put(O::NAME, (code(i) - zeros[i]) * scales[i], i, out);
                }
            };
            compare::<O>(&format!("{} with a scale each", P::NAME), 200, twin, |level, out| {
                affine_codes::<P, O>(level, &packed, &canonical(level, &zeros), &canonical(level, &scales), out)
            });
            let twin = |out: &mut [u8]| {
                for (i, &group) in groups.iter().enumerate() {
                    let group = group as usize;
                    put(O::NAME, (code(i) - zeros[group]) * scales[group], i, out);
                }
            };
            compare::<O>(&format!("{} in groups by index", P::NAME), 200, twin, |level, out| {
                coded_indexed::<P, O>(level, &packed, &groups, &zeros, &scales, out)
            });
        }
    }
}

fn factors_agree<O: Output>() {
    let mut random = Random(9);
    for _ in 0..200 {
        let (codes, first, second) = (random.bytes(70), random.number(), random.number());
        let twin = |out: &mut [u8]| {
            for (i, code) in codes.iter().enumerate() {
                put(O::NAME, f32::from(code.cast_signed()) * first * second, i, out);
            }
        };
        compare::<O>("two factors", 70, twin, |level, out| scaled_twice::<O>(level, &codes, first, second, out));
        let blocks = random.bytes(36 * 2);
        let mut values = vec![0; 4 * 128];
        assert_eq!(ggml::decode_blocks::<ggml::Nvfp4, F32>(Level::portable(), &blocks, &mut values), 512);
        let twin = |out: &mut [u8]| {
            for (i, value) in values.as_chunks::<4>().0.iter().enumerate() {
                put(O::NAME, f32::from_le_bytes(*value) * first, i, out);
            }
        };
        compare::<O>("NVFP4 times a factor", 128, twin, |level, out| {
            ggml::decode_blocks_times::<ggml::Nvfp4, O>(level, &blocks, first, out)
        });
    }
}

macro_rules! every_output {
    ($function:ident $(, $type:ident)*) => {{
        $( $function::<$type, Bf16>(); $function::<$type, F16>(); $function::<$type, F32>(); )*
    }};
}

#[test]
fn eight_bit_floats_under_scales_agree() {
    every_output!(floats_agree, E4m3, E5m2, E4m3Fnuz, E5m2Fnuz, E8m0);
}

#[test]
fn packed_codes_under_zero_points_and_scales_agree() {
    every_output!(codes_agree, LowNibbles, HighNibbles, Bits2, Bits3, Bytes);
}

#[test]
fn integers_and_blocks_times_factors_agree() {
    factors_agree::<Bf16>();
    factors_agree::<F16>();
    factors_agree::<F32>();
}

#[test]
fn nested_scales_agree() {
    let mut random = Random(10);
    for _ in 0..200 {
        let (codes, map) = (random.bytes(100), random.numbers(256).try_into().unwrap());
        let (scales, offset) = (random.numbers(4), random.number());
        for level in Level::available() {
            let mut found = [0.0; 100];
            assert_eq!(nested_scales(level, &codes, &map, &scales, 30, offset, &mut found), 100);
            for (i, found) in found.iter().enumerate() {
                let expected = arithmetic(map[usize::from(codes[i])] * scales[i / 30] + offset);
                assert_eq!(found.to_bits(), expected.to_bits(), "at {level}, element {i}");
            }
        }
    }
}

#[test]
fn codes_of_nan_do_not_depend_on_the_level() {
    let mut random = Random(11);
    let whole = |ratio| Goal::Integer { ratio, low: -8, high: 7, plus: 8 };
    let mut goals = vec![Goal::E2m1, Goal::E2m1KeepsZero, Goal::E2m1TiesToZero, Goal::E2m1SignedZero];
    for factor in [Factor::Divided(Step::F32), Factor::Divided(Step::F16), Factor::Times] {
        goals.extend([Goal::E4m3(factor), Goal::E5m2(factor)]);
    }
    goals.extend([
        whole(Ratio::Quotient(Step::F32)),
        whole(Ratio::QuotientAway),
        whole(Ratio::QuotientPlus(Step::Bf16)),
        whole(Ratio::ProductPlus),
        whole(Ratio::Difference),
        whole(Ratio::RoundedPlusF16),
    ]);
    let codebook = Codebook::nearest(std::array::from_fn(|code| code as f32 / 15.0 - 0.5));
    for _ in 0..100 {
        let (values, scales, offsets) = (random.numbers(200), random.numbers(13), random.numbers(13));
        for goal in &goals {
            let codes = |level| {
                let mut codes = [0; 200];
                assert_eq!(group_codes(level, *goal, &values, 16, &scales, &offsets, &mut codes), 200);
                codes
            };
            Level::available()
                .for_each(|level| assert_eq!(codes(level), codes(Level::portable()), "{goal:?}, {level}"));
        }
        for scaling in [Scaling::Divide, Scaling::Multiply] {
            let codes = |level| {
                let mut codes = [0; 100];
                assert_eq!(nearest_codes::<F32>(level, &values, &codebook, &scales, 64, scaling, &mut codes), 100);
                codes
            };
            Level::available()
                .for_each(|level| assert_eq!(codes(level), codes(Level::portable()), "{scaling:?}, {level}"));
        }
    }
}

/// Rounding to BF16 once carried a NaN of all ones into the sign, and its code was that of zero.
#[test]
fn a_nan_of_all_ones_has_the_code_of_nan() {
    for ratio in
        [Step::F32, Step::Bf16, Step::F16].into_iter().flat_map(|s| [Ratio::Quotient(s), Ratio::QuotientPlus(s)])
    {
        let goal = Goal::Integer { ratio, low: -8, high: 7, plus: 8 };
        for level in Level::available() {
            let codes = |value: f32, scale: f32, offset: f32| {
                let mut codes = [0xA5; 40];
                assert_eq!(group_codes(level, goal, &[value; 40], 64, &[scale], &[offset], &mut codes), 40);
                codes
            };
            let expected = codes(f32::NAN, 1.0, 0.0);
            for ones in [0x7FFF_FFFF, 0xFFFF_FFFF, 0x7FFF_8000, 0xFFBF_FFFF].map(f32::from_bits) {
                assert_eq!(codes(ones, 1.0, 0.0), expected, "{ratio:?} at {level}");
                assert_eq!(codes(1.0, ones, 0.0), expected, "{ratio:?} at {level}");
                if matches!(ratio, Ratio::QuotientPlus(_)) {
                    assert_eq!(codes(1.0, 1.0, ones), expected, "{ratio:?} at {level}");
                    assert_eq!(codes(f32::from_bits(0xFFAA_D4C5), ones, ones), expected, "{ratio:?} at {level}");
                }
            }
        }
    }
}

/// The first operand's NaN is the code's: the sign of a value that is NaN is kept, whatever its scale.
#[test]
fn of_two_nans_the_value_decides_the_sign_of_a_code() {
    let (negative, positive) = (f32::from_bits(0xFFC0_0001), f32::from_bits(0x7FC0_0001));
    for level in Level::available() {
        for factor in [Factor::Divided(Step::F32), Factor::Times] {
            let mut codes = [0; 2];
            let values = [negative, positive];
            let written = group_codes(level, Goal::E4m3(factor), &values, 1, &[positive, negative], &[], &mut codes);
            assert_eq!(written, 2);
            assert_eq!(codes, [0xFF, 0x7F], "{factor:?} at {level}");
        }
    }
}
