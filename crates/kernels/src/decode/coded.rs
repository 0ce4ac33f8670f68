//! Codes of a few bits in blocks that share a zero point and a scale, each code standing for an entry of a map.
//!
//! Element `i` is `(map[code] - zeros[i / block]) * scales[i / block]`, rounded to `f32` after the subtraction and again
//! after the multiplication, then rounded to the output; or what another [rule](crate::base::rule) makes of them. How:
//!
//! | codes | blocks | |
//! |---|---|---|
//! | up to four bits | whole groups, or half of one | there are 16 different words in a block: they are finished for many blocks in advance, and the codes only looked up |
//! | more | whole groups | calculated with one zero point and scale |
//! | any | others | calculated with a zero point and a scale for each element |

#![allow(
    clippy::too_many_arguments,
    reason = "slices must be arguments of their own, or the compiler cannot tell them apart"
)]

use crate::base::GROUP;
use crate::base::level::Level;
use crate::base::output::Output;
use crate::base::packing::{Places, Stream};
use crate::base::rule::Arithmetic;
use crate::base::simd::{SMALL_TABLE, Simd};
use crate::decode::scaled::tame;

/// Blocks whose words are finished at a time: at most 2 KiB of the first-level cache. An even number.
const TABLES: usize = 32;

/// Decodes `packed` and rounds into `out`: `(map[code] - zeros[i / block]) * scales[i / block]`.
///
/// Without `zeros` nothing is subtracted. Codes of five bits and more stand for themselves instead of `map[code]`.
/// Elements past the last block of `scales`, or of `zeros` unless there are none, are left alone; a `block` of zero
/// counts as one.
///
/// ```
/// use anamnesis_kernels::{F32, HighNibbles, Level, Packing, coded_blocks};
///
/// let map = std::array::from_fn(|code| code as f32 / 4.0);
/// let mut out = [0; 8];
/// coded_blocks::<F32>(Level::detect(), HighNibbles::PLACES, &[0x12], &map, &[], &[2.0], 64, &mut out);
/// assert_eq!(out, [[0, 0, 0, 0x3F], [0, 0, 0x80, 0x3F]].concat()[..]); // 0.5 and 1.0
/// ```
pub fn coded_blocks<O: Output>(
    level: Level,
    places: &Places,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    ruled_blocks::<O>(level, Arithmetic::default(), places, packed, map, zeros, scales, block, out);
}

/// [`coded_blocks`] by any [`Arithmetic`]: the zero points are its offsets.
///
/// ```
/// use anamnesis_kernels::{Arithmetic, F32, Formula, Level, LowNibbles, Packing, Step, ruled_blocks};
///
/// let map = std::array::from_fn(|code| code as f32);
/// let biased = Arithmetic { formula: Formula::Biased, step: Step::F32 };
/// let (places, mut out) = (LowNibbles::PLACES, [0; 8]);
/// ruled_blocks::<F32>(Level::detect(), biased, places, &[0x21], &map, &[0.5], &[0.25], 64, &mut out);
/// assert_eq!(out, [[0, 0, 0x40, 0x3F], [0, 0, 0x80, 0x3F]].concat()[..]); // 0.75 and 1.0
/// ```
pub fn ruled_blocks<O: Output>(
    level: Level,
    rule: Arithmetic,
    places: &Places,
    packed: &[u8],
    map: &[f32; 16],
    offsets: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    let block = block.max(1);
    let has_tables = places.bits <= 4;
    if has_tables && (block.is_multiple_of(GROUP) || block == GROUP / 2) {
        looked_up::<O>(level, rule, places, packed, map, offsets, scales, block, out);
    } else if !has_tables && block.is_multiple_of(GROUP) {
        calculated::<O>(level, rule, places, packed, offsets, scales, block, out);
    } else {
        any_length::<O>(level, rule, places, packed, map, offsets, scales, block, out);
    }
}

kernel! {
    fn looked_up<O: Output>(
        rule: Arithmetic,
        places: &Places,
        packed: &[u8],
        map: &[f32; 16],
        zeros: &[f32],
        scales: &[f32],
        block: usize,
        out: &mut [u8],
    ) = tables
}

kernel! {
    fn calculated<O: Output>(
        rule: Arithmetic,
        places: &Places,
        packed: &[u8],
        zeros: &[f32],
        scales: &[f32],
        block: usize,
        out: &mut [u8],
    ) = broadcast
}

