//! Gathers and transposes.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::base::GROUP;

/// Rows and columns of a tile, which is transposed in registers.
pub const TILE: usize = 16;

/// A square of 32-bit words.
pub type Tile = [[u32; TILE]; TILE];

/// A CPU level's operations that move words.
pub trait Moves: Copy {
    /// `table[index]` for a group of indices; the last entry for indices past the end, zero for an empty table.
    ///
    /// Only the first 2³¹ entries of a larger table are used.
    fn gather(self, table: &[f32], indices: &[u32; GROUP]) -> [f32; GROUP];

    /// The tile with rows and columns exchanged.
    fn transpose(self, tile: &Tile) -> Tile;
}

/// The last index of a table; `None` if it is empty.
#[inline(always)]
fn last_index(table: &[f32]) -> Option<u32> {
    Some(table.len().checked_sub(1)?.min(i32::MAX as usize) as u32)
}
