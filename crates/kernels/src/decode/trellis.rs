//! Trellis codes of EXL3: a tile of 256 weights is a ring of bits, and each weight is the value of 16 consecutive ones.
//!
//! A tile of `K` bits per weight is `8 K` little-endian words, read from bit 31 down to bit 0. Position `i` adds `K` bits
//! (for `K = m + 0.5`, `m` at even and `m + 1` at odd positions); its state are the 16 bits that end there, where the
//! first positions reach back to the end of the tile. Position `i = 8 t + j` is row `2 (t % 4) + j % 2 + 8 (j / 2 % 2)` and
//! column `t / 4 + 8 (j / 4)` of the tile.

use std::sync::OnceLock;

use crate::base::float::f16;

/// Rows and columns of a tile.
pub const TILE_SIDE: usize = 16;
const TILE_VALUES: usize = TILE_SIDE * TILE_SIDE;
/// States of the trellis.
const STATES: usize = 1 << 16;
/// The most words of a tile: those of eight bits per weight.
const MOST_WORDS: usize = 64;
/// The fewest half bits of a weight: with one, the first position would add no bit.
const FEWEST_HALF_BITS: usize = 2;

/// The value of each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrellisCodebook {
    /// The default, `3INST`.
    ThreeInstructions,
    /// `mcg`: the same with another multiplier, and no addend.
    Mcg,
    /// `mul1`: sums of bytes.
    Mul1,
}

static TABLES: [OnceLock<Vec<f32>>; 3] = [const { OnceLock::new() }; 3];

impl TrellisCodebook {
    /// The values of all states.
    fn table(self) -> &'static [f32] {
        let table = match self {
            Self::ThreeInstructions => &TABLES[0],
            Self::Mcg => &TABLES[1],
            Self::Mul1 => &TABLES[2],
        };
        table.get_or_init(|| (0..STATES as u32).map(|state| self.value(state)).collect())
    }

    /// The value of a state: half precision, rounded once.
    fn value(self, state: u32) -> f32 {
        let halves = |x: u32| {
            let x = (x & 0x8FFF_8FFF) ^ 0x3B60_3B60;
            f16::decode(x as u16) + f16::decode((x >> 16) as u16)
        };
        // All of these sums are exact in `f32`.
        let exact = match self {
            Self::ThreeInstructions => halves(state.wrapping_mul(89_226_354).wrapping_add(64_248_484)),
            Self::Mcg => halves(state.wrapping_mul(0xCBAC_1FED)),
            Self::Mul1 => {
                let bytes = state.wrapping_mul(0x83DC_D12D).to_le_bytes();
                let sum: u16 = bytes.into_iter().map(u16::from).sum();
                f32::from(1024 + sum) * f16::decode(0x1EEE) + f16::decode(0xC931)
            }
        };
        f16::decode(f16::encode(exact))
    }
}

/// Decodes a tile of `half_bits / 2` bits per weight into 16 rows of 16 values, which start every `stride` values.
///
/// Returns how many values were written: 256, or none if the tile has another size, a weight has less than one bit or more
/// than eight, or the output is too short.
#[must_use = "output past the returned count keeps its old contents"]
pub fn decode_trellis(
    codebook: TrellisCodebook,
    half_bits: usize,
    tile: &[u8],
    out: &mut [f32],
    stride: usize,
) -> usize {
    let (stored, rest) = tile.as_chunks::<4>();
    let end = (TILE_SIDE - 1).checked_mul(stride).and_then(|start| start.checked_add(TILE_SIDE));
    let fits = stride >= TILE_SIDE && end.is_some_and(|end| out.len() >= end);
    let is_tile = (FEWEST_HALF_BITS..=MOST_WORDS / 4).contains(&half_bits) && stored.len() == 4 * half_bits;
    if !fits || !rest.is_empty() || !is_tile {
        return 0;
    }
    let mut words = [0; MOST_WORDS];
    for (word, bytes) in words.iter_mut().zip(stored) {
        *word = u32::from_le_bytes(*bytes);
    }
    let words = &words[..stored.len()];
    let table = codebook.table();
    let mut end = 0;
    for position in 0..TILE_VALUES {
        end += (half_bits + position % 2) / 2;
        let last = (end - 1) / 32;
        let before = if last == 0 { words.len() - 1 } else { last - 1 };
        let pair = u64::from(words[before]) << 32 | u64::from(words[last]);
        let state = pair >> (31 - (end - 1) % 32) & 0xFFFF;
        let (t, j) = (position / 8, position % 8);
        let (row, col) = (2 * (t % 4) + j % 2 + 8 * (j / 2 % 2), t / 4 + 8 * (j / 4));
        out[row * stride + col] = table[state as usize];
    }
    TILE_VALUES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_less_than_one_bit_or_of_more_than_eight_are_not_decoded() {
        for half_bits in [0, 1, 17, usize::MAX, usize::MAX / 2 + 1] {
            let tile = vec![0x5A; 16 * half_bits.min(32)];
            assert_eq!(decode_trellis(TrellisCodebook::Mcg, half_bits, &tile, &mut [0.0; 256], 16), 0, "{half_bits}");
        }
    }

    #[test]
    fn a_state_is_the_sixteen_bits_before_the_end_of_its_position_around_the_ring() {
        for half_bits in [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16] {
            let mut state = 7u32;
            let tile: Vec<u8> = (0..16 * half_bits)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            let words = tile.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
            let ring: Vec<u32> = words.flat_map(|word| (0..32).rev().map(move |bit| word >> bit & 1)).collect();
            let mut out = vec![0.0; 256];
            assert_eq!(decode_trellis(TrellisCodebook::Mul1, half_bits, &tile, &mut out, 16), 256);
            let mut end = 0;
            for i in 0..256 {
                end += if half_bits.is_multiple_of(2) || i % 2 == 0 { half_bits / 2 } else { half_bits / 2 + 1 };
                let bits = (0..16).map(|bit| ring[(end + ring.len() - 16 + bit) % ring.len()]);
                let state = bits.fold(0, |state, bit| state << 1 | bit);
                let (t, j) = (i / 8, i % 8);
                let place = (2 * (t % 4) + (j & 1) + 8 * (j >> 1 & 1)) * 16 + t / 4 + 8 * (j >> 2);
                assert_eq!(out[place], TrellisCodebook::Mul1.value(state), "{half_bits} at {i}");
            }
            assert_eq!(end, ring.len());
        }
        assert_eq!(decode_trellis(TrellisCodebook::Mcg, 4, &[0; 60], &mut [0.0; 256], 16), 0);
        assert_eq!(decode_trellis(TrellisCodebook::Mcg, 4, &[0; 64], &mut [0.0; 255], 16), 0);
    }
}