kernel! {
    fn any_length<O: Output>(
        rule: Arithmetic,
        places: &Places,
        packed: &[u8],
        map: &[f32; 16],
        zeros: &[f32],
        scales: &[f32],
        block: usize,
        out: &mut [u8],
    ) = spread
}

/// The bytes of as many elements as all of the slices hold.
#[inline(always)]
fn covered<'a, O: Output>(
    places: &Places,
    packed: &[u8],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &'a mut [u8],
) -> &'a mut [u8] {
    let blocks = if zeros.is_empty() { scales.len() } else { scales.len().min(zeros.len()) };
    let elements = places.codes_in(packed.len()).min(out.len() / O::BYTES).min(blocks.saturating_mul(block));
    &mut out[..elements * O::BYTES]
}

/// The map as the look-ups want it: repeated after the last code, and again for a second block.
#[inline(always)]
fn repeated(places: &Places, map: &[f32; 16]) -> [f32; GROUP] {
    let mut repeated = [0.0; GROUP];
    for (i, value) in repeated.iter_mut().enumerate() {
        *value = map[i % (1 << places.bits.min(4))];
    }
    repeated
}

/// The zero point of a block. Subtracting +0 changes no bit, not even those of −0.
#[inline(always)]
fn zero_of(zeros: &[f32], block: usize) -> f32 {
    zeros.get(block).copied().unwrap_or(0.0)
}

/// Looks codes up in the table of their block.
#[inline(always)]
fn tables<S: Simd, O: Output>(
    simd: S,
    rule: Arithmetic,
    places: &Places,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    let out = covered::<O>(places, packed, zeros, scales, block, out);
    let stream = Stream::new(places, packed);
    let map = repeated(places, map);
    let block_bytes = block.saturating_mul(O::BYTES);
    let mut tables = [[O::Word::default(); SMALL_TABLE]; TABLES];
    let (mut bytes, mut group) = (stream.start(), 0);
    for (batch, out) in out.chunks_mut(block_bytes.saturating_mul(TABLES)).enumerate() {
        let (zeros, scales) = (batch_of(zeros, batch), batch_of(scales, batch));
        for ((pair, zeros), scales) in
            tables.as_chunks_mut::<2>().0.iter_mut().zip(zeros.as_chunks::<2>().0).zip(scales.as_chunks::<2>().0)
        {
            *pair = halves(&words_of::<S, O>(simd, rule, &map, *zeros, *scales));
        }
        // Where NaNs would meet, one is left: which of two comes out is the CPU's choice.
        if has_nan(&zeros) || has_nan(&scales) {
            for ((table, zero), scale) in tables.iter_mut().zip(zeros).zip(scales) {
                let zero = if scale.is_nan() { 0.0 } else { zero };
                if zero.is_nan() || scale.is_nan() {
                    *table = halves(&words_of::<S, O>(simd, rule, &[1.0; GROUP], [zero; 2], [scale; 2]))[0];
                }
            }
        }
        let groups = out.len().div_ceil(GROUP * O::BYTES);
        if block < GROUP {
            let mut pairs = tables.as_chunks::<2>().0.iter();
            walk_packed!(stream, &mut bytes, group, O, group => {
                let tables = pairs.next().map_or([O::Word::default(); GROUP], whole);
                O::look_up_by_half(simd, places, &tables, group)
            }, out);
        } else {
            let mut turn = Turn::new(block);
            walk_packed!(stream, &mut bytes, group, O, group => {
                O::look_up_packed(simd, places, &tables[turn.next_group()], group)
            }, out);
        }
        group += groups;
    }
}

/// Whose turn it is among the blocks of a batch, of which each is whole groups.
///
/// All groups of a batch are one loop: blocks are often two groups long, and a loop for each would cost more than they do.
struct Turn {
    block: usize,
    /// Groups of a block, and those that are left of this one.
    groups: usize,
    left: usize,
}

impl Turn {
    #[inline(always)]
    fn new(block: usize) -> Self {
        Self { block: 0, groups: block / GROUP, left: block / GROUP }
    }

    /// The block of the next group.
    #[inline(always)]
    fn next_group(&mut self) -> usize {
        let block = self.block;
        self.left -= 1;
        if self.left == 0 {
            self.block += 1;
            self.left = self.groups;
        }
        block % TABLES
    }
}

