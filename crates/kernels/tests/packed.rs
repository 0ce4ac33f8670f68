//! The kernels for packed codes at every level of this CPU against their naive twins: bits, not closeness.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod naive;

use anamnesis_kernels::*;
use naive::canonical;
use naive::packed::{code, less, put};

/// Lengths around the boundaries of groups, words and blocks.
const LENGTHS: [usize; 19] = [0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300, 1000, 1187];

/// Blocks that are whole groups, and others.
const BLOCKS: [usize; 14] = [1, 2, 3, 7, 16, 30, 31, 32, 33, 64, 96, 100, 128, 4096];

/// Numbers of every kind, ordinary ones first.
const NUMBERS: [f32; 17] = [
    1.0,
    0.37,
    -2.5e-3,
    8.0,
    1.7e4,
    0.0,
    -0.0,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    1e-45,
    -3e-39,
    2e-36,
    3.3e38,
    6e-8,
    f32::from_bits(0x7FFF_FFFF),
    f32::from_bits(0xFF80_0001),
];

/// A map with values of every kind.
const WILD: [f32; 16] = [
    -0.0,
    0.0,
    -1.0,
    0.696_192_8,
    f32::NAN,
    f32::INFINITY,
    1e-45,
    -3e-39,
    3.3e38,
    7.0,
    -0.525_073_05,
    0.079_580_3,
    1e-3,
    f32::from_bits(0x7FFF_FFFF),
    f32::from_bits(0xFF80_0001),
    -65519.9,
];

/// What unwritten bytes hold, so that a write past the end shows.
const PAINT: u8 = 0xA5;

/// Bytes whose period of 251 does not divide any block.
fn painted(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 251 * 7 + i / 251 * 13 + i) as u8).collect()
}

/// The bytes that so many codes take.
fn packed<P: Packing>(elements: usize) -> Vec<u8> {
    painted((elements * P::BITS).div_ceil(8).next_multiple_of(P::UNIT))
}

/// Numbers of every kind, in an order that depends on the seed.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    NUMBERS.into_iter().cycle().skip(seed % 17).step_by(1 + seed % 3).take(count).collect()
}

/// Runs `kernel` at every level into painted bytes and compares with what the twin writes there.
///
/// The output has room for exactly the elements, so a twin writes all of them and a kernel no more.
fn compare<O: Output>(
    what: &str,
    elements: usize,
    twin: impl Fn(&mut [u8]),
    kernel: impl Fn(Level, &mut [u8]) -> usize,
) {
    let mut expected = vec![PAINT; elements * O::BYTES];
    twin(&mut expected);
    let mut portable = vec![PAINT; elements * O::BYTES];
    assert_eq!(kernel(Level::portable(), &mut portable), elements * O::BYTES, "{what} to {}", O::NAME);
    for level in Level::available() {
        let mut found = vec![PAINT; elements * O::BYTES + O::BYTES - 1];
        assert_eq!(kernel(level, &mut found), elements * O::BYTES, "{what} at {level}");
        assert_eq!(found.split_off(elements * O::BYTES), vec![PAINT; O::BYTES - 1], "{what} at {level}");
        naive::assert_same_bits(&format!("{what} to {} at {level}", O::NAME), O::BYTES, &found, &portable);
        for (i, (found, expected)) in found.chunks(O::BYTES).zip(expected.chunks(O::BYTES)).enumerate() {
            let same = naive::same(O::NAME, found, expected);
            assert!(same, "{what} to {} at {level}, element {i}: {found:02X?} instead of {expected:02X?}", O::NAME);
        }
    }
}

/// Calls a function for all packings and outputs.
macro_rules! every_packing_and_output {
    ($function:ident) => {
        every_packing_and_output!($function, LowNibbles HighNibbles AwqNibbles Bits2 Bits3 Bytes)
    };
    ($function:ident, $($packing:ident)+) => {
        $( $function::<$packing, Bf16>(); $function::<$packing, F16>(); $function::<$packing, F32>(); )+
    };
}

