//! Codes in bit planes: how `gptq_p` packs 32 codes, so that none of them spans two words.
//!
//! | bits | planes, the lowest bits first |
//! |---|---|
//! | 3 | 2, 1 |
//! | 5 | 4, 1 |
//! | 6 | 4, 2 |
//! | 7 | 4, 2, 1 |
//!
//! 32 codes take as many words as a code has bits: first the words of the lowest plane, then those of the next. Codes
//! of 2, 4 and 8 bits have one plane, which is the ordinary packing.

/// Codes per block.
pub(crate) const BLOCK: usize = 32;

/// The widths of the planes of codes of `bits` bits.
const fn planes(bits: u8) -> &'static [u8] {
    match bits {
        3 => &[2, 1],
        5 => &[4, 1],
        6 => &[4, 2],
        7 => &[4, 2, 1],
        _ => &[],
    }
}

/// Whether codes of `bits` bits are packed in planes: always, or for 3 bits if the configuration says so.
pub(crate) const fn is_planar(bits: u64, is_configured: bool) -> bool {
    matches!(bits, 5..=7) || (is_configured && bits == 3)
}

/// Whether checkpoints have codes of `bits` bits both in planes and consecutively.
pub(crate) const fn has_two_packings(bits: u64) -> bool {
    is_planar(bits, true) && !is_planar(bits, false)
}

/// Unpacks codes to one per byte, and returns how many were written.
pub(super) fn unpack_bytes(bits: u8, words: &[u8], out: &mut [u8]) -> usize {
    let mut written = 0;
    for (block, codes) in words.chunks_exact(4 * usize::from(bits.max(1))).zip(out.chunks_exact_mut(BLOCK)) {
        codes.fill(0);
        let (mut rest, mut shift) = (block, 0);
        for &width in planes(bits) {
            // The width of a plane divides that of a word, so no field spans two words.
            let (plane, after) = rest.split_at(4 * usize::from(width));
            for (at, code) in codes.iter_mut().enumerate() {
                let bit = at * usize::from(width);
                *code |= (plane[bit / 8] >> (bit % 8) & ((1 << width) - 1)) << shift;
            }
            (rest, shift) = (after, shift + width);
        }
        written += BLOCK;
    }
    written
}

/// Unpacks codes to floats, and returns how many were written.
pub(crate) fn unpack(bits: u8, words: &[u8], out: &mut [f32]) -> usize {
    let (mut codes, mut written) = ([0; BLOCK], 0);
    for (block, out) in words.chunks_exact(4 * usize::from(bits.max(1))).zip(out.chunks_exact_mut(BLOCK)) {
        written += unpack_bytes(bits, block, &mut codes);
        out.iter_mut().zip(codes).for_each(|(out, code)| *out = code.into());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_round_trip_through_planes() {
        for bits in [3u8, 5, 6, 7] {
            let codes: Vec<u8> = (0..64u32).map(|at| (at * 37 % (1 << bits)) as u8).collect();
            let mut words = Vec::new();
            for block in codes.chunks_exact(BLOCK) {
                let mut shift = 0;
                for &width in planes(bits) {
                    let mut plane = vec![0u8; 4 * usize::from(width)];
                    for (at, code) in block.iter().enumerate() {
                        let bit = at * usize::from(width);
                        plane[bit / 8] |= (code >> shift & ((1 << width) - 1)) << (bit % 8);
                    }
                    words.extend(plane);
                    shift += width;
                }
            }
            let mut found = vec![0; codes.len()];
            unpack_bytes(bits, &words, &mut found);
            assert_eq!(found, codes, "{bits} bits");
        }
    }
}
