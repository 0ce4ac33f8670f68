//! The geometry of `asym_w4a8_int8`: scales of groups and rows, an optional codebook and an optional correction.

use std::sync::Arc;

use super::build::{Build, Decoder, codes};
use super::format::block_size;
use super::levels::{CODEBOOK, Levels};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{PartOrigin, PlusGroups, Refine, RestoredParts, ScaleType, TransposedPart};
use crate::scheme::grouped::{Grouped, Meaning};

/// The default group size.
const GROUP: u64 = 16;

impl Build<'_> {
    pub(super) fn w4a8(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::I8])?;
        let [rows, bytes] = self.matrix()?;
        let group = block_size(&self.marker, "group_size", GROUP)?;
        let rel = self.companion(0)?;
        let scale = match rel.dtype {
            Dtype::F8E4M3 | Dtype::U8 => ScaleType::E4m3,
            Dtype::F32 => ScaleType::F32,
            _ => return Err(self.wrong_type(0, "F8_E4M3, U8 or F32")),
        };
        let groups = match rel.shape[..] {
            [found, groups] if found as u64 == rows && groups > 0 => groups as u64,
            _ => return Err(AnamnesisError::parse(format!("{} has shape {:?}", quoted(&rel.name), rel.shape))),
        };
        let cols = groups.saturating_mul(group);
        let bits = [4, 6].into_iter().find(|bits| cols.checked_mul(*bits) == bytes.checked_mul(8));
        let bits = bits.filter(|bits| cols.is_multiple_of(if *bits == 6 { 4 } else { 2 }));
        let bits = bits.ok_or_else(|| {
            AnamnesisError::parse(format!("{bytes} bytes a row do not hold {cols} codes of four or six bits"))
        })?;
        self.f32(1, &[&[rows], &[rows, 1]])?;
        let mut next_part = 3;
        let mut part_of = |index: usize| {
            self.companions.get(index).copied().flatten()?;
            next_part += 1;
            Some(next_part - 1)
        };
        let (codebook, correction) = (part_of(2), part_of(3));
        if codebook.is_some() {
            self.f32(2, &[&[CODEBOOK as u64]])?;
            if bits != 4 {
                return Err(AnamnesisError::parse("it has a codebook of 16 levels for codes of six bits"));
            }
        }
        let mut steps: Vec<Arc<dyn Refine>> = Vec::new();
        if let Some(part) = correction {
            let kind = self.floats(3, &[&[groups, rows]])?;
            let stored = TransposedPart { part, rows: groups, cols: rows, each: kind.bytes() };
            steps.push(Arc::new(PlusGroups { stored, kind, groups, group }));
        }
        let levels = Levels { cols, group, bits, scale, codebook };
        let grouped = Grouped { meaning: Meaning::Signed, ..codes(rows, cols, 8, cols, "ComfyUI W4A8") };
        // The scale per row is part 2: part 1 are the scales of groups.
        let parts = vec![PartOrigin::Restored(Arc::new(levels)), PartOrigin::Stored(2)];
        let decoder = Arc::new(RestoredParts::around(Arc::new(grouped), parts));
        Ok(Decoder { rows, cols, bits: bits as u8, group, decoder, steps })
    }
}
