//! Codes of a few bits in blocks that share a zero point and a scale, each code standing for an entry of a map.
//!
//! Element `i` is `(map[code] - zeros[i / block]) * scales[i / block]`, rounded to `f32` after the subtraction and again
//! after the multiplication, then rounded to the output. Inside one block of codes of up to four bits there are at most
//! 16 different words: they are calculated once, and the codes only looked up. Blocks of half a group are looked up in
//! pairs. Other blocks that are not whole groups take their map values from a table and are calculated element by element.

#![allow(
    clippy::too_many_arguments,
    reason = "slices must be arguments of their own, or the compiler cannot tell them apart"
)]

use crate::base::GROUP;
use crate::base::level::Level;
use crate::base::output::Output;
use crate::base::packing::{Packing, numbers};
use crate::base::simd::{SMALL_TABLE, Simd};
use crate::decode::rule::{Affine, Arithmetic, Formula, Rule, Step};
use crate::decode::scaled::tame;

/// Decodes `packed` and rounds into `out`: `(map[code] - zeros[i / block]) * scales[i / block]`.
///
/// Without `zeros` nothing is subtracted. For codes of [`Bytes`](crate::Bytes) and [`SignedBytes`](crate::SignedBytes) the code itself stands for `map[code]`.
/// Elements past the last block of `scales`, or of `zeros` unless there are none, are left alone; a `block` of zero
/// counts as one.
///
/// ```
/// use anamnesis_kernels::{F32, HighNibbles, Level, coded_blocks};
///
/// let map = std::array::from_fn(|code| code as f32 / 4.0);
/// let mut out = [0; 8];
/// coded_blocks::<HighNibbles, F32>(Level::detect(), &[0x12], &map, &[], &[2.0], 64, &mut out);
/// assert_eq!(out, [[0, 0, 0, 0x3F], [0, 0, 0x80, 0x3F]].concat()[..]); // 0.5 and 1.0
/// ```
pub fn coded_blocks<P: Packing, O: Output>(
    level: Level,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    ruled::<P, Affine, O>(level, Affine, packed, map, zeros, scales, block, out);
}

/// [`coded_blocks`] by any [`Arithmetic`]: the zero points are its offsets.
///
/// ```
/// use anamnesis_kernels::{Arithmetic, F32, Formula, Level, LowNibbles, Step, ruled_blocks};
///
/// let map = std::array::from_fn(|code| code as f32);
/// let biased = Arithmetic { formula: Formula::Biased, step: Step::F32 };
/// let mut out = [0; 8];
/// ruled_blocks::<LowNibbles, F32>(Level::detect(), biased, &[0x21], &map, &[0.5], &[0.25], 64, &mut out);
/// assert_eq!(out, [[0, 0, 0x40, 0x3F], [0, 0, 0x80, 0x3F]].concat()[..]); // 0.75 and 1.0
/// ```
pub fn ruled_blocks<P: Packing, O: Output>(
    level: Level,
    rule: Arithmetic,
    packed: &[u8],
    map: &[f32; 16],
    offsets: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    match rule {
        Arithmetic { formula: Formula::Affine, step: Step::F32 } => {
            coded_blocks::<P, O>(level, packed, map, offsets, scales, block, out);
        }
        rule => ruled::<P, Arithmetic, O>(level, rule, packed, map, offsets, scales, block, out),
    }
}

fn ruled<P: Packing, R: Rule, O: Output>(
    level: Level,
    rule: R,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    let block = block.max(1);
    if block == GROUP / 2 && P::BITS == 4 {
        looked_up_by_half::<P, R, O>(level, rule, packed, map, zeros, scales, out);
    } else if !block.is_multiple_of(GROUP) {
        any_length::<P, R, O>(level, rule, packed, map, zeros, scales, block, out);
    } else if P::BITS == 8 {
        calculated::<P, R, O>(level, rule, packed, zeros, scales, block, out);
    } else {
        looked_up::<P, R, O>(level, rule, packed, map, zeros, scales, block, out);
    }
}

kernel! {
    fn looked_up<P: Packing, R: Rule, O: Output>(
        rule: R,
        packed: &[u8],
        map: &[f32; 16],
        zeros: &[f32],
        scales: &[f32],
        block: usize,
        out: &mut [u8],
    ) = tables
}

kernel! {
    fn looked_up_by_half<P: Packing, R: Rule, O: Output>(
        rule: R,
        packed: &[u8],
        map: &[f32; 16],
        zeros: &[f32],
        scales: &[f32],
        out: &mut [u8],
    ) = half_tables
}

