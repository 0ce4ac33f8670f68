//! Swizzled scales: one-byte scales in the order in which matrix units read them.
//!
//! 128 rows and 4 columns of scales are a tile of 512 bytes. Tiles are stored row by row, and both dimensions are
//! padded to whole tiles. Inside a tile the scale of row `r` and column `c` is at `16 (r mod 32) + 4 (r div 32) + c`.

use std::ops::Range;
use std::sync::Arc;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{Context, TileDecoder, Window};

/// The rows and columns of swizzled scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Swizzled {
    pub rows: u64,
    pub cols: u64,
}

const COLS: u64 = 4;
const TILE_BYTES: u64 = Swizzled::ROWS * COLS;

/// The part index of the scales.
const SCALES: usize = 1;

impl Swizzled {
    /// Rows per tile.
    pub(super) const ROWS: u64 = 128;

    /// The bytes of all scales with their padding.
    pub(super) fn bytes(self) -> u64 {
        self.rows.div_ceil(Self::ROWS).saturating_mul(self.row_bytes())
    }

    /// The bytes of a row of tiles.
    fn row_bytes(self) -> u64 {
        self.cols.div_ceil(COLS).saturating_mul(TILE_BYTES)
    }

    /// The rows of tiles that contain these scales, which are counted row by row.
    fn tile_rows(self, scales: &Range<u64>) -> Range<u64> {
        scales.start / self.cols / Self::ROWS..(scales.end - 1) / self.cols / Self::ROWS + 1
    }

    /// The byte offset of a scale.
    fn place(self, scale: u64) -> u64 {
        let (row, col) = (scale / self.cols, scale % self.cols);
        let inside = row % 32 * 16 + row % Self::ROWS / 32 * 4 + col % COLS;
        row / Self::ROWS * self.row_bytes() + col / COLS * TILE_BYTES + inside
    }

    /// Wraps a decoder if its scales are swizzled.
    pub(super) fn around(swizzled: Option<Self>, decoder: Arc<dyn TileDecoder>) -> Arc<dyn TileDecoder> {
        match swizzled {
            None => decoder,
            Some(order) => Arc::new(Unswizzle { order, decoder }),
        }
    }
}

/// Wraps a decoder that reads its scales row by row: reorders the swizzled scales for it.
struct Unswizzle {
    order: Swizzled,
    decoder: Arc<dyn TileDecoder>,
}

impl std::hash::Hash for Unswizzle {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.order.hash(hasher);
        self.decoder.identify(hasher);
    }
}

impl Unswizzle {
    /// The windows of the inner decoder, and the index of the scales among them.
    fn inner_windows(&self, elements: Range<u64>) -> (Vec<Window>, Option<usize>) {
        let mut windows = Vec::new();
        self.decoder.windows(elements, &mut windows);
        let place = windows.iter().position(|window| window.part == SCALES && window.bytes() > 0);
        (windows, place)
    }
}

impl TileDecoder for Unswizzle {
    fn granule(&self) -> u64 {
        self.decoder.granule()
    }

    fn tile_bytes(&self) -> u64 {
        self.decoder.tile_bytes()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let (mut inner, place) = self.inner_windows(elements);
        if let Some(window) = place.and_then(|place| inner.get_mut(place)) {
            let rows = self.order.tile_rows(&(window.offset..window.offset + window.bytes()));
            let row_bytes = self.order.row_bytes();
            *window = Window::run(SCALES, rows.start * row_bytes, (rows.end - rows.start) * row_bytes);
        }
        windows.extend(inner);
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let (inner, place) = self.inner_windows(elements.clone());
        let Some((place, window)) = place.and_then(|place| Some((place, inner.get(place)?))) else {
            return self.decoder.decode(elements, inputs, target, out, context);
        };
        let scales = window.offset..window.offset + window.bytes();
        let first = self.order.tile_rows(&scales).start * self.order.row_bytes();
        let stored = inputs.get(place).copied().unwrap_or_default();
        let at = |scale: u64| stored.get((self.order.place(scale) - first) as usize).copied().unwrap_or_default();
        let ordered: Vec<u8> = scales.map(at).collect();
        let mut inputs = inputs.to_vec();
        if let Some(input) = inputs.get_mut(place) {
            *input = &ordered;
        }
        self.decoder.decode(elements, &inputs, target, out, context)
    }

    fn describe(&self) -> String {
        self.decoder.describe()
    }
}
