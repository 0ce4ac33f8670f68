//! The output types of decoders: BF16, F16 or F32, as little-endian bytes.
//!
//! | type | bytes | rounding | NaN |
//! |---|---|---|---|
//! | [`Bf16`] | 2 | nearest, ties to even | sign and upper payload kept, quiet |
//! | [`F16`] | 2 | nearest, ties to even, infinity beyond 65519 | sign and upper payload kept, quiet |
//! | [`F32`] | 4 | none | as it is |

use crate::base::GROUP;
use crate::base::float::{bf16, f16};
use crate::base::packing::Packing;
use crate::base::simd::{Arrangement, SMALL_TABLE, Simd, TABLE, arrange};

/// A type that decoded values are rounded to.
pub trait Output: Copy + Send + Sync + 'static {
    /// The type's name.
    const NAME: &'static str;
    /// Bytes per element.
    const BYTES: usize;
    /// Whether 128 words fit into registers, so that tables of rounded words can be looked up quickly.
    const TABLES: bool;
    /// The bits of one element.
    type Word: Copy + Default + Send + Sync + 'static;

    /// Rounds a value.
    fn round(value: f32) -> Self::Word;

    /// Rounds a group of values.
    fn round_group<S: Simd>(simd: S, values: &[f32; GROUP]) -> [Self::Word; GROUP];

    /// Rounds a group of products, whose NaNs are quiet and not all ones.
    #[inline(always)]
    fn round_products<S: Simd>(simd: S, values: &[f32; GROUP]) -> [Self::Word; GROUP] {
        Self::round_group(simd, values)
    }

    /// Rounds sixteen results of arithmetic and puts them into the order of `A`.
    fn round_sixteen<S: Simd, A: Arrangement>(simd: S, values: &[f32; SMALL_TABLE]) -> [Self::Word; GROUP];

    /// Flips the sign of each word whose sign mask is set.
    fn flip(words: &[Self::Word; GROUP], signs: &[u16; GROUP]) -> [Self::Word; GROUP];

    /// Looks up `table[code & 0x7F]` for a group of codes, the sign flipped where bit 7 of the code is set.
    fn look_up<S: Simd>(simd: S, table: &[Self::Word; TABLE], codes: &[u8; GROUP]) -> [Self::Word; GROUP];

    /// Looks up `table[code]` for a group of packed codes of up to four bits; the table repeats after the last code.
    fn look_up_packed<S: Simd, P: Packing>(
        simd: S,
        table: &[Self::Word; GROUP],
        packed: &[u8; GROUP],
    ) -> [Self::Word; GROUP];

    /// Looks up `table[code % 4]`; the table repeats after four entries.
    fn look_up_few<S: Simd>(simd: S, table: &[Self::Word; GROUP], codes: &[u16; GROUP]) -> [Self::Word; GROUP];

    /// [`look_up_packed`](Self::look_up_packed) of four-bit codes with a table for each half of the group.
    fn look_up_by_half<S: Simd, P: Packing>(
        simd: S,
        tables: &[Self::Word; GROUP],
        packed: &[u8; GROUP],
    ) -> [Self::Word; GROUP];

    /// Writes a group of words into the first `GROUP * BYTES` bytes of `out`.
    fn write(words: &[Self::Word; GROUP], out: &mut [u8]);
}

/// Output as BF16.
#[derive(Clone, Copy, Debug)]
pub struct Bf16;

/// Output as IEEE half precision.
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// Output as `f32`, unrounded.
#[derive(Clone, Copy, Debug)]
pub struct F32;

impl Output for Bf16 {
    const NAME: &'static str = "bf16";
    const BYTES: usize = 2;
    const TABLES: bool = true;
    type Word = u16;

    #[inline(always)]
    fn round(value: f32) -> u16 {
        bf16::encode(value)
    }

    #[inline(always)]
    fn round_group<S: Simd>(simd: S, values: &[f32; GROUP]) -> [u16; GROUP] {
        simd.round_bf16(values)
    }

    #[inline(always)]
    fn round_products<S: Simd>(simd: S, values: &[f32; GROUP]) -> [u16; GROUP] {
        simd.narrow_bf16(values)
    }

    #[inline(always)]
    fn round_sixteen<S: Simd, A: Arrangement>(simd: S, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        simd.bf16_words::<A>(values)
    }

    #[inline(always)]
    fn flip(words: &[u16; GROUP], signs: &[u16; GROUP]) -> [u16; GROUP] {
        flipped(words, signs)
    }

    #[inline(always)]
    fn look_up<S: Simd>(simd: S, table: &[u16; TABLE], codes: &[u8; GROUP]) -> [u16; GROUP] {
        simd.look_up(table, codes)
    }

