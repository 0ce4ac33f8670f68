//! Operations on packed codes with AVX-512.

use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::{Arrangement, Codes, SMALL_TABLE, Windows};
use crate::base::GROUP;
use crate::base::packing::Packing;
use crate::base::simd::V4;
use crate::base::simd::x86::{round_bf16_avx512, round_bf16_or_nan_avx512};

impl Codes for V4 {
    const SHUFFLES: bool = true;
    const NUMBERS: bool = true;

    #[inline(always)]
    fn unsigned(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (to, from) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(bytes.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe {
                let sixteen = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast()));
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtepi32_ps(sixteen));
            }
        }
        numbers
    }

    #[inline(always)]
    fn signed(self, bytes: &[u8; GROUP]) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (to, from) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(bytes.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe {
                let sixteen = _mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast()));
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtepi32_ps(sixteen));
            }
        }
        numbers
    }

    #[inline(always)]
    fn fields(self, words: &[[u8; 4]; GROUP], shift: u32, mask: u32) -> [f32; GROUP] {
        let mut numbers = [0.0; GROUP];
        for (to, from) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(words.as_chunks::<16>().0) {
            // SAFETY: the token proves AVX-512 F; loads and stores are unaligned and cover exactly the sixteen elements.
            unsafe {
                let shift = _mm_cvtsi32_si128(shift.cast_signed());
                let shifted = _mm512_srl_epi32(_mm512_loadu_si512(from.as_ptr().cast()), shift);
                let fields = _mm512_and_si512(shifted, _mm512_set1_epi32(mask.cast_signed()));
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtepi32_ps(fields));
            }
        }
        numbers
    }

    #[inline(always)]
    fn digits(self, bytes: &[u8; GROUP], factors: &[u16; GROUP]) -> [u16; GROUP] {
        let mut digits = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; loads and stores are unaligned and cover exactly the bytes, factors and digits.
        unsafe {
            let wide = _mm512_cvtepu8_epi16(_mm256_loadu_si256(bytes.as_ptr().cast()));
            let fractions = _mm512_mullo_epi16(wide, _mm512_loadu_si512(factors.as_ptr().cast()));
            _mm512_storeu_si512(digits.as_mut_ptr().cast(), _mm512_mulhi_epu16(fractions, _mm512_set1_epi16(3)));
        }
        digits
    }

    #[inline(always)]
    fn codes<P: Packing>(self, packed: &[u8; GROUP]) -> [u8; GROUP] {
        let mut codes = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the store covers exactly the codes.
        unsafe {
            let mask = _mm512_set1_epi16((1 << P::BITS) - 1);
            let bytes = _mm512_cvtepi16_epi8(_mm512_and_si512(code_words::<P>(packed), mask));
            _mm256_storeu_si256(codes.as_mut_ptr().cast(), bytes);
        }
        codes
    }

    #[inline(always)]
    fn bf16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the loads cover exactly the values and the constant, the store the words.
        unsafe {
            let sixteen = _mm512_loadu_ps(values.as_ptr());
            let rounded = match A::HAS_NAN {
                true => round_bf16_or_nan_avx512(sixteen),
                false => round_bf16_avx512(_mm512_castps_si512(sixteen)),
            };
            let upper_halves = _mm512_loadu_si512(Places::<A>::UPPER_HALVES.as_ptr().cast());
            _mm512_storeu_si512(words.as_mut_ptr().cast(), _mm512_permutexvar_epi16(upper_halves, rounded));
        }
        words
    }

    #[inline(always)]
    fn f16_words<A: Arrangement>(self, values: &[f32; SMALL_TABLE]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the loads cover exactly the values and the constant, the store the words.
        unsafe {
            let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(values.as_ptr()));
            let places = _mm512_loadu_si512(Places::<A>::WORDS.as_ptr().cast());
            let arranged = _mm512_permutexvar_epi16(places, _mm512_castsi256_si512(halves));
            _mm512_storeu_si512(words.as_mut_ptr().cast(), arranged);
        }
        words
    }

    #[inline(always)]
    fn words<P: Packing>(self, table: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the load covers exactly the table, the store the words.
        unsafe {
            // The permutation uses five bits of each index: the table is repeated.
            let table = _mm512_loadu_si512(table.as_ptr().cast());
            let found = _mm512_permutexvar_epi16(code_words::<P>(packed), table);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), found);
        }
        words
    }

    #[inline(always)]
    fn values<P: Packing>(self, table: &[u32; SMALL_TABLE], packed: &[u8; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; loads cover the first sixteen packed bytes, the table and halves of
        // the constants, stores the halves of the values.
        unsafe {
            let packed = _mm512_broadcast_i32x4(_mm_loadu_si128(packed.as_ptr().cast()));
            let table = _mm512_loadu_si512(table.as_ptr().cast());
            for i in [0, 16] {
                let bytes = _mm512_loadu_si512(Windows::<P>::WIDE_BYTES.as_ptr().add(i).cast());
                let shifts = _mm512_loadu_si512(Windows::<P>::WIDE_SHIFTS.as_ptr().add(i).cast());
                let codes = _mm512_srlv_epi32(_mm512_shuffle_epi8(packed, bytes), shifts);
                _mm512_storeu_si512(values.as_mut_ptr().add(i).cast(), _mm512_permutexvar_epi32(codes, table));
            }
        }
        values
    }

    #[inline(always)]
    fn words_of_few(self, table: &[u16; GROUP], codes: &[u16; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the loads cover exactly the table and the codes, the store the words.
        unsafe {
            let (table, codes) = (_mm512_loadu_si512(table.as_ptr().cast()), _mm512_loadu_si512(codes.as_ptr().cast()));
            _mm512_storeu_si512(words.as_mut_ptr().cast(), _mm512_permutexvar_epi16(codes, table));
        }
        words
    }

    #[inline(always)]
    fn values_of_few(self, table: &[u32; SMALL_TABLE], codes: &[u16; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX-512 F; the loads cover exactly the table and halves of the codes, the stores those of the
        // values.
        unsafe {
            let table = _mm512_loadu_si512(table.as_ptr().cast());
            for i in [0, 16] {
                let codes = _mm512_cvtepu16_epi32(_mm256_loadu_si256(codes.as_ptr().add(i).cast()));
                _mm512_storeu_si512(values.as_mut_ptr().add(i).cast(), _mm512_permutexvar_epi32(codes, table));
            }
        }
        values
    }

    #[inline(always)]
    fn words_by_half<P: Packing>(self, tables: &[u16; GROUP], packed: &[u8; GROUP]) -> [u16; GROUP] {
        let mut words = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; the load covers exactly the tables, the store the words.
        unsafe {
            // The permutation uses five bits of each index; the fifth is set in the upper half.
            let four_bits = _mm512_and_si512(code_words::<P>(packed), _mm512_set1_epi16(0xF));
            let upper = _mm512_inserti64x4::<1>(_mm512_setzero_si512(), _mm256_set1_epi16(0x10));
            let tables = opaque(_mm512_loadu_si512(tables.as_ptr().cast()));
            let found = _mm512_permutexvar_epi16(_mm512_or_si512(four_bits, upper), tables);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), found);
        }
        words
    }

    #[inline(always)]
    fn values_by_half<P: Packing>(self, tables: &[u32; GROUP], packed: &[u8; GROUP]) -> [u32; GROUP] {
        let mut values = [0; GROUP];
        // SAFETY: the token proves AVX-512 F and BW; loads cover the first sixteen packed bytes, the halves of the tables
        // and of the constants, stores the halves of the values.
        unsafe {
            let packed = _mm512_broadcast_i32x4(_mm_loadu_si128(packed.as_ptr().cast()));
            for i in [0, 16] {
                let table = _mm512_loadu_si512(tables.as_ptr().add(i).cast());
                let bytes = _mm512_loadu_si512(Windows::<P>::WIDE_BYTES.as_ptr().add(i).cast());
                let shifts = _mm512_loadu_si512(Windows::<P>::WIDE_SHIFTS.as_ptr().add(i).cast());
                let codes = _mm512_srlv_epi32(_mm512_shuffle_epi8(packed, bytes), shifts);
                _mm512_storeu_si512(values.as_mut_ptr().add(i).cast(), _mm512_permutexvar_epi32(codes, table));
            }
        }
        values
    }
}