kernel! {
    fn calculated<P: Packing, R: Rule, O: Output>(
        rule: R,
        packed: &[u8],
        zeros: &[f32],
        scales: &[f32],
        block: usize,
        out: &mut [u8],
    ) = broadcast
}

kernel! {
    fn any_length<P: Packing, R: Rule, O: Output>(
        rule: R,
        packed: &[u8],
        map: &[f32; 16],
        zeros: &[f32],
        scales: &[f32],
        block: usize,
        out: &mut [u8],
    ) = spread
}

/// How many elements all of the slices hold.
#[inline(always)]
fn count<P: Packing, O: Output>(packed: &[u8], zeros: &[f32], scales: &[f32], block: usize, out: &[u8]) -> usize {
    let blocks = if zeros.is_empty() { scales.len() } else { scales.len().min(zeros.len()) };
    P::codes_in(packed.len()).min(out.len() / O::BYTES).min(blocks.saturating_mul(block))
}

/// The map as the look-ups want it: repeated after the last code.
#[inline(always)]
fn repeated<P: Packing>(map: &[f32; 16]) -> [f32; SMALL_TABLE] {
    let mut repeated = [0.0; SMALL_TABLE];
    for (i, value) in repeated.iter_mut().enumerate() {
        *value = map[i % (1 << P::BITS.min(4))];
    }
    repeated
}

/// The zero point of a block. Subtracting +0 changes no bit, not even those of −0.
#[inline(always)]
fn zero_of(zeros: &[f32], block: usize) -> f32 {
    zeros.get(block).copied().unwrap_or(0.0)
}

/// The finished words of all codes of a block.
#[inline(always)]
fn block_words<S: Simd, R: Rule, O: Output>(
    simd: S,
    rule: R,
    map: &[f32; SMALL_TABLE],
    zero: f32,
    scale: f32,
) -> [O::Word; SMALL_TABLE] {
    let rounded = O::round_group(simd, &rule.table(simd, map, zero, scale));
    let mut words = [O::Word::default(); SMALL_TABLE];
    words.copy_from_slice(&rounded[..SMALL_TABLE]);
    words
}

/// Looks codes up in the table of their block.
#[inline(always)]
fn tables<S: Simd, P: Packing, R: Rule, O: Output>(
    simd: S,
    rule: R,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    let elements = count::<P, O>(packed, zeros, scales, block, out);
    let map = repeated::<P>(map);
    let whole = elements / block;
    let (blocks, rest) = packed.split_at(whole * (block / 8 * P::BITS));
    let (words, tail) = out.split_at_mut(whole * block.saturating_mul(O::BYTES));
    let pairs = blocks.chunks_exact(block / 8 * P::BITS).zip(words.chunks_exact_mut(block.saturating_mul(O::BYTES)));
    for ((index, scale), (packed, out)) in scales.iter().enumerate().zip(pairs) {
        let table = block_words::<S, R, O>(simd, rule, &map, zero_of(zeros, index), *scale);
        let groups = packed.chunks_exact(4 * P::BITS);
        for (group, bytes) in groups.zip(out.chunks_exact_mut(GROUP * O::BYTES)) {
            let group = crate::base::packing::load::<P>(group);
            O::write(&O::look_up_packed::<S, P>(simd, &table, &group), bytes);
        }
    }
    if let Some(scale) = scales.get(whole) {
        let table = block_words::<S, R, O>(simd, rule, &map, zero_of(zeros, whole), *scale);
        let elements = elements - whole * block;
        walk_packed!(P, O, elements, group in rest => O::look_up_packed::<S, P>(simd, &table, group), tail);
    }
}

