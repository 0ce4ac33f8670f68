//! Every CPU level gives the same bits and writes as many entries, for any input. An input selects a kernel, its parameters
//! and a level, and the rest is data.

use anamnesis_kernels::chosen::{self, BlockKernels, Float8, Packed, Rounded, Values, blocks};
use anamnesis_kernels::{
    Arithmetic, Codebook, Factor, Formula, Goal, Level, Ratio, Scaling, Step, Steps, TILE_SIDE, TrellisCodebook,
    block_range, canonical_nans, decode_trellis, group_codes, half_times, nested_scales, pack_bits, products,
    spread_bits, spread_plane, spread_words, transpose_awq, transpose_words, untile_marlin, widen_bf16, widen_f16,
};

use crate::input::Input;

/// Bytes of an output that no kernel writes.
const PAINT: u8 = 0xA5;
/// Room for every output of bytes: two blocks of 256 values.
const ROOM: usize = 2048;
/// Room for every output of floats.
const FLOAT_ROOM: usize = 256;
const ROUNDED: [Rounded; 3] = [Rounded::Bf16, Rounded::F16, Rounded::F32];
const FLOATS: [Float8; 5] = [Float8::E4m3, Float8::E5m2, Float8::E4m3Fnuz, Float8::E5m2Fnuz, Float8::E8m0];
const PACKED: [Packed; 6] =
    [Packed::Bits2, Packed::Bits3, Packed::LowNibbles, Packed::HighNibbles, Packed::Bytes, Packed::SignedBytes];
const STEPS: [Step; 3] = [Step::F32, Step::Bf16, Step::F16];

/// All block types of ggml.
pub(crate) const BLOCKS: [&BlockKernels; 27] = [
    &blocks::Q4_0,
    &blocks::Q4_1,
    &blocks::Q5_0,
    &blocks::Q5_1,
    &blocks::Q8_0,
    &blocks::Q8_1,
    &blocks::Q2_K,
    &blocks::Q3_K,
    &blocks::Q4_K,
    &blocks::Q5_K,
    &blocks::Q6_K,
    &blocks::Q8_K,
    &blocks::IQ2_XXS,
    &blocks::IQ2_XS,
    &blocks::IQ3_XXS,
    &blocks::IQ1_S,
    &blocks::IQ4_NL,
    &blocks::IQ3_S,
    &blocks::IQ2_S,
    &blocks::IQ4_XS,
    &blocks::IQ1_M,
    &blocks::TQ1_0,
    &blocks::TQ2_0,
    &blocks::MXFP4,
    &blocks::NVFP4,
    &blocks::Q1_0,
    &blocks::Q2_0,
];

/// A level other than the portable one, where this CPU has one.
fn level(choice: u8) -> Level {
    let levels = Level::available().count();
    let chosen = 1 + usize::from(choice) % levels.saturating_sub(1).max(1);
    Level::available().nth(chosen).unwrap_or(Level::portable())
}

/// Runs a kernel that writes bytes at the portable level and at another one and compares the outputs.
fn same_bytes(other: Level, kernel: impl Fn(Level, &mut [u8]) -> usize) {
    let (mut first, mut second) = ([PAINT; ROOM], [PAINT; ROOM]);
    let counts = (kernel(Level::portable(), &mut first), kernel(other, &mut second));
    assert_eq!(counts.0, counts.1, "bytes written at {other}");
    assert!(counts.0 <= ROOM);
    assert!(
        first == second,
        "other bytes at {other}, from {:?} on",
        first.iter().zip(&second).position(|(a, b)| a != b)
    );
}

/// [`same_bytes`] of a kernel that writes floats.
fn same_floats(other: Level, kernel: impl Fn(Level, &mut [f32]) -> usize) {
    let (mut first, mut second) = ([0.5f32; FLOAT_ROOM], [0.5f32; FLOAT_ROOM]);
    let counts = (kernel(Level::portable(), &mut first), kernel(other, &mut second));
    assert_eq!(counts.0, counts.1, "floats written at {other}");
    assert!(counts.0 <= FLOAT_ROOM);
    for (index, (first, second)) in first.iter().zip(&second).enumerate() {
        assert_eq!(first.to_bits(), second.to_bits(), "float {index} at {other}");
    }
}

