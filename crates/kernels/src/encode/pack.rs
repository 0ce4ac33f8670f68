//! Packs codes of one byte each without gaps.

use crate::base::level::Level;
use crate::base::simd::Simd;

/// Packs codes of `bits` bits one after the other, from the lowest bit of the first byte on: the inverse of
/// [`spread_bits`](crate::spread_bits). Unused bits of the last byte become zero. The upper bits of each code must be
/// zero.
///
/// ```
/// use anamnesis_kernels::{Level, pack_bits};
///
/// let mut packed = [0; 2];
/// pack_bits(Level::detect(), &[1, 2, 3], 4, &mut packed);
/// assert_eq!(packed, [0x21, 0x03]);
/// ```
#[must_use = "output past the returned count keeps its old contents"]
pub fn pack_bits(level: Level, codes: &[u8], bits: u8, out: &mut [u8]) -> usize {
    match bits {
        1 => packed::<Bits<1>>(level, codes, out),
        2 => packed::<Bits<2>>(level, codes, out),
        3 => packed::<Bits<3>>(level, codes, out),
        4 => nibbles(level, codes, out),
        5 => packed::<Bits<5>>(level, codes, out),
        6 => packed::<Bits<6>>(level, codes, out),
        7 => packed::<Bits<7>>(level, codes, out),
        _ => {
            let written = codes.len().min(out.len());
            codes.iter().zip(out).for_each(|(code, out)| *out = *code);
            written
        }
    }
}

/// The width of a code, a constant of the kernel.
trait Width: Copy + Send + Sync + 'static {
    const BITS: usize;
}

#[derive(Clone, Copy)]
struct Bits<const BITS: usize>;

impl<const BITS: usize> Width for Bits<BITS> {
    const BITS: usize = BITS;
}

kernel! {
    fn packed<W: Width>(codes: &[u8], out: &mut [u8]) = body
}

kernel! {
    fn nibbles(codes: &[u8], out: &mut [u8]) = nibbles_body
}

#[inline(always)]
fn nibbles_body<S: Simd>(_simd: S, codes: &[u8], out: &mut [u8]) -> usize {
    let (pairs, last) = codes.as_chunks::<2>();
    let written = codes.len().div_ceil(2).min(out.len());
    for (out, [low, high]) in out.iter_mut().zip(pairs) {
        *out = low | high << 4;
    }
    if let ([last], Some(out)) = (last, out.get_mut(pairs.len())) {
        *out = *last;
    }
    written
}

/// Packs eight codes in three steps: pairs, quadruples, all.
#[inline(always)]
fn body<S: Simd, W: Width>(_simd: S, codes: &[u8], out: &mut [u8]) -> usize {
    let (eights, rest) = codes.as_chunks::<8>();
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    let last = (!rest.is_empty()).then_some(&last);
    let written = (codes.len().div_ceil(8) * W::BITS).min(out.len());
    for (out, eight) in out.chunks_mut(W::BITS).zip(eights.iter().chain(last)) {
        let codes = u64::from_le_bytes(*eight);
        let pairs = codes & 0x00FF_00FF_00FF_00FF | (codes >> 8 & 0x00FF_00FF_00FF_00FF) << W::BITS;
        let fours = pairs & 0x0000_FFFF_0000_FFFF | (pairs >> 16 & 0x0000_FFFF_0000_FFFF) << (2 * W::BITS);
        let all = fours & 0xFFFF_FFFF | (fours >> 32) << (4 * W::BITS);
        for (to, from) in out.iter_mut().zip(all.to_le_bytes()) {
            *to = from;
        }
    }
    written
}
