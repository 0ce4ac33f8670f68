//! Every block type is encoded to ggml's own bytes, with and without an importance of values, at every CPU level; so is what
//! those bytes decode to, and what is no number.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::path::PathBuf;

use anamnesis_kernels::ggml::{self, decode_blocks};
use anamnesis_kernels::{EncodeBlocks, F32, Level, encode_rows};

const COLS: usize = 512;

fn data(name: &str) -> Option<Vec<u8>> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "data", "encoded", name].iter().collect();
    std::fs::read(path).ok()
}

fn floats(name: &str) -> Vec<f32> {
    data(name).unwrap().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// The bytes of rows of this many values.
fn encoded<B: EncodeBlocks>(level: Level, values: &[f32], row: usize, weights: Option<&[f32]>) -> Vec<u8> {
    let mut out = vec![0xEE; values.len() / B::BLOCK_ELEMENTS * B::BLOCK_BYTES];
    assert_eq!(encode_rows::<B>(level, values, row, weights, &mut out), out.len());
    out
}

fn check<B: EncodeBlocks>() {
    let (values, weights) = (floats("rows.f32"), floats("weights.f32"));
    let plain = data(&format!("{}.bin", B::NAME));
    assert!(plain.is_some() || B::NAME.starts_with("IQ"), "{}", B::NAME);
    let weighted = data(&format!("{}.weighted.bin", B::NAME));
    for (weights, expected) in [(None, plain), (Some(&weights[..]), weighted)] {
        let Some(expected) = expected else { continue };
        for level in Level::available() {
            let found = encoded::<B>(level, &values, COLS, weights);
            let block = found.chunks(B::BLOCK_BYTES).zip(expected.chunks(B::BLOCK_BYTES)).position(|(a, b)| a != b);
            let how = if weights.is_some() { "weighted" } else { "plain" };
            assert_eq!(block, None, "{} {how} at {}: the first block that differs", B::NAME, level.name());
        }
    }
    for level in Level::available() {
        // Rows that are not whole blocks, fewer weights than places, and too little room write nothing and count nothing.
        let mut out = vec![0xEE; 4 * B::BLOCK_BYTES];
        let (block, short) = (B::BLOCK_ELEMENTS, B::BLOCK_BYTES - 1);
        assert_eq!(encode_rows::<B>(level, &values[..block + 1], block + 1, None, &mut out), 0);
        assert_eq!(encode_rows::<B>(level, &values[..block], block, Some(&[1.0]), &mut out), 0);
        assert_eq!(encode_rows::<B>(level, &values, 0, None, &mut out), 0);
        assert_eq!(encode_rows::<B>(level, &values[..block], block, None, &mut out[..short]), 0);
        assert!(out.iter().all(|byte| *byte == 0xEE), "{}", B::NAME);
        // A row of one block, as the first of a longer one.
        let weights = &weights[..B::BLOCK_ELEMENTS];
        let one = encoded::<B>(level, &values[..B::BLOCK_ELEMENTS], B::BLOCK_ELEMENTS, Some(weights));
        let again = encoded::<B>(level, &values[..B::BLOCK_ELEMENTS].repeat(3), B::BLOCK_ELEMENTS, Some(weights));
        assert_eq!(again, one.repeat(3), "{}", B::NAME);
    }
}

/// FNV-1a over bytes, as the script that wrote the digests has it.
fn digest(bytes: &[u8]) -> String {
    let mix = |value: u64, byte: &u8| (value ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
    format!("{:016x}", bytes.iter().fold(0xCBF2_9CE4_8422_2325, mix))
}

/// The words of the lines of a file that are about a type: how it is encoded, and what is told of that.
fn lines(file: &str, kind: &str) -> Vec<Vec<String>> {
    let text = String::from_utf8(data(file).unwrap()).unwrap();
    let words = text.lines().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    words.filter(|words| words[0] == kind).map(|words| words[1..].to_vec()).collect()
}

/// What is encoded decodes to what ggml decodes its own bytes to, and encoding that again gives ggml's bytes again: the same
/// ones where ggml's are.
fn check_again<B: EncodeBlocks>() {
    let (values, weights) = (floats("rows.f32"), floats("weights.f32"));
    let lines = lines("again.txt", B::NAME);
    assert!(!lines.is_empty(), "{}", B::NAME);
    for line in lines {
        let [how, back, second, same] = &line[..] else { panic!("{line:?}") };
        let weights = (how == "weighted").then_some(&weights[..]);
        for level in Level::available() {
            let what = format!("{} {how} at {}", B::NAME, level.name());
            let first = encoded::<B>(level, &values, COLS, weights);
            let mut decoded = vec![0xEE; values.len() * 4];
            assert_eq!(decode_blocks::<B, F32>(level, &first, &mut decoded), decoded.len());
            assert_eq!(digest(&decoded), *back, "{what}: decoded");
            let decoded: Vec<f32> = decoded.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let again = encoded::<B>(level, &decoded, COLS, weights);
            assert_eq!(digest(&again), *second, "{what}: encoded again");
            assert_eq!(again == first, same == "same", "{what}: whether it stays");
        }
    }
}

/// Rows with values that are no numbers become ggml's bytes, where ggml ends at all.
fn check_nonfinite<B: EncodeBlocks>() {
    let (values, weights) = (floats("nonfinite.f32"), floats("weights.f32"));
    for line in lines("nonfinite.txt", B::NAME) {
        let weights = (line[0] == "weighted").then_some(&weights[..]);
        for (row, (values, expected)) in values.chunks(COLS).zip(&line[1..]).enumerate() {
            for level in Level::available() {
                let found = encoded::<B>(level, values, COLS, weights);
                let what = format!("{} {} at {}, row {row}", B::NAME, line[0], level.name());
                assert!(expected == "-" || digest(&found) == *expected, "{what}");
            }
        }
    }
}

macro_rules! types {
    ($($test:ident $type:ident)*) => {
        $(
            #[test]
            fn $test() {
                check::<ggml::$type>();
                check_again::<ggml::$type>();
            }
        )*

        mod nonfinite {
            use super::*;

            $(
                #[test]
                fn $test() {
                    check_nonfinite::<ggml::$type>();
                }
            )*
        }
    };
}

types! {
    q4_0 Q4_0 q4_1 Q4_1 q5_0 Q5_0 q5_1 Q5_1 q8_0 Q8_0 q1_0 Q1_0 q2_0 Q2_0 q2_k Q2K q3_k Q3K q4_k Q4K q5_k Q5K q6_k Q6K
    iq1_s Iq1S iq1_m Iq1M iq2_xxs Iq2Xxs iq2_xs Iq2Xs iq2_s Iq2S iq3_xxs Iq3Xxs iq3_s Iq3S iq4_nl Iq4Nl iq4_xs Iq4Xs
    tq1_0 Tq1_0 tq2_0 Tq2_0 mxfp4 Mxfp4 nvfp4 Nvfp4
}
