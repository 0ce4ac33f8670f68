//! Packed codes in blocks with a zero point and a scale per block; a code is an index into a map of values.
//!
//! Element `i` is `(map[code] - zeros[i / block]) * scales[i / block]`, rounded to `f32` after the subtraction and again
//! after the multiplication, then rounded to the output. A block of codes of up to four bits has at most 16
//! different words: they are computed once per block and looked up by code. Blocks of half a group are looked up in pairs
//! (`halves`). For other blocks that are not whole groups the map values are looked up and the formula is computed per
//! element.

#![allow(
    clippy::too_many_arguments,
    reason = "slices must be separate arguments, or the compiler loses that they do not overlap"
)]

use crate::base::GROUP;
use crate::base::float::canonical_nan;
use crate::base::level::Level;
use crate::base::output::Output;
use crate::base::packing::{Packing, load, numbers};
use crate::base::simd::{SMALL_TABLE, Simd, Twice};
use crate::decode::extent::{count, zero_of};
use crate::decode::halves::{looked_up_by_half, products_by_half};
use crate::decode::mirror::Mirror;
use crate::decode::operands::canonical_operands;
use crate::decode::rule::{Affine, Arithmetic, Biased, Formula, Rule, Step};

/// Decodes `packed` and rounds into `out`: `(map[code] - zeros[i / block]) * scales[i / block]`.
///
/// Without `zeros` nothing is subtracted. Codes of [`Bytes`](crate::Bytes) and [`SignedBytes`](crate::SignedBytes) are
/// their own values; `map` is not used.
/// Elements past the last block of `scales`, or of `zeros` unless there are none, are not written; a `block` of zero
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
#[must_use = "output past the returned count keeps its old contents"]
pub fn coded_blocks<P: Packing, O: Output>(
    level: Level,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) -> usize {
    let (block, map) = (block.max(1), &map.map(canonical_nan));
    let operands = (zeros, scales, block);
    canonical_operands(level, (packed, P::BITS), operands, (out, O::BYTES), |packed, zeros, scales, out| {
        affine_blocks::<P, O>(level, packed, map, zeros, scales, block, out)
    })
}

/// [`coded_blocks`] with any [`Arithmetic`]; `offsets` are its zero points or biases.
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
#[must_use = "output past the returned count keeps its old contents"]
pub fn ruled_blocks<P: Packing, O: Output>(
    level: Level,
    rule: Arithmetic,
    packed: &[u8],
    map: &[f32; 16],
    offsets: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) -> usize {
    let (block, map) = (block.max(1), &map.map(canonical_nan));
    let operands = (offsets, scales, block);
    canonical_operands(level, (packed, P::BITS), operands, (out, O::BYTES), |packed, offsets, scales, out| match rule {
        Arithmetic { formula: Formula::Affine, step: Step::F32 } => {
            affine_blocks::<P, O>(level, packed, map, offsets, scales, block, out)
        }
        rule if is_by_half::<P>(block) => {
            looked_up_by_half::<P, Arithmetic, O>(level, rule, packed, map, offsets, scales, out)
        }
        rule if !block.is_multiple_of(GROUP) => {
            any_length::<P, Arithmetic, O>(level, rule, packed, map, offsets, scales, block, out)
        }
        Arithmetic { formula: Formula::Biased, step: Step::F32 } => {
            whole_groups::<P, Biased, O>(level, Biased, packed, map, offsets, scales, block, out)
        }
        rule => whole_groups::<P, Arithmetic, O>(level, rule, packed, map, offsets, scales, block, out),
    })
}

/// Whether a group of codes spans two blocks and is looked up in two tables.
const fn is_by_half<P: Packing>(block: usize) -> bool {
    block == GROUP / 2 && P::BITS == 4
}

/// [`coded_blocks`] for operands whose NaNs are canonical.
fn affine_blocks<P: Packing, O: Output>(
    level: Level,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) -> usize {
    if is_by_half::<P>(block) && zeros.is_empty() {
        products_by_half::<P, O>(level, packed, map, Mirror::of(map).as_ref(), scales, out)
    } else if is_by_half::<P>(block) {
        looked_up_by_half::<P, Affine, O>(level, Affine, packed, map, zeros, scales, out)
    } else if block.is_multiple_of(GROUP) {
        whole_groups::<P, Affine, O>(level, Affine, packed, map, zeros, scales, block, out)
    } else {
        any_length::<P, Affine, O>(level, Affine, packed, map, zeros, scales, block, out)
    }
}

fn whole_groups<P: Packing, R: Rule, O: Output>(
    level: Level,
    rule: R,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) -> usize {
    if P::BITS == 8 {
        calculated::<P, R, O>(level, rule, packed, zeros, scales, block, out)
    } else {
        looked_up::<P, R, O>(level, rule, packed, map, zeros, scales, block, out)
    }
}

kernel! {
    fn looked_up<P: Packing, R: Rule>(
        rule: R,
        packed: &[u8],
        map: &[f32; 16],
        zeros: &[f32],
        scales: &[f32],
        block: usize,
    ) -> O in out = tables
}