/// Hides the origin of a value from the compiler.
///
/// Otherwise it splits tables with flipped signs, looks up the words and the flips separately and combines the results.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut register: __m512i) -> __m512i {
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {0} */", inout(zmm_reg) register, options(pure, nomem, nostack, preserves_flags)) }
    register
}

/// A group's codes as the lowest bits of words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn code_words<P: Packing>(packed: &[u8; GROUP]) -> __m512i {
    // SAFETY: the loads cover the first sixteen of the packed bytes or all of them, and exactly the constants.
    unsafe {
        let packed = if Windows::<P>::IN_HALVES {
            let halves = _mm512_castsi256_si512(_mm256_loadu_si256(packed.as_ptr().cast()));
            _mm512_shuffle_i64x2::<0b01_01_00_00>(halves, halves)
        } else {
            _mm512_broadcast_i32x4(_mm_loadu_si128(packed.as_ptr().cast()))
        };
        let bytes = _mm512_loadu_si512(Windows::<P>::BYTES.as_ptr().cast());
        // This bound removes the check for shifts that are too large.
        let shifts = _mm512_and_si512(_mm512_loadu_si512(Windows::<P>::SHIFTS.as_ptr().cast()), _mm512_set1_epi16(15));
        _mm512_srlv_epi16(_mm512_shuffle_epi8(packed, bytes), shifts)
    }
}

/// Indices of an arrangement.
struct Places<A>(PhantomData<A>);

impl<A: Arrangement> Places<A> {
    /// For sixteen words.
    const WORDS: [u16; GROUP] = {
        let mut places = [0; GROUP];
        let mut i = 0;
        while i < GROUP {
            places[i] = (8 * A::EIGHTS[i / 8] + i % 8) as u16;
            i += 1;
        }
        places
    };

    /// For the upper halves of sixteen doublewords.
    const UPPER_HALVES: [u16; GROUP] = {
        let mut places = Self::WORDS;
        let mut i = 0;
        while i < GROUP {
            places[i] = 2 * places[i] + 1;
            i += 1;
        }
        places
    };
}
