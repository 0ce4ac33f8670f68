//! Compares every combination with a naive decoder of one element at a time.

use std::ops::Range;

use super::layout::{Order, Unit};
use super::{Arithmetic, Formula, GlobalScale, Grouped, Layout, Meaning, Offsets, Scales, Step};
use crate::catalog::TargetDtype;
use crate::cpu::CpuLevel;
use crate::scheme::coder::ScaleOp;
use crate::scheme::coder::{Arrangement, Context, Grid, ScaleType, TileDecoder};

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// Finite F32 values.
    fn floats(&mut self, count: u64) -> Vec<u8> {
        (0..count).flat_map(|_| ((self.next() as i32 as f32 - 1e9) * 1e-10).to_le_bytes()).collect()
    }
}

/// Bits of a little-endian stream.
fn field(bytes: &[u8], bit: u64, bits: u8) -> u8 {
    (0..u64::from(bits)).map(|i| (bytes[((bit + i) / 8) as usize] >> ((bit + i) % 8) & 1) << i).sum()
}

fn f32_at(bytes: &[u8], index: u64) -> f32 {
    f32::from_le_bytes(bytes[index as usize * 4..][..4].try_into().unwrap())
}

/// One element, computed by the definition.
fn naive(weight: &Grouped, parts: &[Vec<u8>], element: u64) -> f32 {
    let grid = &weight.grid;
    let (row, col) = (element / grid.cols, element % grid.cols);
    let code = match weight.layout {
        Layout::Dense { bits, row_bytes } => field(&parts[0], row * row_bytes * 8 + col * u64::from(bits), bits),
        Layout::Words { bits, row_bytes } => {
            let per_word = 32 / u64::from(bits);
            let bit = row * row_bytes * 8 + col / per_word * 32 + col % per_word * u64::from(bits);
            field(&parts[0], bit, bits)
        }
        Layout::HighNibbles => field(&parts[0], (row * grid.cols.div_ceil(2) * 2 + (col ^ 1)) * 4, 4),
        Layout::RowPairs => field(&parts[0], (row / 2 * grid.cols + col) * 8 + row % 2 * 4, 4),
        Layout::Planes { bits, unit, rows, order } => {
            let unit_bits = if unit == Unit::Byte { 8 } else { 32 };
            let plane = match order {
                Order::LowestFirst => row / rows,
                Order::HighestFirst => unit_bits / u64::from(bits) - 1 - row / rows,
            };
            field(&parts[0], (row % rows * grid.cols + col) * unit_bits + plane * u64::from(bits), bits)
        }
    };
    let value = match weight.meaning {
        Meaning::Signed => f32::from(code.cast_signed()),
        Meaning::Unsigned => f32::from(code),
        Meaning::SignedNibble => f32::from((code << 4).cast_signed() >> 4),
        Meaning::CentredNibble => f32::from(code) - 8.0,
        Meaning::HalfNf4 | Meaning::HalfNf3 => weight.meaning.map()[usize::from(code)],
        Meaning::E2m1 | Meaning::E2m1NoMinusZero => weight.meaning.map()[usize::from(code)],
    };
    let stored = !matches!(weight.offsets, Offsets::None | Offsets::Constant(_));
    let group = match weight.is_indexed {
        true => u64::from(u32::from_le_bytes(parts[parts.len() - 1][col as usize * 4..][..4].try_into().unwrap())),
        false => col / grid.block_cols,
    };
    let scale_row = if weight.is_indexed { row } else { grid.scale_row(row) };
    let at = scale_row * grid.grid_cols + group;
    let mut scale = f32_at(&parts[1], at);
    if let Some(global) = weight.scales.global {
        let matrix = if global.per_matrix { row / grid.rows } else { 0 };
        let global_scale = f32_at(&parts[2 + usize::from(stored)], matrix);
        scale = if global.op == ScaleOp::Multiply { scale * global_scale } else { scale / global_scale };
    }
    let offset = match weight.offsets {
        Offsets::None => 0.0,
        Offsets::Constant(constant) => constant.into(),
        Offsets::Stored { plus, .. } => f32_at(&parts[2], at) + f32::from(plus),
        Offsets::Negated { .. } => -f32_at(&parts[2], at),
        Offsets::PackedDown { bits, dense } => {
            let per_word = 32 / u64::from(bits);
            let (matrix, inside) = (scale_row / grid.grid_rows, scale_row % grid.grid_rows);
            let (bit, words) = match dense {
                true => (inside * u64::from(bits), (grid.grid_rows * u64::from(bits)).div_ceil(32)),
                false => {
                    let bit = inside / per_word * 32 + inside % per_word * u64::from(bits);
                    (bit, grid.grid_rows.div_ceil(per_word))
                }
            };
            let word = |row: u64| {
                let at = ((matrix * words + row) * grid.grid_cols + group) as usize * 4;
                parts[2].get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
            };
            let pair = u64::from(word(bit / 32)) | u64::from(word(bit / 32 + 1)) << 32;
            ((pair >> (bit % 32)) & ((1 << bits) - 1)) as f32
        }
    };
    match weight.arithmetic.formula {
        Formula::Affine => (value - offset) * scale,
        Formula::Biased => value * scale + offset,
        Formula::Divided => (value - offset) / scale,
    }
}