fn blocks_agree<P: Packing, O: Output>() {
    for block in BLOCKS {
        for length in LENGTHS {
            let codes = packed::<P>(length);
            let count = length.div_ceil(block);
            let scales = numbers(count, length);
            for (zeros, map) in [
                (vec![], WILD),
                (numbers(count, length + 5), WILD),
                ((0..count).map(|i| i as f32 % 9.0).collect(), std::array::from_fn(|code| code as f32)),
            ] {
                let what = format!("{} in blocks of {block} ({length}, {} zeros)", P::NAME, zeros.len());
                let twin = |out: &mut [u8]| {
                    for i in 0..length {
                        let code = code(P::NAME, &codes, i);
                        let value = if P::BITS == 8 { f32::from(code) } else { map[usize::from(code)] };
                        put(O::NAME, less(value, &zeros, i / block) * scales[i / block], i, out);
                    }
                };
                compare::<O>(&what, length, twin, |level, out| {
                    coded_blocks::<P, O>(level, &codes, &map, &zeros, &scales, block, out)
                });
            }
        }
    }
}

#[test]
fn blocks_agree_with_the_twin() {
    every_packing_and_output!(blocks_agree);
}

fn many_blocks_agree<P: Packing, O: Output>() {
    let map = std::array::from_fn(|code| (code as f32 - 7.3) * 0.11);
    for block in [16, 32, 64, 128] {
        let length = 100 * block;
        let codes = packed::<P>(length);
        let scales: Vec<f32> = (0..100).map(|i| 0.01 + i as f32 * 1e-3).collect();
        let twin = |out: &mut [u8]| {
            for i in 0..length {
                let code = code(P::NAME, &codes, i);
                let value = if P::BITS == 8 { f32::from(code) } else { map[usize::from(code)] };
                put(O::NAME, value * scales[i / block], i, out);
            }
        };
        compare::<O>(P::NAME, length, twin, |level, out| {
            coded_blocks::<P, O>(level, &codes, &map, &[], &scales, block, out)
        });
    }
}

#[test]
fn many_blocks_agree_with_the_twin() {
    every_packing_and_output!(many_blocks_agree);
}

fn indexed_agree<P: Packing, O: Output>() {
    for length in LENGTHS {
        for count in [1, 5, 40] {
            let codes = packed::<P>(length);
            let groups: Vec<u32> = (0..length).map(|i| (i * 7 % count) as u32).collect();
            let scales = numbers(count, length);
            for zeros in [vec![], numbers(count, length + 3)] {
                let twin = |out: &mut [u8]| {
                    for (i, group) in groups.iter().enumerate() {
                        let group = *group as usize;
                        let value = less(f32::from(code(P::NAME, &codes, i)), &zeros, group) * scales[group];
                        put(O::NAME, value, i, out);
                    }
                };
                compare::<O>(P::NAME, length, twin, |level, out| {
                    coded_indexed::<P, O>(level, &codes, &groups, &zeros, &scales, out)
                });
            }
        }
    }
}

#[test]
fn indexed_codes_agree_with_the_twin() {
    every_packing_and_output!(indexed_agree);
}

#[test]
fn a_group_past_the_last_counts_as_the_last() {
    for level in Level::available() {
        let mut out = [0; 4 * 40];
        let groups = [u32::MAX; 40];
        assert_eq!(
            coded_indexed::<Bytes, F32>(level, &[5; 40], &groups, &[1.0, 2.0], &[1.0, 0.5], &mut out),
            out.len()
        );
        assert_eq!(out, 1.5f32.to_le_bytes().repeat(40)[..]);
        let mut out = [PAINT; 4 * 40];
        assert_eq!(coded_indexed::<Bytes, F32>(level, &[5; 40], &groups, &[], &[], &mut out), 0);
        assert_eq!(out, [PAINT; 160]);
    }
}

fn affine_agrees<P: Packing, O: Output>() {
    for length in LENGTHS {
        let codes = packed::<P>(length);
        let scales = numbers(length, length);
        for zeros in [vec![], numbers(length, length + 3)] {
            let twin = |out: &mut [u8]| {
                for (i, scale) in scales.iter().enumerate() {
                    put(O::NAME, less(f32::from(code(P::NAME, &codes, i)), &zeros, i) * scale, i, out);
                }
            };
            compare::<O>(P::NAME, length, twin, |level, out| {
                affine_codes::<P, O>(level, &codes, &canonical(level, &zeros), &canonical(level, &scales), out)
            });
        }
    }
}

#[test]
fn codes_with_their_own_scales_agree_with_the_twin() {
    every_packing_and_output!(affine_agrees);
}