    #[inline(always)]
    fn look_up_packed<S: Simd, P: Packing>(simd: S, table: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        simd.words::<P>(table, packed)
    }

    #[inline(always)]
    fn look_up_few<S: Simd>(simd: S, table: &[u16; GROUP], codes: &[u16; GROUP]) -> [u16; GROUP] {
        simd.words_of_few(table, codes)
    }

    #[inline(always)]
    fn look_up_by_half<S: Simd, P: Packing>(simd: S, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        simd.words_by_half::<P>(tables, packed)
    }

    #[inline(always)]
    fn write(words: &[u16; GROUP], out: &mut [u8]) {
        for (bytes, word) in out.as_chunks_mut::<2>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}

impl Output for F16 {
    const NAME: &'static str = "f16";
    const BYTES: usize = 2;
    const TABLES: bool = true;
    type Word = u16;

    #[inline(always)]
    fn round(value: f32) -> u16 {
        f16::encode(value)
    }

    #[inline(always)]
    fn round_group<S: Simd>(simd: S, values: &[f32; GROUP]) -> [u16; GROUP] {
        simd.narrow_f16(values)
    }

    #[inline(always)]
    fn round_sixteen<S: Simd, A: Arrangement>(simd: S, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        simd.f16_words::<A>(values)
    }

    #[inline(always)]
    fn flip(words: &[u16; GROUP], signs: &[u16; GROUP]) -> [u16; GROUP] {
        flipped(words, signs)
    }

    #[inline(always)]
    fn look_up<S: Simd>(simd: S, table: &[u16; TABLE], codes: &[u8; GROUP]) -> [u16; GROUP] {
        simd.look_up(table, codes)
    }

    #[inline(always)]
    fn look_up_packed<S: Simd, P: Packing>(simd: S, table: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        simd.words::<P>(table, packed)
    }

    #[inline(always)]
    fn look_up_few<S: Simd>(simd: S, table: &[u16; GROUP], codes: &[u16; GROUP]) -> [u16; GROUP] {
        simd.words_of_few(table, codes)
    }

    #[inline(always)]
    fn look_up_by_half<S: Simd, P: Packing>(simd: S, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        simd.words_by_half::<P>(tables, packed)
    }

    #[inline(always)]
    fn write(words: &[u16; GROUP], out: &mut [u8]) {
        Bf16::write(words, out);
    }
}

impl Output for F32 {
    const NAME: &'static str = "f32";
    const BYTES: usize = 4;
    const TABLES: bool = false;
    type Word = u32;

    #[inline(always)]
    fn round(value: f32) -> u32 {
        value.to_bits()
    }

    #[inline(always)]
    fn round_group<S: Simd>(_simd: S, values: &[f32; GROUP]) -> [u32; GROUP] {
        map!(value in values => value.to_bits())
    }

    #[inline(always)]
    fn round_sixteen<S: Simd, A: Arrangement>(_simd: S, values: &[f32; SMALL_TABLE]) -> [u32; GROUP] {
        arrange::<A, _>(&values.map(f32::to_bits))
    }

    #[inline(always)]
    fn flip(words: &[u32; GROUP], signs: &[u16; GROUP]) -> [u32; GROUP] {
        let mut flipped = *words;
        for i in 0..GROUP {
            flipped[i] ^= u32::from(signs[i]) << 16;
        }
        flipped
    }

    #[inline(always)]
    fn look_up<S: Simd>(_simd: S, table: &[u32; TABLE], codes: &[u8; GROUP]) -> [u32; GROUP] {
        map!(code in codes => {
            table[usize::from(code & 0x7F)] ^ (u32::from(code & 0x80) << 24)
        })
    }

    #[inline(always)]
    fn look_up_packed<S: Simd, P: Packing>(simd: S, table: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP] {
        simd.values::<P>(&std::array::from_fn(|code| table[code]), packed)
    }

    #[inline(always)]
    fn look_up_few<S: Simd>(simd: S, table: &[u32; GROUP], codes: &[u16; GROUP]) -> [u32; GROUP] {
        simd.values_of_few(&std::array::from_fn(|code| table[code]), codes)
    }

    #[inline(always)]
    fn look_up_by_half<S: Simd, P: Packing>(simd: S, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP] {
        simd.values_by_half::<P>(tables, packed)
    }

    #[inline(always)]
    fn write(words: &[u32; GROUP], out: &mut [u8]) {
        for (bytes, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}

/// 16-bit words with their signs flipped.
#[inline(always)]
fn flipped(words: &[u16; GROUP], signs: &[u16; GROUP]) -> [u16; GROUP] {
    let mut flipped = *words;
    for i in 0..GROUP {
        flipped[i] ^= signs[i];
    }
    flipped
}