/// Random codes with padding bits of zero, as in every file.
fn without_spare_bits(weight: &Grouped, codes: &[u8]) -> Vec<u8> {
    let cols = weight.grid.cols;
    let is_used = |at: u64| match weight.layout {
        Layout::Dense { bits, row_bytes } => at % (row_bytes * 8) < cols * u64::from(bits),
        Layout::Words { bits, row_bytes } => {
            let (bits, bit) = (u64::from(bits), at % (row_bytes * 8));
            bit % 32 / bits < 32 / bits && bit / 32 * (32 / bits) + bit % 32 / bits < cols
        }
        Layout::Planes { .. } | Layout::HighNibbles | Layout::RowPairs => true,
    };
    let kept =
        |at: u64, byte: u8| (0..8).filter(|bit| is_used(at * 8 + bit)).fold(0, |kept, bit| kept | byte & 1 << bit);
    (0..).zip(codes).map(|(at, &byte)| kept(at, byte)).collect()
}

/// A tile as the pipeline decodes it.
fn decode(weight: &Grouped, parts: &[Vec<u8>], elements: Range<u64>, level: CpuLevel) -> Vec<u8> {
    let mut parts = parts.to_vec();
    parts[0] = without_spare_bits(weight, &parts[0]);
    let mut windows = Vec::new();
    weight.windows(elements.clone(), &mut windows);
    let inputs: Vec<&[u8]> =
        windows.iter().map(|window| &parts[window.part][window.offset as usize..][..window.bytes() as usize]).collect();
    let mut out = vec![0xEE; (elements.end - elements.start) as usize * 4];
    let mut context = Context::new(level);
    weight.decode(elements, &inputs, TargetDtype::F32, &mut out, &mut context).unwrap();
    out
}

fn layouts(bits: u8, rows: u64, cols: u64) -> Vec<(Layout, u64)> {
    let dense = [Layout::bytes(bits, cols), Layout::words(bits, cols), Layout::padded_words(bits, cols)];
    let planes = [(Unit::Byte, 8), (Unit::Word, 32)].into_iter().flat_map(|(unit, unit_bits)| {
        let stored = rows.div_ceil(unit_bits / u64::from(bits));
        [Order::LowestFirst, Order::HighestFirst]
            .map(move |order| (Layout::Planes { bits, unit, rows: stored, order }, stored * cols * unit_bits / 8))
    });
    let size = |layout: Layout| match layout {
        Layout::Dense { row_bytes, .. } | Layout::Words { row_bytes, .. } => rows * row_bytes,
        Layout::Planes { .. } | Layout::HighNibbles | Layout::RowPairs => 0,
    };
    let nibbles =
        [(Layout::RowPairs, rows.div_ceil(2) * cols), (Layout::HighNibbles, rows * cols.div_ceil(2))].into_iter();
    let nibbles = nibbles.filter(|_| bits == 4);
    dense.map(|layout| (layout, size(layout))).into_iter().chain(planes).chain(nibbles).collect()
}

