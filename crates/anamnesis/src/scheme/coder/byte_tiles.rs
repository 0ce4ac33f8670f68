//! Rearranging stored bytes: codes and scales are copied into the layout of another format, without decoding them.

use std::ops::Range;

use super::context::Context;
use super::decoder::{TILE_BYTES, TileDecoder, Window};
use super::identity::Identity;
use crate::catalog::TargetDtype;
use crate::error::Result;

/// Produces any tile of an output whose bytes are copied from stored bytes. No value is computed, so none is rounded.
pub(crate) trait ByteTiles: Identity + Send + Sync {
    /// The output bytes at whose multiples tiles may be cut.
    fn granule(&self) -> u64;

    /// The preferred size of a tile in output bytes.
    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    /// Appends the windows of stored bytes that the output `bytes` are copied from, in the order in which
    /// [`fill`](Self::fill) expects them.
    fn windows(&self, bytes: Range<u64>, windows: &mut Vec<Window>);

    /// Writes the output `bytes` to `out`, and returns how many bytes were written.
    fn fill(&self, bytes: Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<usize>;

    /// A human-readable description of the copied data.
    fn describe(&self) -> String;
}

/// A decoder whose elements are bytes; the requested output type is ignored.
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
