//! Stored bytes in another order: codes and scales as they are, for layouts that have the same ones.

use std::ops::Range;

use super::context::Context;
use super::decoder::{TILE_BYTES, TileDecoder, Window};
use super::identity::Identity;
use crate::catalog::TargetDtype;
use crate::error::Result;

/// Gives any tile of bytes that are put together from stored ones. No number is calculated, so that none is rounded.
pub(crate) trait ByteTiles: Identity + Send + Sync {
    /// Tiles are cut at multiples of this many bytes.
    fn granule(&self) -> u64;

    /// Bytes a tile should have.
    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    /// The stored bytes that the output `bytes` need, in the order [`fill`](Self::fill) expects them.
    fn windows(&self, bytes: Range<u64>, windows: &mut Vec<Window>);

    /// Puts the output `bytes` into `out`, and returns how many of them were written.
    fn fill(&self, bytes: Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<usize>;

    /// What is kept, for people.
    fn describe(&self) -> String;
}

/// Its elements are the bytes, whatever type is asked for.
impl<T: ByteTiles> TileDecoder for T {
    fn granule(&self) -> u64 {
        ByteTiles::granule(self)
    }

    fn tile_bytes(&self) -> u64 {
        ByteTiles::tile_bytes(self)
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        ByteTiles::windows(self, elements, windows);
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        _target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        self.fill(elements, inputs, out, context)
    }

    fn describe(&self) -> String {
        ByteTiles::describe(self)
    }
}
