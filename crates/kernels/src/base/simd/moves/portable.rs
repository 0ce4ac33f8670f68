//! The portable gather and transpose.

use super::{Moves, TILE, Tile, last_index};
use crate::base::GROUP;
use crate::base::simd::Portable;

impl Moves for Portable {
    #[inline(always)]
    fn gather(self, table: &[f32], indices: &[u32; GROUP]) -> [f32; GROUP] {
        let Some(last) = last_index(table) else { return [0.0; GROUP] };
        map!(index in indices => table[last.min(index) as usize])
    }

    #[inline(always)]
    fn transpose(self, tile: &Tile) -> Tile {
        let mut transposed = [[0; TILE]; TILE];
        for (i, row) in transposed.iter_mut().enumerate() {
            for (j, word) in row.iter_mut().enumerate() {
                *word = tile[j][i];
            }
        }
        transposed
    }
}