/// Eight-bit floats under scales.
pub fn float8(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (level, float, to) = (level(input.byte()), input.one(&FLOATS), input.one(&ROUNDED));
    let (kernel, run, cols) = (input.below(4), input.below(70), input.below(140));
    let (mut scales, mut second) = ([0.0; 8], [0.0; 1]);
    let count = 1 + input.below(8);
    let count = input.floats(&mut scales, count);
    let scales = &scales[..count];
    let scale = scales.first().copied().unwrap_or(1.0);
    input.floats(&mut second, 1);
    let codes = &input.0[..input.0.len().min(256)];
    same_bytes(level, |level, out| match kernel {
        0 => chosen::scaled(level, float, to, codes, scale, out),
        1 => chosen::scaled_runs(level, float, to, codes, scales, run.max(1), out),
        2 => chosen::scaled_block_rows(level, float, to, codes, scales, run.max(1), cols.max(1), out),
        _ => chosen::scaled_twice(level, to, codes, scale, second[0], out),
    });
}

/// Packed integer codes under scales and zero points.
pub fn codes(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (level, packing, to) = (level(input.byte()), input.one(&PACKED), input.one(&ROUNDED));
    let (kernel, block, rule) = (input.below(7), input.below(70), input.byte());
    let formula = [Formula::Affine, Formula::Biased, Formula::Divided][usize::from(rule) % 3];
    let arithmetic = Arithmetic { formula, step: STEPS[usize::from(rule / 3) % 3] };
    let (mut map, mut scales, mut zeros) = ([0.0; 16], [0.0; 16], [0.0; 16]);
    for (code, value) in map.iter_mut().enumerate() {
        *value = code as f32 - 8.0 * f32::from(rule & 1);
    }
    let counts = input.byte();
    let scale_count = input.floats(&mut scales, usize::from(counts & 15) + 1);
    let zero_count = input.floats(&mut zeros, usize::from(counts >> 4));
    // Operands with other NaNs are the caller's to change.
    let _ = canonical_nans(Level::portable(), &mut scales);
    let _ = canonical_nans(Level::portable(), &mut zeros);
    let (scales, zeros) = (&scales[..scale_count], &zeros[..zero_count]);
    let packed = &input.0[..input.0.len().min(128)];
    let mut groups = [0; 64];
    for (group, byte) in groups.iter_mut().zip(packed) {
        *group = u32::from(*byte) % 20;
    }
    // One operand per element.
    let each = |few: &[f32]| {
        std::array::from_fn::<f32, 64, _>(|index| few.get(index % few.len().max(1)).copied().unwrap_or(1.0))
    };
    let (every_zero, every_scale) = (each(zeros), each(scales));
    same_bytes(level, |level, out| match kernel {
        0 => chosen::coded_blocks(level, packing, to, packed, &map, zeros, scales, block, out),
        1 => chosen::ruled_blocks(level, arithmetic, packing, to, packed, &map, zeros, scales, block, out),
        2 => chosen::high_nibbles(level, to, packed, &map, scales, block, out),
        3 => chosen::coded_indexed(level, packing, to, packed, &groups, zeros, scales, out),
        4 => chosen::affine_codes(level, packing, to, packed, &every_zero, &every_scale, out),
        5 => chosen::awq_codes(level, to, packed, &every_zero, &every_scale, out),
        _ => {
            let (shift, bits) = (u32::from(rule) % 34, u32::from(rule / 34) + 1);
            chosen::affine_fields(level, to, packed, shift, bits, &every_zero, &every_scale, out)
        }
    });
}

/// The blocks of ggml, decoded.
pub fn blocks(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (level, block, to) = (level(input.byte()), input.one(&BLOCKS), input.one(&ROUNDED));
    let factor = input.float();
    // Two blocks at most.
    let data = &input.0[..input.0.len().min(2 * block.bytes)];
    same_bytes(level, |level, out| match factor.is_normal() && block.name == blocks::NVFP4.name {
        true => chosen::nvfp4_times(level, to, data, factor, out),
        false => (block.decode)(level, to, data, out),
    });
}