#[test]
fn every_layout_offset_and_rule_equals_one_element_at_a_time() {
    let seed = 0x5EED;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for round in 0..1500 {
        let bits = 1 + random.below(8) as u8;
        let (stack, rows) = (1 + random.below(3), 1 + random.below(9));
        let cols = [1 + random.below(40), 32 * (1 + random.below(5)), 64][random.below(3) as usize];
        let all_rows = stack * rows;
        let (block_rows, block_cols) = match random.below(5) {
            0 => (1, cols),
            1 => (rows, cols),
            2 => (1, [1, 16, 32, 5][random.below(4) as usize]),
            3 => (1 + random.below(3), 1 + random.below(cols)),
            _ => (1, 32),
        };
        let grid = Grid::new(rows, cols, block_rows, block_cols, Arrangement::Block(block_rows, block_cols));
        let all = layouts(bits, all_rows, cols);
        let (layout, code_bytes) = all[random.below(all.len() as u64) as usize];
        let is_nibbles = bits == 4 && matches!(layout, Layout::Dense { .. } | Layout::HighNibbles | Layout::RowPairs);
        let meaning = match (bits, layout) {
            (8, Layout::Dense { .. }) if random.below(2) == 0 => Meaning::Signed,
            _ if is_nibbles => {
                let all = [
                    Meaning::Unsigned,
                    Meaning::SignedNibble,
                    Meaning::CentredNibble,
                    Meaning::E2m1,
                    Meaning::E2m1NoMinusZero,
                ];
                all[random.below(5) as usize]
            }
            _ => Meaning::Unsigned,
        };
        let is_indexed = grid.block_rows == 1 && meaning == Meaning::Unsigned && random.below(4) == 0;
        let scales = stack * grid.grid_rows * grid.grid_cols;
        let offsets = match random.below(5) {
            0 => Offsets::None,
            1 => Offsets::Constant(random.below(129) as u8),
            2 => Offsets::Stored { kind: ScaleType::F32, plus: random.below(9) as u8 },
            3 => Offsets::Negated { kind: ScaleType::F32 },
            _ => Offsets::PackedDown { bits, dense: random.below(2) == 0 },
        };
        let formula = match is_indexed {
            true => Formula::Affine,
            false => [Formula::Affine, Formula::Biased, Formula::Divided][random.below(3) as usize],
        };
        let op = [ScaleOp::Multiply, ScaleOp::Divide][random.below(2) as usize];
        let global = (random.below(2) == 0).then_some(GlobalScale {
            op,
            per_matrix: random.below(2) == 0,
            step: Step::F32,
            library: Step::F32,
        });
        let weight = Grouped {
            layout,
            meaning,
            grid,
            scales: Scales { kind: ScaleType::F32, global },
            offsets,
            is_indexed,
            arithmetic: Arithmetic { formula, step: Step::F32 },
            description: String::new(),
        };
        let mut parts = vec![random.bytes(code_bytes), random.floats(scales)];
        match offsets {
            Offsets::None | Offsets::Constant(_) => {}
            Offsets::Stored { .. } | Offsets::Negated { .. } => parts.push(random.floats(scales)),
            Offsets::PackedDown { bits, dense } => {
                let (rows, bits) = (grid.grid_rows, u64::from(bits));
                let words = if dense { (rows * bits).div_ceil(32) } else { rows.div_ceil(32 / bits) };
                parts.push(random.bytes(stack * words * grid.grid_cols * 4));
            }
        }
        if global.is_some() {
            parts.push(random.floats(stack));
        }
        if is_indexed {
            parts.push((0..cols).flat_map(|_| (random.below(grid.grid_cols) as u32).to_le_bytes()).collect());
        }
        let total = all_rows * cols;
        let granule = weight.granule();
        for level in CpuLevel::available() {
            let start = random.below(total / granule) * granule;
            for elements in [0..total, start..total, start..start + granule] {
                let found = decode(&weight, &parts, elements.clone(), level);
                for (bytes, element) in found.as_chunks::<4>().0.iter().zip(elements) {
                    let (found, expected) = (f32::from_le_bytes(*bytes), naive(&weight, &parts, element));
                    let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                    assert!(same, "round {round}: element {element} is {found}, not {expected}: {weight:?}");
                }
            }
        }
    }
}

#[test]
fn long_rows_are_cut_where_codes_begin_a_byte_and_not_otherwise() {
    let mut random = Random(7);
    for (bits, cols, block) in
        [(4, 140_000, 32), (3, 140_000, 20), (6, 140_008, 1000), (3, 140_001, 64), (8, 140_001, 7)]
    {
        let nibbles = [Layout::RowPairs, Layout::HighNibbles].into_iter().filter(|_| bits == 4);
        for layout in [Layout::words(bits, cols), Layout::padded_words(bits, cols)].into_iter().chain(nibbles) {
            let grid = Grid::new(3, cols, 1, block, Arrangement::Block(1, block));
            let weight = Grouped {
                layout,
                meaning: Meaning::Unsigned,
                grid,
                scales: Scales { kind: ScaleType::F32, global: None },
                offsets: Offsets::Stored { kind: ScaleType::F32, plus: 0 },
                is_indexed: false,
                arithmetic: Arithmetic::default(),
                description: String::new(),
            };
            let scales = 3 * grid.grid_cols;
            let code_bytes = match layout {
                Layout::Dense { row_bytes, .. } | Layout::Words { row_bytes, .. } => 3 * row_bytes,
                _ => 2 * cols,
            };
            let parts = vec![random.bytes(code_bytes), random.floats(scales), random.floats(scales)];
            let (granule, total) = (weight.granule(), 3 * cols);
            let start = total / 2 / granule * granule;
            for elements in [start..(start + granule).min(total), start..total] {
                let found = decode(&weight, &parts, elements.clone(), CpuLevel::default());
                for (bytes, element) in found.as_chunks::<4>().0.iter().zip(elements) {
                    let expected = naive(&weight, &parts, element);
                    assert_eq!(f32::from_le_bytes(*bytes).to_bits(), expected.to_bits(), "{element} of {weight:?}");
                }
            }
        }
    }
}
