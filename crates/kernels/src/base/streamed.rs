//! Output that goes past the caches: for results larger than they are, which nobody reads soon.
//!
//! An ordinary store first reads the line it writes to. Decoding into fresh memory therefore moves each output byte
//! twice; a non-temporal store moves it once. For a tile that is written to a file right away the opposite holds, so
//! this is a choice of the caller: `scaled::<E4m3, Streamed<Bf16>>` instead of `scaled::<E4m3, Bf16>`, the bits being
//! the same.
//!
//! Only memory aligned to 16 bytes is streamed to, which every large allocation is; elsewhere, and on other
//! architectures, these are ordinary stores.

use std::marker::PhantomData;

use crate::base::GROUP;
use crate::base::group::Walking;
use crate::base::output::Output;
use crate::base::packing::Packing;
use crate::base::simd::{SMALL_TABLE, Simd, TABLE};

/// The output `O`, stored past the caches.
///
/// ```
/// use anamnesis_kernels::{Bf16, Level, Streamed, round_slice};
///
/// let mut out = vec![0; 2 << 20];
/// round_slice::<Streamed<Bf16>>(Level::detect(), &vec![1.0; 1 << 20], &mut out);
/// assert_eq!(out[..2], [0x80, 0x3F]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Streamed<O>(PhantomData<O>);

impl<O: Output> Output for Streamed<O> {
    const NAME: &'static str = O::NAME;
    const BYTES: usize = O::BYTES;
    const TABLES: bool = O::TABLES;
    type Word = O::Word;

    #[inline(always)]
    fn round(value: f32) -> O::Word {
        O::round(value)
    }

    #[inline(always)]
    fn round_group<S: Simd>(simd: S, values: &[f32; GROUP]) -> [O::Word; GROUP] {
        O::round_group(simd, values)
    }

    #[inline(always)]
    fn round_products<S: Simd>(simd: S, values: &[f32; GROUP]) -> [O::Word; GROUP] {
        O::round_products(simd, values)
    }

    #[inline(always)]
    fn look_up<S: Simd>(simd: S, table: &[O::Word; TABLE], codes: &[u8; GROUP]) -> [O::Word; GROUP] {
        O::look_up(simd, table, codes)
    }

    #[inline(always)]
    fn look_up_packed<S: Simd, P: Packing>(
        simd: S,
        table: &[O::Word; SMALL_TABLE],
        packed: &[u8; GROUP],
    ) -> [O::Word; GROUP] {
        O::look_up_packed::<S, P>(simd, table, packed)
    }

    #[inline(always)]
    fn look_up_by_half<S: Simd, P: Packing>(
        simd: S,
        tables: &[O::Word; GROUP],
        packed: &[u8; GROUP],
    ) -> [O::Word; GROUP] {
        O::look_up_by_half::<S, P>(simd, tables, packed)
    }

    #[inline(always)]
    fn write(words: &[O::Word; GROUP], out: &mut [u8], walking: Walking) {
        let mut bytes = [0; GROUP * 4];
        let bytes = &mut bytes[..GROUP * O::BYTES];
        O::write(words, bytes, walking);
        store(bytes, out);
    }

    #[inline(always)]
    fn finish(_walking: Walking) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE is part of x86-64.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// Copies `from` to the beginning of `to`, past the caches where the alignment allows it.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn store(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    let (from, to) = (from.as_chunks::<16>().0, to.as_chunks_mut::<16>().0);
    if to.as_ptr().cast::<__m128i>().is_aligned() {
        for (from, to) in from.iter().zip(to) {
            // SAFETY: SSE2 is part of x86-64, both sides are 16 bytes long and `to` is aligned. The walk that holds the
            // token calls `finish`, a store fence, before it returns, so no other access can overtake this one.
            unsafe { _mm_stream_si128(to.as_mut_ptr().cast(), _mm_loadu_si128(from.as_ptr().cast())) };
        }
    } else {
        for (from, to) in from.iter().zip(to) {
            *to = *from;
        }
    }
}

/// Copies `from` to the beginning of `to`.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
fn store(from: &[u8], to: &mut [u8]) {
    for (from, to) in from.iter().zip(to) {
        *to = *from;
    }
}