/// Casts, and codes that change their places.
pub fn layouts(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (level, kernel, to) = (level(input.byte()), input.below(15), input.one(&ROUNDED));
    let (rows, cols, bits) = (input.below(20), input.below(20), input.byte());
    let data = &input.0[..input.0.len().min(512)];
    let mut floats = [0.0; 64];
    let count = Input(data).floats(&mut floats, 64);
    let floats = &floats[..count];
    match kernel {
        0 => same_bytes(level, |level, out| chosen::round_slice(level, to, floats, out)),
        1 => same_bytes(level, |level, out| chosen::narrow_e4m3(level, floats, out)),
        2 => same_floats(level, |level, out| chosen::widen_e4m3(level, data, out)),
        3 => same_floats(level, |level, out| widen_bf16(level, data, out)),
        4 => same_floats(level, |level, out| widen_f16(level, data, out)),
        5 => same_floats(level, |level, out| chosen::unpack_codes(level, PACKED[rows % 6], data, out)),
        6 => same_floats(level, |level, out| chosen::unpack_awq(level, data, out)),
        7 => same_bytes(level, |level, out| {
            chosen::transpose_columns(level, to, data, rows, cols, out, rows + usize::from(bits % 4), bits.into())
        }),
        8 => same_bytes(level, |level, out| transpose_words(level, data, rows, cols, out)),
        9 => same_bytes(level, |level, out| transpose_awq(level, data, rows, cols, out)),
        10 => same_bytes(level, |level, out| untile_marlin(level, data, rows, cols, out, 8 * rows + usize::from(bits))),
        11 => same_bytes(level, |level, out| spread_bits(level, data, bits % 10, out)),
        12 => same_bytes(level, |level, out| spread_words(level, data, bits % 10, out)),
        13 => same_bytes(level, |level, out| spread_plane::<1>(level, data, rows as u32, bits, out)),
        _ => same_bytes(level, |level, out| spread_plane::<4>(level, data, rows as u32, bits, out)),
    }
    // Codes survive packing.
    let width = bits % 8 + 1;
    let codes: [u8; 64] = std::array::from_fn(|index| data.get(index).map_or(0, |code| code & (0xFF >> (8 - width))));
    let (mut packed, mut back) = ([0; 64], [0; 64]);
    let written = pack_bits(level, &codes, width, &mut packed);
    assert_eq!(written, 8 * usize::from(width), "64 codes of {width} bits");
    assert_eq!(spread_bits(level, &packed[..written], width, &mut back), 64);
    assert_eq!(codes, back, "codes of {width} bits");
}

/// Sums and products of floats, where the order of additions matters, and the trellis of EXL3.
pub fn sums(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (level, kernel, inner, cols) = (level(input.byte()), input.below(4), input.below(9), input.below(9));
    if kernel == 3 {
        let codebook = input.one(&[TrellisCodebook::ThreeInstructions, TrellisCodebook::Mcg, TrellisCodebook::Mul1]);
        let mut out = [f32::NAN; TILE_SIDE * TILE_SIDE];
        let written = decode_trellis(codebook, inner + cols, input.0, &mut out, TILE_SIDE);
        assert!(written == 0 || written == out.len() && out.iter().all(|value| value.is_finite()));
        return;
    }
    let (mut left, mut right) = ([0.0; 64], [0.0; 64]);
    let (first, second) = (input.floats(&mut left, 64), input.floats(&mut right, 64));
    let (left, right) = (&mut left[..first], &mut right[..second]);
    let _ = canonical_nans(Level::portable(), left);
    let _ = canonical_nans(Level::portable(), right);
    let (left, right) = (&*left, &*right);
    match kernel {
        0 => same_floats(level, |level, out| products(level, left, inner, right, cols, out)),
        1 => same_floats(level, |level, out| {
            let count = left.len().min(out.len());
            out[..count].copy_from_slice(&left[..count]);
            half_times(level, right, &mut out[..count])
        }),
        _ => {
            let map = std::array::from_fn(|code| code as f32 / 127.0 - 1.0);
            let offset = right.last().copied().unwrap_or_default();
            same_floats(level, |level, out| nested_scales(level, input.0, &map, left, inner, offset, out));
        }
    }
}

