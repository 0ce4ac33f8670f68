//! The geometry of `svdquant_w4a4`, in rows or in tiles.

use std::sync::Arc;

use super::build::{Build, Decoder, codes};
use super::low_rank::{CodeTiles, LowRank, TILE_ROWS};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{PartOrigin, Refine, Restore, RestoredParts, TransposedPart};
use crate::scheme::grouped::{Grouped, Meaning, Scales};

/// The values that share a scale.
const GROUP: u64 = 64;

impl Build<'_> {
    pub(super) fn svdquant(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::I8])?;
        let layout = self.marker.text(&["layout"])?;
        let is_tiled = match (layout, &self.codes.shape[..]) {
            (Some("kitchen_tile_packed_w4a4") | None, [_, _, 32, 128]) => true,
            (None, [_, _]) => false,
            (layout, shape) => {
                let layout = layout.map_or_else(|| "none".to_owned(), quoted);
                return Err(AnamnesisError::parse(format!(
                    "its shape is {shape:?}, and the layout of its marker {layout}"
                )));
            }
        };
        let [rows, cols] = match self.codes.shape[..] {
            [strips, groups, ..] if is_tiled => [strips as u64 * TILE_ROWS, groups as u64 * GROUP],
            _ => {
                let [rows, bytes] = self.matrix()?;
                [rows, bytes.saturating_mul(2)]
            }
        };
        if rows == 0 || cols == 0 || !cols.is_multiple_of(GROUP) {
            return Err(AnamnesisError::parse(format!("{cols} columns are not groups of {GROUP}")));
        }
        let groups = cols / GROUP;
        let rank = match self.companion(1)?.shape[..] {
            [found, rank] if found as u64 == cols && rank > 0 => rank as u64,
            _ => {
                let down = self.companion(1)?;
                return Err(AnamnesisError::parse(format!("{} has shape {:?}", quoted(&down.name), down.shape)));
            }
        };
        let strips = rows / TILE_ROWS;
        let scale = match is_tiled {
            true => self.floats(0, &[&[strips, groups, TILE_ROWS]])?,
            false => self.floats(0, &[&[groups, rows]])?,
        };
        let up = match is_tiled {
            true => self.floats(2, &[&[strips, rank, TILE_ROWS]])?,
            false => self.floats(2, &[&[rows, rank]])?,
        };
        let (down, smooth) = (self.floats(1, &[&[cols, rank]])?, self.floats(3, &[&[cols]])?);
        let grouped = Grouped {
            meaning: Meaning::SignedNibble,
            scales: Scales { kind: scale, global: None },
            ..codes(rows, cols, 4, GROUP, "ComfyUI SVDQuant W4A4")
        };
        let width = if is_tiled { TILE_ROWS } else { rows };
        let scales = TransposedPart { part: 1, rows: groups, cols: width, each: scale.bytes() };
        let tiles: Arc<dyn Restore> = Arc::new(CodeTiles { row_bytes: cols / 2 });
        let stored = if is_tiled { PartOrigin::Restored(tiles) } else { PartOrigin::Stored(0) };
        let decoder = RestoredParts {
            granule: is_tiled.then_some(TILE_ROWS * cols),
            ..RestoredParts::around(Arc::new(grouped), vec![stored, PartOrigin::Restored(Arc::new(scales))])
        };
        let low_rank = LowRank { cols, rank, down: (2, down), up: (3, up), smooth: (4, smooth), is_tiled };
        let steps: Vec<Arc<dyn Refine>> = vec![Arc::new(low_rank)];
        Ok(Decoder { rows, cols, bits: 4, group: GROUP, decoder: Arc::new(decoder), steps })
    }
}