kernel! {
    fn calculated<P: Packing, R: Rule>(
        rule: R,
        packed: &[u8],
        zeros: &[f32],
        scales: &[f32],
        block: usize,
    ) -> O in out = broadcast
}

kernel! {
    fn any_length<P: Packing, R: Rule>(
        rule: R,
        packed: &[u8],
        map: &[f32; 16],
        zeros: &[f32],
        scales: &[f32],
        block: usize,
    ) -> O in out = spread
}

/// `walk_blocks!(P, O, elements, packed, block, (scale, index) in scales, shared = words of the block, group => words, out)`:
/// writes the words of each group of each block, where blocks are whole groups.
macro_rules! walk_blocks {
    (
        $packing:ident, $output:ident, $elements:expr, $packed:ident, $block:ident, ($scale:ident, $index:ident) in $scales:ident,
        $shared:ident = $setup:expr, $group:ident => $words:expr, $out:ident
    ) => {{
        let all = $elements;
        let whole = all / $block;
        let (packed_bytes, bytes) = ($block / 8 * $packing::BITS, $block.saturating_mul($output::BYTES));
        let (blocks, rest) = $packed.split_at(whole * packed_bytes);
        let (words, tail) = $out.split_at_mut(whole * bytes);
        let pairs = blocks.chunks_exact(packed_bytes).zip(words.chunks_exact_mut(bytes));
        for (($index, $scale), (packed, out)) in $scales.iter().enumerate().zip(pairs) {
            let $shared = $setup;
            let groups = packed.chunks_exact(4 * $packing::BITS);
            for (group, bytes) in groups.zip(out.chunks_exact_mut(GROUP * $output::BYTES)) {
                let $group = &load::<$packing>(group);
                $output::write(&$words, bytes);
            }
        }
        let mut written = whole * bytes;
        let ($index, elements) = (whole, all - whole * $block);
        if let Some($scale) = $scales.get($index)
            && elements > 0
        {
            let $shared = $setup;
            written += walk_packed!($packing, $output, elements, $group in rest => $words, tail);
        }
        written
    }};
}

/// The map, repeated after the last code as the look-ups require.
#[inline(always)]
fn repeated<P: Packing>(map: &[f32; 16]) -> [f32; SMALL_TABLE] {
    let mut repeated = [0.0; SMALL_TABLE];
    for (i, value) in repeated.iter_mut().enumerate() {
        *value = map[i % (1 << P::BITS.min(4))];
    }
    repeated
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
) -> usize {
    let elements = count::<P, O>(packed, zeros, scales, block, out);
    let map = repeated::<P>(map);
    walk_blocks!(P, O, elements, packed, block, (scale, index) in scales, table = {
        let numbers = rule.numbers(simd, &map, &[zero_of(zeros, index); SMALL_TABLE], &[*scale; SMALL_TABLE]);
        O::round_sixteen::<S, Twice>(simd, &numbers)
    }, group => O::look_up_packed::<S, P>(simd, &table, group), out)
}

/// Computes the formula with one zero point and scale per group.
#[inline(always)]
fn broadcast<S: Simd, P: Packing, R: Rule, O: Output>(
    simd: S,
    rule: R,
    packed: &[u8],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) -> usize {
    let elements = count::<P, O>(packed, zeros, scales, block, out);
    walk_blocks!(P, O, elements, packed, block, (scale, index) in scales, shared = {
        (zero_of(zeros, index), *scale)
    }, group => {
        let codes = numbers::<S, P>(simd, group);
        O::round_products(simd, &rule.numbers(simd, &codes, &[shared.0; GROUP], &[shared.1; GROUP]))
    }, out)
}

/// Computes the formula with a zero point and a scale per element.
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
) -> usize {
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
        O::round_products(simd, &rule.numbers(simd, &values, &zeros, &scales))
    }, out)
}

/// Zero points and scales, repeated for each element of their blocks.
struct Blocks<'a> {
    zeros: &'a [f32],
    scales: &'a [f32],
    block: usize,
    index: usize,
    /// Remaining elements of the block at `index`.
    left: usize,
}

/// The operands of a group, with room for the excess of its last block. Aligned to a cache line: stores across two lines
/// halve the speed, and the stack aligns arrays to 16 bytes only.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Operands([f32; 2 * GROUP]);

impl Blocks<'_> {
    /// The zero points and scales of the next group of elements.
    #[inline(always)]
    fn next_group(&mut self) -> ([f32; GROUP], [f32; GROUP]) {
        // Each block fills a whole group, whatever its length; the next block overwrites the excess.
        let (mut zeros, mut scales) = (Operands([0.0; 2 * GROUP]), Operands([0.0; 2 * GROUP]));
        let mut filled = 0;
        while filled < GROUP {
            zeros.0[filled..filled + GROUP].fill(zero_of(self.zeros, self.index));
            scales.0[filled..filled + GROUP].fill(self.scales.get(self.index).copied().unwrap_or(0.0));
            let end = GROUP.min(filled.saturating_add(self.left));
            self.left -= end - filled;
            filled = end;
            if self.left == 0 {
                self.index += 1;
                self.left = self.block;
            }
        }
        (zeros.0.as_chunks().0[0], scales.0.as_chunks().0[0])
    }
}