/// Looks codes up in tables of which a group has two.
#[inline(always)]
fn half_tables<S: Simd, P: Packing, R: Rule, O: Output>(
    simd: S,
    rule: R,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    out: &mut [u8],
) {
    let elements = count::<P, O>(packed, zeros, scales, GROUP / 2, out);
    let whole = elements / GROUP;
    let (groups, rest) = packed.split_at(whole * (GROUP / 2));
    let (words, tail) = out.split_at_mut(whole * GROUP * O::BYTES);
    let pairs = groups.as_chunks::<{ GROUP / 2 }>().0.iter().zip(words.chunks_exact_mut(GROUP * O::BYTES));
    for ((index, scales), (group, bytes)) in scales.as_chunks::<2>().0.iter().enumerate().zip(pairs) {
        let zeros = [zero_of(zeros, 2 * index), zero_of(zeros, 2 * index + 1)];
        let tables = two_tables::<S, R, O>(simd, rule, map, zeros, *scales);
        let group = crate::base::packing::load::<P>(group);
        O::write(&O::look_up_by_half::<S, P>(simd, &tables, &group), bytes);
    }
    if let Some(&first) = scales.get(2 * whole) {
        let scales = [first, scales.get(2 * whole + 1).copied().unwrap_or(0.0)];
        let zeros = [zero_of(zeros, 2 * whole), zero_of(zeros, 2 * whole + 1)];
        let tables = two_tables::<S, R, O>(simd, rule, map, zeros, scales);
        let elements = elements - whole * GROUP;
        walk_packed!(P, O, elements, group in rest => O::look_up_by_half::<S, P>(simd, &tables, group), tail);
    }
}

/// The finished words of all codes of two blocks.
#[inline(always)]
fn two_tables<S: Simd, R: Rule, O: Output>(
    simd: S,
    rule: R,
    map: &[f32; 16],
    zeros: [f32; 2],
    scales: [f32; 2],
) -> [O::Word; GROUP] {
    let (mut values, mut of_zeros, mut of_scales) = ([0.0; GROUP], [0.0; GROUP], [0.0; GROUP]);
    for half in 0..2 {
        for (code, value) in map.iter().enumerate() {
            let at = half * SMALL_TABLE + code;
            (values[at], of_zeros[at], of_scales[at]) = (*value, zeros[half], scales[half]);
        }
    }
    O::round_group(simd, &rule.group(simd, &values, &of_zeros, &of_scales))
}

/// Calculates with one zero point and scale per group.
#[inline(always)]
fn broadcast<S: Simd, P: Packing, R: Rule, O: Output>(
    simd: S,
    rule: R,
    packed: &[u8],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    let elements = count::<P, O>(packed, zeros, scales, block, out);
    let bytes = block / 8 * P::BITS;
    let mut left = elements;
    for ((index, scale), (packed, out)) in
        scales.iter().enumerate().zip(packed.chunks(bytes).zip(out.chunks_mut(block.saturating_mul(O::BYTES))))
    {
        let (zero, scale) = (tame(zero_of(zeros, index)), tame(*scale));
        let elements = left.min(block);
        left -= elements;
        walk_packed!(P, O, elements, group in packed => {
            let codes = numbers::<S, P>(simd, group);
            O::round_products(simd, &rule.group(simd, &codes, &[zero; GROUP], &[scale; GROUP]))
        }, out);
    }
}

/// Calculates each element with its own zero point and scale.
#[inline(always)]
fn spread<S: Simd, P: Packing, R: Rule, O: Output>(
    simd: S,
    rule: R,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    let elements = count::<P, O>(packed, zeros, scales, block, out);
    let mut table = [0; SMALL_TABLE];
    for (word, value) in table.iter_mut().zip(repeated::<P>(map)) {
        *word = value.to_bits();
    }
    let mut blocks = Blocks { zeros, scales, block, index: 0, left: block };
    walk_packed!(P, O, elements, group in packed => {
        let (zeros, scales) = blocks.next_group();
        let values = if P::BITS == 8 {
            numbers::<S, P>(simd, group)
        } else {
            map!(word in simd.values::<P>(&table, group) => f32::from_bits(word))
        };
        O::round_group(simd, &rule.group(simd, &values, &zeros, &scales))
    }, out);
}

/// Zero points and scales, spread over the elements of their blocks.
struct Blocks<'a> {
    zeros: &'a [f32],
    scales: &'a [f32],
    block: usize,
    index: usize,
    /// Elements left of the block at `index`.
    left: usize,
}

impl Blocks<'_> {
    #[inline(always)]
    fn next_group(&mut self) -> ([f32; GROUP], [f32; GROUP]) {
        let (mut zeros, mut scales) = ([0.0; GROUP], [0.0; GROUP]);
        let mut filled = 0;
        while filled < GROUP {
            let end = GROUP.min(filled.saturating_add(self.left));
            zeros[filled..end].fill(zero_of(self.zeros, self.index));
            scales[filled..end].fill(self.scales.get(self.index).copied().unwrap_or(0.0));
            self.left -= end - filled;
            filled = end;
            if self.left == 0 {
                self.index += 1;
                self.left = self.block;
            }
        }
        (zeros, scales)
    }
}
