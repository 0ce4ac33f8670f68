//! The geometry of codes under scales.

use std::sync::Arc;

use super::build::{Build, Decoder, codes};
use super::format::block_size;
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{Arrangement, Grid, PartOrigin, RestoredParts, ScaleType, TransposedPart};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::grouped::{Arithmetic, Formula, GlobalScale, Grouped, Layout, Meaning, Offsets, Scales, Step};

/// The values that share a scale in NVFP4 and MXFP8.
const NVFP4_GROUP: u64 = 16;
const MXFP8_GROUP: u64 = 32;
/// Default group sizes.
const AWQ_GROUP: u64 = 64;
const INT8_BLOCK: u64 = 128;

impl Build<'_> {
    pub(super) fn nvfp4(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::U8])?;
        let [rows, bytes] = self.matrix()?;
        let cols = bytes.saturating_mul(2);
        let scales = self.tiles(rows, cols, NVFP4_GROUP, &[Dtype::F8E4M3, Dtype::U8])?;
        self.f32(1, &[&[], &[1]])?;
        let grouped = Grouped {
            layout: Layout::HighNibbles,
            meaning: Meaning::E2m1,
            scales: Scales { kind: ScaleType::E4m3, global: Some(GlobalScale::times(false)) },
            ..codes(rows, cols, 4, NVFP4_GROUP, "ComfyUI NVFP4")
        };
        let parts = vec![PartOrigin::Stored(0), scales, PartOrigin::Stored(2)];
        let decoder = Arc::new(RestoredParts::around(Arc::new(grouped), parts));
        Ok(Decoder { rows, cols, bits: 4, group: NVFP4_GROUP, decoder, steps: Vec::new() })
    }

    pub(super) fn mxfp8(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::F8E4M3])?;
        let [rows, cols] = self.matrix()?;
        let scales = self.tiles(rows, cols, MXFP8_GROUP, &[Dtype::F8E8M0, Dtype::U8])?;
        let grid = Grid::new(rows, cols, 1, MXFP8_GROUP, Arrangement::Block(1, MXFP8_GROUP));
        let inner = Fp8Decoder::new(Fp8Format::E4m3, grid, Some(ScaleType::ExponentField));
        let decoder = Arc::new(RestoredParts::around(Arc::new(inner), vec![PartOrigin::Stored(0), scales]));
        Ok(Decoder { rows, cols, bits: 8, group: MXFP8_GROUP, decoder, steps: Vec::new() })
    }

    pub(super) fn int8(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::I8])?;
        let [rows, cols] = self.matrix()?;
        self.f32(0, &[&[], &[1], &[1, 1], &[rows, 1]])?;
        let is_single = self.companion(0)?.elements() == 1;
        if let Some(per_row) = self.marker.flag(&["per_row"])?
            && rows > 1
            && per_row == is_single
        {
            let (name, shape) = (quoted(&self.companion(0)?.name), &self.companion(0)?.shape);
            return Err(AnamnesisError::parse(format!(
                "{name} has shape {shape:?}, and its marker says per_row: {per_row}"
            )));
        }
        let grid = match is_single {
            true => Grid::single(rows * cols),
            false => Grid::new(rows, cols, 1, cols, Arrangement::Row),
        };
        let decoder = Grouped {
            layout: Layout::bytes(8, grid.cols),
            meaning: Meaning::Signed,
            grid,
            ..codes(rows, cols, 8, cols, "ComfyUI INT8")
        };
        Ok(Decoder { rows, cols, bits: 8, group: cols, decoder: Arc::new(decoder), steps: Vec::new() })
    }

    pub(super) fn int8_blocks(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::I8])?;
        let [rows, cols] = self.matrix()?;
        let block = block_size(&self.marker, "group_size", INT8_BLOCK)?;
        if !rows.is_multiple_of(block) || !cols.is_multiple_of(block) {
            return Err(AnamnesisError::parse(format!("{rows} by {cols} values are not blocks of {block} by {block}")));
        }
        self.f32(0, &[&[rows / block, cols / block]])?;
        let decoder = Grouped {
            meaning: Meaning::Signed,
            grid: Grid::new(rows, cols, block, block, Arrangement::Block(block, block)),
            ..codes(rows, cols, 8, block, "ComfyUI INT8")
        };
        Ok(Decoder { rows, cols, bits: 8, group: block, decoder: Arc::new(decoder), steps: Vec::new() })
    }

    pub(super) fn convrot(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::I8])?;
        let [rows, bytes] = self.matrix()?;
        let cols = bytes.saturating_mul(2);
        self.f32(0, &[&[rows], &[rows, 1]])?;
        let decoder = Grouped { meaning: Meaning::SignedNibble, ..codes(rows, cols, 4, cols, "ComfyUI ConvRot W4A4") };
        Ok(Decoder { rows, cols, bits: 4, group: cols, decoder: Arc::new(decoder), steps: Vec::new() })
    }

    pub(super) fn awq(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::I8])?;
        let [rows, bytes] = self.matrix()?;
        let cols = bytes.saturating_mul(2);
        let group = block_size(&self.marker, "group_size", AWQ_GROUP)?;
        if !cols.is_multiple_of(group) {
            return Err(AnamnesisError::parse(format!("{cols} columns are not groups of {group}")));
        }
        let groups = cols / group;
        let (scale, zero) = (self.floats(0, &[&[groups, rows]])?, self.floats(1, &[&[groups, rows]])?);
        let grouped = Grouped {
            meaning: Meaning::CentredNibble,
            scales: Scales { kind: scale, global: None },
            offsets: Offsets::Stored { kind: zero, plus: 0 },
            arithmetic: Arithmetic { formula: Formula::Biased, step: Step::F32 },
            ..codes(rows, cols, 4, group, "ComfyUI AWQ W4A16")
        };
        let transposed = |part: usize, kind: ScaleType| {
            PartOrigin::Restored(Arc::new(TransposedPart { part, rows: groups, cols: rows, each: kind.bytes() }))
        };
        let parts = vec![PartOrigin::Stored(0), transposed(1, scale), transposed(2, zero)];
        let decoder = Arc::new(RestoredParts::around(Arc::new(grouped), parts));
        Ok(Decoder { rows, cols, bits: 4, group, decoder, steps: Vec::new() })
    }
}
