//! Repacks every layout to every other.

use super::{Agreement, Companion, RepackedCodes, RepackedCompanion};
use crate::scheme::coder::{ByteTiles, CodeOrder, Context, Integers, OffsetLayout, ScaleType, Window};

const ROWS: u64 = 32;

fn matrix(bits: u8, group: u64, offsets: OffsetLayout) -> Integers {
    let words = if matches!(offsets, OffsetLayout::Along { .. }) { CodeOrder::Columns } else { CodeOrder::Rows };
    Integers { bits, rows: ROWS, cols: 64, group, words, scale: ScaleType::F16, offsets }
}

fn awq() -> Integers {
    Integers { words: CodeOrder::Awq, ..matrix(4, 32, OffsetLayout::Along { minus_one: false }) }
}

/// The whole output of a repacking of these parts.
fn converted(decoder: &dyn ByteTiles, all: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    let step = decoder.granule();
    // Granule by granule, the smallest tiles.
    for start in (0..all).step_by(step as usize) {
        let range = start..(start + step).min(all);
        let mut windows = Vec::new();
        decoder.windows(range.clone(), &mut windows);
        let rows = |window: &Window| -> Vec<u8> {
            let row = |row: u64| (window.offset + row * window.stride) as usize;
            let rows = (0..window.rows).map(|at| &parts[window.part][row(at)..row(at) + window.row_bytes as usize]);
            rows.flatten().copied().collect()
        };
        let inputs: Vec<Vec<u8>> = windows.iter().map(rows).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut tile = vec![0; (range.end - range.start) as usize];
        decoder.fill(range, &inputs, &mut tile, &mut Context::default()).unwrap();
        out.extend(tile);
    }
    out
}

/// The scales and offsets of `from` in the layout of `to`; codes are left empty.
fn repacked(from: Integers, to: Integers, parts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let output = |companion| {
        let same = RepackedCompanion { from, to, companion, zero: None, agreement: Agreement::Known };
        converted(&same, same.bytes(), parts)
    };
    let mut parts = vec![Vec::new(), output(Companion::Scales), output(Companion::Offsets)];
    if to.is_transposed() {
        parts.swap(1, 2);
    }
    parts
}

#[test]
fn zero_points_go_through_every_layout_and_back() {
    for bits in [2, 3, 4, 8] {
        let layouts = [
            OffsetLayout::Biases,
            OffsetLayout::Bytes,
            OffsetLayout::Down { dense: true },
            OffsetLayout::Along { minus_one: true },
            OffsetLayout::Along { minus_one: false },
        ];
        let first = matrix(bits, 32, OffsetLayout::Bytes);
        let count = ROWS * first.groups();
        let scales = (0..count).flat_map(|at| (0x3000u16 + 0x400 * (at % 5) as u16).to_le_bytes()).collect();
        let zeros = (0..count).map(|at| (at * 7) as u8 & (u8::MAX >> (8 - bits)));
        let parts = vec![Vec::new(), scales, zeros.map(|zero| zero.wrapping_sub(1 << (bits - 1))).collect()];
        let layouts = layouts.map(|offsets| matrix(bits, 32, offsets)).into_iter().chain((bits == 4).then(awq));
        for from in layouts.clone() {
            let there = repacked(first, from, &parts);
            for to in layouts.clone() {
                assert_eq!(repacked(to, first, &repacked(from, to, &there)), parts, "{bits} bits, {from:?} {to:?}");
            }
            // Smaller groups repeat their scales.
            let smaller = repacked(from, matrix(bits, 16, OffsetLayout::Bytes), &there);
            let twice = |each: usize, part: &[u8]| part.chunks(each).flat_map(|one| [one, one].concat()).collect();
            let wanted: Vec<Vec<u8>> = vec![Vec::new(), twice(2, &parts[1]), twice(1, &parts[2])];
            assert_eq!(smaller, wanted, "{bits} bits, {from:?}");
        }
    }
}

#[test]
fn a_group_that_disagrees_is_found() {
    let (from, to) = (matrix(4, 64, OffsetLayout::Biases), matrix(4, 64, OffsetLayout::Along { minus_one: true }));
    let decoder =
        RepackedCompanion { from, to, companion: Companion::Scales, zero: Some(8), agreement: Agreement::Numbers };
    let mut out = vec![0; 2 * ROWS as usize];
    let mut with = |bias: u16| {
        let scales = 0x3C00u16.to_le_bytes().repeat(ROWS as usize);
        let mut biases = 0xC800u16.to_le_bytes().repeat(ROWS as usize);
        biases[10..12].copy_from_slice(&bias.to_le_bytes());
        let inputs = [&scales[..], &biases];
        out.fill(7);
        let filled = decoder.fill(0..2 * ROWS, &inputs, &mut out, &mut Context::default()).unwrap();
        assert!(filled == out.len() && out.iter().all(|flag| *flag == out[0]));
        out[0]
    };
    assert_eq!(with(0xC800), 1, "-8");
    assert_eq!(with(0xC700), 0, "-7, where 8 is assumed");
    assert_eq!(with(0xC780), 0, "-7.5");
}

#[test]
fn codes_go_through_every_layout_and_back() {
    let from = matrix(4, 32, OffsetLayout::Bytes);
    let bytes = from.rows * from.cols / 2;
    let codes: Vec<u8> = (0..bytes).map(|at| (at * 37 + at / 64) as u8).collect();
    let columns = matrix(4, 32, OffsetLayout::Along { minus_one: false });
    let moved =
        |from: Integers, to: Integers, codes: &[u8]| converted(&RepackedCodes { from, to }, bytes, &[codes.to_vec()]);
    for first in [from, columns, awq()] {
        let there = moved(from, first, &codes);
        for second in [from, columns, awq()] {
            assert_eq!(moved(second, from, &moved(first, second, &there)), codes, "{first:?} {second:?}");
        }
    }
    // The first AWQ word has the first eight outputs of the first input, even outputs first.
    let code = |output: usize| u32::from(codes[output * 32] & 15);
    let word = [0, 2, 4, 6, 1, 3, 5, 7].iter().rev().fold(0, |word, &output| word << 4 | code(output));
    assert_eq!(moved(from, awq(), &codes)[..4], word.to_le_bytes());
}