fn fields_agree<O: Output>() {
    for length in LENGTHS {
        let words = painted(4 * length);
        let scales = numbers(length, length);
        for (shift, bits) in
            [(0, 4), (4, 4), (28, 4), (0, 2), (30, 2), (0, 8), (24, 8), (9, 3), (29, 3), (30, 3), (31, 8)]
        {
            for zeros in [vec![], numbers(length, length + 3)] {
                let twin = |out: &mut [u8]| {
                    for (i, word) in words.as_chunks::<4>().0.iter().enumerate() {
                        let code = (u32::from_le_bytes(*word) >> shift) & ((1 << bits) - 1);
                        put(O::NAME, less(code as f32, &zeros, i) * scales[i], i, out);
                    }
                };
                compare::<O>(&format!("{bits} bits at {shift}"), length, twin, |level, out| {
                    let (zeros, scales) = (canonical(level, &zeros), canonical(level, &scales));
                    affine_fields::<O>(level, &words, shift, bits, &zeros, &scales, out)
                });
            }
        }
    }
}

#[test]
fn fields_of_words_agree_with_the_twin() {
    fields_agree::<Bf16>();
    fields_agree::<F16>();
    fields_agree::<F32>();
}

fn unpacked_agree<P: Packing>() {
    for length in LENGTHS {
        let codes = packed::<P>(length);
        for level in Level::available() {
            let mut found = vec![9.25; length];
            assert_eq!(unpack_codes::<P>(level, &codes, &mut found), length);
            for (i, found) in found.into_iter().enumerate() {
                assert_eq!(found, f32::from(code(P::NAME, &codes, i)), "{} at {level}, element {i}", P::NAME);
            }
        }
    }
}

#[test]
fn unpacked_codes_agree_with_the_twin() {
    unpacked_agree::<LowNibbles>();
    unpacked_agree::<HighNibbles>();
    unpacked_agree::<AwqNibbles>();
    unpacked_agree::<Bits2>();
    unpacked_agree::<Bits3>();
    unpacked_agree::<Bytes>();
}

fn twice_agrees<O: Output>() {
    for length in LENGTHS {
        let codes = painted(length);
        for first in NUMBERS {
            for second in [1.0 / 127.0, 1.0, f32::NAN, -0.0, f32::from_bits(0x7FFF_FFFF)] {
                let twin = |out: &mut [u8]| {
                    for (i, code) in codes.iter().enumerate() {
                        let once = f32::from(code.cast_signed()) * first;
                        put(O::NAME, once * second, i, out);
                    }
                };
                compare::<O>(&format!("× {first:e} × {second:e}"), length, twin, |level, out| {
                    scaled_twice::<O>(level, &codes, first, second, out)
                });
            }
        }
    }
}

#[test]
fn integers_times_two_factors_agree_with_the_twin() {
    twice_agrees::<Bf16>();
    twice_agrees::<F16>();
    twice_agrees::<F32>();
}

#[test]
fn nested_scales_agree_with_the_twin() {
    let map = std::array::from_fn(|code| NUMBERS[code % 17] + code as f32 * 0.01);
    for block in BLOCKS {
        for length in LENGTHS {
            let codes = painted(length);
            let scales = numbers(length.div_ceil(block), length);
            for offset in [0.0, -0.0, 0.037, f32::NAN] {
                for level in Level::available() {
                    let mut found = vec![9.25; length + 3];
                    assert_eq!(nested_scales(level, &codes, &map, &scales, block, offset, &mut found), length);
                    assert_eq!(found.split_off(length), [9.25; 3]);
                    for (i, found) in found.into_iter().enumerate() {
                        let product = map[usize::from(codes[i])] * scales[i / block];
                        let expected = naive::arithmetic(product + offset);
                        let same = found.to_bits() == expected.to_bits();
                        assert!(same, "at {level}, element {i}: {found:e} instead of {expected:e}");
                    }
                }
            }
        }
    }
}

/// Rows and columns around the boundaries of tiles and panels.
const SHAPES: [(usize, usize); 20] = [
    (0, 5),
    (5, 0),
    (1, 1),
    (1, 40),
    (2, 3),
    (7, 9),
    (8, 4),
    (15, 16),
    (16, 16),
    (17, 15),
    (16, 32),
    (31, 33),
    (64, 2),
    (127, 1),
    (128, 16),
    (129, 17),
    (130, 8),
    (257, 5),
    (400, 32),
    (513, 20),
];