/// Values to codes under scales.
pub fn encoders(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (level, kernel, block, choice) = (level(input.byte()), input.below(6), input.below(70), input.byte());
    let (mut scales, mut values) = ([0.0; 8], [0.0; 64]);
    let count = 1 + input.below(8);
    let count = input.floats(&mut scales, count);
    let scales = &scales[..count];
    let stored = &input.0[..input.0.len().min(256)];
    let count = input.floats(&mut values, 64);
    let values = &values[..count];
    let halves = stored.as_chunks::<2>().0;
    let taken = match choice % 3 {
        0 => Values::Bf16(halves),
        1 => Values::F16(halves),
        _ => Values::F32(values),
    };
    let step = STEPS[usize::from(choice) % 3];
    match kernel {
        0 => same_floats(level, |level, out| chosen::block_largest(level, taken, block, out)),
        1 => same_floats(level, |level, out| chosen::block_largest_number(level, taken, block, out)),
        2 => {
            let entries = std::array::from_fn(|code| values.get(code).copied().unwrap_or(code as f32));
            let codebook = Codebook::nearest(entries);
            let scaling = if choice > 127 { Scaling::Divide } else { Scaling::Multiply };
            same_bytes(level, |level, out| chosen::nearest_codes(level, taken, &codebook, scales, block, scaling, out));
        }
        3 => {
            let steps = if choice > 127 { Steps::Divide } else { Steps::Multiply };
            same_bytes(level, |level, out| chosen::row_codes(level, taken, scales, block, steps, out));
        }
        4 => {
            let goal = goal(choice, step);
            same_bytes(level, |level, out| group_codes(level, goal, values, block, scales, scales, out));
        }
        _ => same_floats(level, |level, out| {
            let (lows, highs) = out.split_at_mut(128);
            block_range(level, values, block, lows, highs)
        }),
    }
}

/// The type of codes, and the arithmetic.
fn goal(choice: u8, step: Step) -> Goal {
    let factor = [Factor::Divided(step), Factor::Times, Factor::TimesRounded(step)][usize::from(choice / 3) % 3];
    let ratio = [
        Ratio::Quotient(step),
        Ratio::QuotientAway,
        Ratio::QuotientPlus(step),
        Ratio::ProductPlus,
        Ratio::Difference,
        Ratio::RoundedPlusF16,
        Ratio::RoundedPlusF32,
    ][usize::from(choice / 9) % 7];
    match choice % 10 {
        0 => Goal::E4m3(factor),
        1 => Goal::E5m2(factor),
        2 => Goal::E2m1,
        3 => Goal::E2m1KeepsZero,
        4 => Goal::E2m1TiesToZero,
        5 => Goal::E2m1SignedZero,
        6 => Goal::Integer { ratio, low: -128, high: 127, plus: 0 },
        7 => Goal::Integer { ratio, low: 0, high: 15, plus: 0 },
        _ => Goal::Integer { ratio, low: -8, high: 7, plus: 8 },
    }
}

/// The encoders of ggml: each fills its blocks with the same bytes at every level, and these are decoded to floats.
pub fn block_encoders(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (level, block, importance) = (level(input.byte()), input.one(&BLOCKS), input.byte());
    let Some(encode) = block.encode else { return };
    let mut values = [0.0; 256];
    // Finite values: others are refused before a kernel runs. Short inputs are repeated.
    let taken = input.0.as_chunks::<2>().0;
    for (index, value) in values.iter_mut().enumerate() {
        let bits = taken.get(index % taken.len().max(1)).map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let found = f32::from_bits(u32::from(bits) << 16);
        *value = if found.is_finite() { found } else { 0.0 };
    }
    let weights: [f32; 256] = std::array::from_fn(|column| 1.0 + f32::from(importance) * (column % 7) as f32);
    let weights = (importance > 0 || NEEDS_IMPORTANCE.contains(&block.name)).then_some(&weights[..]);
    let rows = &values[..block.elements.clamp(32, 256)];
    let rows = &rows[..rows.len() / block.elements * block.elements];
    let expected = rows.len() / block.elements * block.bytes;
    let weights = weights.map(|weights| &weights[..rows.len()]);
    same_bytes(level, |level, out| {
        let written = encode(level, rows, rows.len(), weights, &mut out[..expected]);
        assert_eq!(written, expected, "{}", block.name);
        written
    });
    let (mut stored, mut decoded) = ([0; 512], [0; 1024]);
    let _ = encode(level, rows, rows.len(), weights, &mut stored[..expected]);
    let written = (block.decode)(level, Rounded::F32, &stored[..expected], &mut decoded);
    assert_eq!(written, 4 * rows.len(), "{}", block.name);
}

/// Types that ggml encodes only with an importance of the columns.
const NEEDS_IMPORTANCE: [&str; 4] = ["IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"];