/// The numbers of so many blocks, with zeros behind the last.
#[inline(always)]
fn batch_of(numbers: &[f32], batch: usize) -> [f32; TABLES] {
    let mut all = [0.0; TABLES];
    for (to, from) in all.iter_mut().zip(numbers.get(batch * TABLES..).unwrap_or_default()) {
        *to = *from;
    }
    all
}

#[inline(always)]
fn has_nan(numbers: &[f32; TABLES]) -> bool {
    numbers.iter().fold(false, |any, number| any | number.is_nan())
}

/// The words of all codes of two blocks.
#[inline(always)]
fn words_of<S: Simd, O: Output>(
    simd: S,
    rule: Arithmetic,
    map: &[f32; GROUP],
    zeros: [f32; 2],
    scales: [f32; 2],
) -> [O::Word; GROUP] {
    O::round_group(simd, &simd.calculate(rule, map, &by_half(zeros), &by_half(scales)))
}

/// One number for the first half of a group, another for the second.
#[inline(always)]
fn by_half([first, second]: [f32; 2]) -> [f32; GROUP] {
    let mut group = [first; GROUP];
    group[GROUP / 2..].fill(second);
    group
}

#[inline(always)]
fn halves<W: Copy + Default>(group: &[W; GROUP]) -> [[W; SMALL_TABLE]; 2] {
    let mut halves = [[W::default(); SMALL_TABLE]; 2];
    halves.as_flattened_mut().copy_from_slice(group);
    halves
}

#[inline(always)]
fn whole<W: Copy + Default>(halves: &[[W; SMALL_TABLE]; 2]) -> [W; GROUP] {
    let mut whole = [W::default(); GROUP];
    whole.copy_from_slice(halves.as_flattened());
    whole
}

/// Leaves one NaN of those that a rule would bring together.
#[inline(always)]
fn one_nan(values: &mut [f32; GROUP], zeros: &mut [f32; GROUP], scales: &[f32; GROUP]) {
    for i in 0..GROUP {
        values[i] = if scales[i].is_nan() || zeros[i].is_nan() { 1.0 } else { values[i] };
        zeros[i] = if scales[i].is_nan() { 0.0 } else { zeros[i] };
    }
}

/// Calculates with one zero point and scale per group.
#[inline(always)]
fn broadcast<S: Simd, O: Output>(
    simd: S,
    rule: Arithmetic,
    places: &Places,
    packed: &[u8],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    let out = covered::<O>(places, packed, zeros, scales, block, out);
    let stream = Stream::new(places, packed);
    let (mut bytes, mut group) = (stream.start(), 0);
    for (batch, out) in out.chunks_mut(block.saturating_mul(O::BYTES).saturating_mul(TABLES)).enumerate() {
        let groups = out.len().div_ceil(GROUP * O::BYTES);
        let (zeros, scales) = (batch_of(zeros, batch).map(tame), batch_of(scales, batch).map(tame));
        let mut turn = Turn::new(block);
        walk_packed!(stream, &mut bytes, group, O, group => {
            let block = turn.next_group();
            let codes = O::numbers(simd, places, group);
            O::join(simd, &simd.calculate(rule, &codes, &[zeros[block]; GROUP], &[scales[block]; GROUP]))
        }, out);
        group += groups;
    }
}

/// Calculates each element with its own zero point and scale.
#[inline(always)]
fn spread<S: Simd, O: Output>(
    simd: S,
    rule: Arithmetic,
    places: &Places,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    block: usize,
    out: &mut [u8],
) {
    let out = covered::<O>(places, packed, zeros, scales, block, out);
    let mut table = [0; SMALL_TABLE];
    for (word, value) in table.iter_mut().zip(repeated(places, map)) {
        *word = value.to_bits();
    }
    let mut blocks = Blocks { zeros, scales, block, index: 0, left: block };
    let stream = Stream::new(places, packed);
    walk_packed!(stream, &mut stream.start(), 0, O, group => {
        let (mut zeros, scales) = blocks.next_group();
        let mut values = if places.bits > 4 {
            simd.numbers(places, group)
        } else {
            map!(word in simd.values(places, &table, group) => f32::from_bits(word))
        };
        one_nan(&mut values, &mut zeros, &scales);
        O::round_group(simd, &simd.calculate(rule, &values, &zeros, &scales))
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