#[test]
fn transposed_words_agree_with_the_twin() {
    for (rows, cols) in SHAPES {
        let words = painted(rows * cols * 4);
        for level in Level::available() {
            let mut found = vec![PAINT; rows * cols * 4 + 5];
            assert_eq!(transpose_words(level, &words, rows, cols, &mut found), rows * cols * 4);
            assert_eq!(found.split_off(rows * cols * 4), [PAINT; 5]);
            for (i, word) in found.chunks(4).enumerate() {
                let from = (i % rows * cols + i / rows) * 4;
                assert_eq!(word, &words[from..from + 4], "{rows} × {cols} at {level}, word {i}");
            }
        }
    }
}

/// Finished elements turned into the columns from 3 on of rows that have room for 5 more.
fn turned<O: Output>() {
    for (rows, cols) in SHAPES {
        let elements = painted(rows * cols * O::BYTES);
        let stride = rows + 5;
        for level in Level::available() {
            let mut found = vec![PAINT; stride * cols * O::BYTES];
            let written = transpose_columns::<O>(level, &elements, rows, cols, &mut found, stride, 3);
            assert_eq!(written, rows * cols * O::BYTES);
            for (i, element) in found.chunks(O::BYTES).enumerate() {
                let place = (i % stride).checked_sub(3).filter(|&row| row < rows).map(|row| row * cols + i / stride);
                let expected = place.map_or(&[PAINT; 4][..O::BYTES], |place| &elements[place * O::BYTES..][..O::BYTES]);
                assert_eq!(element, expected, "{rows} × {cols} at {level}, element {i}");
            }
        }
    }
}

#[test]
fn turned_elements_agree_with_the_twin() {
    turned::<Bf16>();
    turned::<F32>();
}

#[test]
fn transposed_nibbles_agree_with_the_twin() {
    for (rows, word_cols) in SHAPES {
        let words = painted(rows * word_cols * 4);
        let size = word_cols * 8 * rows.div_ceil(2);
        let mut expected = vec![PAINT; size + 5];
        naive::packed::transpose_awq(&words, rows, word_cols, &mut expected);
        for level in Level::available() {
            let mut found = vec![PAINT; size + 5];
            assert_eq!(transpose_awq(level, &words, rows, word_cols, &mut found), size);
            assert!(found == expected, "{rows} × {word_cols} at {level}");
        }
    }
}

#[test]
fn tiles_of_marlin_agree_with_the_twin() {
    for (rows, strips, gap) in [(1, 1, 0), (1, 3, 5), (7, 2, 0), (8, 1, 64), (9, 2, 3), (16, 1, 0), (21, 3, 1)] {
        let tiles: Vec<u8> = (0..512 * rows * strips).map(|i| ((i * 2_654_435_761) >> 13) as u8).collect();
        let stride = 8 * rows + gap;
        let size = 64 * strips * stride + 5;
        let mut expected = vec![PAINT; size];
        naive::packed::untile_marlin(&tiles, rows, strips, &mut expected, stride);
        for level in Level::available() {
            let mut found = vec![PAINT; size];
            assert_eq!(untile_marlin(level, &tiles, rows, strips, &mut found, stride), 512 * rows * strips);
            assert!(found == expected, "{rows} × {strips}, {gap} apart, at {level}");
        }
    }
}

#[test]
fn negative_zero_in_a_map_is_kept() {
    let map = [-0.0; 16];
    for level in Level::available() {
        for block in [64, 30] {
            let mut out = [0; 2 * 70];
            assert_eq!(
                coded_blocks::<HighNibbles, Bf16>(level, &painted(35), &map, &[], &[2.0; 3], block, &mut out),
                out.len()
            );
            assert_eq!(out, [0x00, 0x80].repeat(70)[..]);
        }
    }
}

#[test]
fn subtraction_and_multiplication_are_not_fused() {
    // 3 - 1/3 and 15 - 1/3 are not exact; the products of the exact differences would round otherwise.
    let (zero, scale) = (1.0f32 / 3.0, 1.0f32 / 7.0);
    let expected: Vec<u8> = (0..16).flat_map(|code| ((code as f32 - zero) * scale).to_le_bytes()).collect();
    for level in Level::available() {
        let packed: Vec<u8> = (0..8).map(|i| (2 * i) | ((2 * i + 1) << 4)).collect();
        let mut out = [0; 64];
        let map = std::array::from_fn(|code| code as f32);
        assert_eq!(coded_blocks::<LowNibbles, F32>(level, &packed, &map, &[zero], &[scale], 32, &mut out), out.len());
        assert_eq!(out[..], expected);
        assert_eq!(affine_codes::<LowNibbles, F32>(level, &packed, &[zero; 16], &[scale; 16], &mut out), out.len());
        assert_eq!(out[..], expected);
    }
}

