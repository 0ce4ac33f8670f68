//! The GGML block types at every level of this CPU: against what ggml itself decodes, and against their naive twins.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../naive/mod.rs"]
mod naive;
mod twins;

use anamnesis_kernels::ggml::*;
use anamnesis_kernels::*;

/// What unwritten bytes hold, so that a write past the end shows.
const PAINT: u8 = 0xA5;

/// F16 of every kind: ordinary, subnormal, zero, largest, infinite, NaN with every payload bit set.
const HALVES: [u16; 14] =
    [0x2A66, 0xAE01, 0x3C00, 0x0400, 0x03FF, 0x0001, 0x8001, 0x0000, 0x8000, 0x7BFF, 0x7C00, 0xFC00, 0x7C01, 0xFFFF];

/// A file of golden data.
fn golden(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/ggml/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Decodes blocks at every level into painted bytes, with room for less than another block, and compares.
fn compare<B: GgmlBlock, O: Output>(what: &str, blocks: &[u8], expected: &[f32]) {
    for level in Level::available() {
        let mut found = vec![PAINT; (expected.len() + 31) * O::BYTES];
        let written = decode_blocks::<B, O>(level, blocks, &mut found);
        assert_eq!(written, expected.len() * O::BYTES, "{what} {} to {} at {level}", B::NAME, O::NAME);
        let (words, rest) = found.split_at(expected.len() * O::BYTES);
        for (i, (found, value)) in words.chunks(O::BYTES).zip(expected).enumerate() {
            let expected = naive::round(O::NAME, naive::arithmetic(*value));
            assert!(
                naive::same(O::NAME, found, &expected),
                "{what} {} to {} at {level}, element {i}: {found:02X?} instead of {expected:02X?}",
                B::NAME,
                O::NAME,
            );
        }
        assert!(rest.iter().all(|byte| *byte == PAINT), "{} at {level} writes past the last block", B::NAME);
    }
}

fn agrees<B: GgmlBlock>(what: &str, blocks: &[u8], expected: &[f32]) {
    assert_eq!(blocks.len() / B::BLOCK_BYTES * B::BLOCK_ELEMENTS, expected.len());
    compare::<B, Bf16>(what, blocks, expected);
    compare::<B, F16>(what, blocks, expected);
    compare::<B, F32>(what, blocks, expected);
}

/// Calls a function for all types.
macro_rules! every_type {
    ($function:ident) => {
        every_type!($function, Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q8_1 Q2K Q3K Q4K Q5K Q6K Q8K Iq1S Iq1M Iq2Xxs Iq2Xs
            Iq2S Iq3Xxs Iq3S Iq4Nl Iq4Xs Tq1_0 Tq2_0 Mxfp4 Nvfp4)
    };
    ($function:ident, $($block:ident)+) => { $( $function::<$block>(); )+ };
}

fn agrees_with_ggml<B: GgmlBlock>() {
    let name = B::NAME.to_lowercase();
    let blocks = golden(&format!("{name}.blocks"));
    let expected = floats(&golden(&format!("{name}.f32")));
    agrees::<B>("golden", &blocks, &expected);
    // The twin is held to the same.
    for (i, (found, expected)) in twins::decode(B::NAME, &blocks).iter().zip(&expected).enumerate() {
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "the twin of {}, element {i}: {found:e} instead of {expected:e}", B::NAME);
    }
}

#[test]
fn every_type_decodes_as_ggml_does() {
    every_type!(agrees_with_ggml);
}

fn points_agree<B: GgmlBlock>() {
    let name = B::NAME.to_lowercase();
    let blocks = golden(&format!("{name}.grid.blocks"));
    let expected: Vec<f32> = golden(&format!("{name}.grid.i8")).iter().map(|byte| f32::from(*byte as i8)).collect();
    agrees::<B>("grid", &blocks, &expected);
}

#[test]
fn every_point_of_every_grid_is_that_of_ggml() {
    every_type!(points_agree, Iq1S Iq2Xxs Iq2Xs Iq2S Iq3Xxs Iq3S);
}

/// Bytes that no two blocks have in common.
fn random(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(next).collect()
}

fn agrees_with_the_twin<B: GgmlBlock>() {
    for count in [0, 1, 2, 5, 67] {
        for (what, mut blocks) in [
            ("random", random(count * B::BLOCK_BYTES, count as u64 + 1)),
            ("special scales", random(count * B::BLOCK_BYTES, count as u64 + 9)),
            ("zeros", vec![0; count * B::BLOCK_BYTES]),
            ("ones", vec![0xFF; count * B::BLOCK_BYTES]),
        ] {
            if what == "special scales" {
                for (i, block) in blocks.chunks_mut(B::BLOCK_BYTES).enumerate() {
                    twins::set_halves(B::NAME, block, HALVES[i % 14], HALVES[(i / 14 + i) % 14]);
                }
            }
            let expected = twins::decode(B::NAME, &blocks);
            // Half a block more is no block.
            blocks.extend(vec![PAINT; B::BLOCK_BYTES / 2]);
            agrees::<B>(what, &blocks, &expected);
        }
    }
}

#[test]
fn every_type_agrees_with_the_twin() {
    every_type!(agrees_with_the_twin);
}

fn factor_is_multiplied_last<B: GgmlBlock>() {
    let blocks = random(9 * B::BLOCK_BYTES, 77);
    for factor in [0.37, -1e-30, 0.0, -0.0, f32::INFINITY, f32::from_bits(0x7FFF_FFFF)] {
        let expected: Vec<f32> =
            twins::decode(B::NAME, &blocks).iter().map(|value| naive::arithmetic(value * factor)).collect();
        for level in Level::available() {
            let mut found = vec![0; expected.len() * 4];
            assert_eq!(decode_blocks_times::<B, F32>(level, &blocks, factor, &mut found), found.len());
            for (found, expected) in floats(&found).iter().zip(&expected) {
                let same = found.to_bits() == expected.to_bits();
                assert!(same, "{} × {factor} at {level}: {found:e} instead of {expected:e}", B::NAME);
            }
            let mut found = vec![0; expected.len() * 2];
            assert_eq!(decode_blocks_times::<B, Bf16>(level, &blocks, factor, &mut found), found.len());
            for (found, expected) in found.chunks(2).zip(&expected) {
                assert!(naive::same("bf16", found, &naive::round("bf16", *expected)), "{} × {factor}", B::NAME);
            }
        }
    }
}

#[test]
fn factors_are_multiplied_last() {
    every_type!(factor_is_multiplied_last);
}

#[test]
fn short_outputs_get_whole_blocks_only() {
    for level in Level::available() {
        let mut out = vec![PAINT; 3 * 64 - 1];
        assert_eq!(decode_blocks::<Q8_0, Bf16>(level, &[0; 34 * 5], &mut out), 128);
        assert!(out[..128].iter().all(|byte| *byte == 0) && out[128..].iter().all(|byte| *byte == PAINT));
        assert_eq!(decode_blocks::<Q4K, F32>(level, &[0; 143], &mut out), 0);
    }
}