#[test]
fn odd_lengths_of_every_argument_are_survived_and_counted() {
    let map = [1.0; 16];
    const ROOM: usize = 4 * 500 + 3;
    for level in Level::available() {
        for (bytes, count) in [(0, 3), (1, 0), (5, 1), (7, 2), (150, 2), (150, 500), (31, 1)] {
            let codes = painted(bytes);
            let values = vec![1.5; count];
            let groups = vec![7; count];
            macro_rules! call {
                ($($packing:ident)+) => { $(
                    for block in [0, 1, 33, 64, usize::MAX, usize::MAX / 32 * 32] {
                        naive::assert_counted(ROOM, |out| coded_blocks::<$packing, Bf16>(level, &codes, &map, &values[count / 2..], &values, block, out));
                        naive::assert_counted(ROOM, |out| coded_blocks::<$packing, F32>(level, &codes, &map, &[], &values, block, out));
                    }
                    naive::assert_counted(ROOM, |out| coded_indexed::<$packing, F16>(level, &codes, &groups, &values[count / 2..], &values, out));
                    naive::assert_counted(ROOM, |out| affine_codes::<$packing, F32>(level, &codes, &values[count / 2..], &values, out));
                    assert!(unpack_codes::<$packing>(level, &codes, &mut [0.0; 77]) <= 77);
                )+ };
            }
            call!(LowNibbles HighNibbles AwqNibbles Bits2 Bits3 Bytes);
            naive::assert_counted(ROOM, |out| {
                affine_fields::<Bf16>(level, &codes, 99, 99, &values[count / 2..], &values, out)
            });
            naive::assert_counted(ROOM, |out| scaled_twice::<F32>(level, &codes, 1.0, 1.0, out));
            assert_eq!(
                nested_scales(level, &codes, &[1.0; 256], &values, 0, 0.0, &mut [0.0; 9]),
                bytes.min(count).min(9)
            );
            assert_eq!(
                nested_scales(level, &codes, &[1.0; 256], &values, usize::MAX, 0.0, &mut [0.0; 9]),
                if count > 0 { bytes.min(9) } else { 0 }
            );
            naive::assert_counted(ROOM, |out| transpose_words(level, &codes, usize::MAX, 3, out));
            naive::assert_counted(ROOM, |out| transpose_words(level, &codes, 5, 8, out));
            naive::assert_counted(ROOM, |out| transpose_awq(level, &codes, 3, usize::MAX, out));
            naive::assert_counted(ROOM, |out| transpose_awq(level, &codes, 4, 9, out));
            naive::assert_counted(ROOM, |out| untile_marlin(level, &codes, usize::MAX, 3, out, 8));
            naive::assert_counted(ROOM, |out| untile_marlin(level, &codes, 1, 1, out, usize::MAX));
            naive::assert_counted(ROOM, |out| untile_marlin(level, &codes, 0, 1, out, 8));
            naive::assert_counted(ROOM, |out| untile_marlin(level, &codes, 1, 0, out, 8));
            naive::assert_counted(ROOM, |out| {
                transpose_columns::<Bf16>(level, &codes, usize::MAX, 3, out, usize::MAX, 0)
            });
            naive::assert_counted(ROOM, |out| {
                transpose_columns::<F32>(level, &codes, 3, usize::MAX, out, 4, usize::MAX)
            });
            naive::assert_counted(ROOM, |out| transpose_columns::<F32>(level, &codes, 4, 0, out, 4, 0));
            naive::assert_counted(ROOM, |out| transpose_columns::<F16>(level, &codes, 4, 9, out, 3, 0));
        }
    }
}

#[test]
fn a_last_byte_may_hold_one_code_only() {
    for level in Level::available() {
        let mut out = [PAINT; 4 * 4];
        let map = std::array::from_fn(|code| code as f32);
        assert_eq!(
            coded_blocks::<LowNibbles, F32>(level, &[0x21, 0xF3], &map, &[], &[1.0], 64, &mut out[..12]),
            out[..12].len()
        );
        assert_eq!(out[8..], [3f32.to_le_bytes(), [PAINT; 4]].concat()[..]);
    }
}
