//! The checks that all formats share: types and shapes of codes and companions.

use std::sync::Arc;

use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::Args;
use crate::scheme::coder::{Arrangement, Grid, PartOrigin, Refine, ScaleType, Swizzled, TileDecoder};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Scales};

/// A weight while it is checked: its parts, and the options of its marker.
pub(super) struct Build<'a> {
    pub codes: &'a StoredTensor,
    pub companions: Vec<Option<&'a StoredTensor>>,
    pub marker: Args<'a>,
}

/// A decoder and its geometry.
pub(super) struct Decoder {
    pub rows: u64,
    pub cols: u64,
    pub bits: u8,
    pub group: u64,
    pub decoder: Arc<dyn TileDecoder>,
    pub steps: Vec<Arc<dyn Refine>>,
}

impl Build<'_> {
    /// Refuses codes of another type.
    pub(super) fn check_dtype(&self, allowed: &[Dtype]) -> Result<()> {
        match allowed.contains(&self.codes.dtype) {
            true => Ok(()),
            false => Err(AnamnesisError::parse(format!(
                "it is {}, and its marker says {}",
                self.codes.dtype,
                allowed.first().map_or("", |dtype| dtype.name())
            ))),
        }
    }

    /// The rows of the codes, and the elements of a row.
    pub(super) fn matrix(&self) -> Result<[u64; 2]> {
        match self.codes.shape[..] {
            [rows, cols] if rows > 0 && cols > 0 => Ok([rows as u64, cols as u64]),
            _ => Err(AnamnesisError::parse(format!("its shape is {:?}; a matrix is needed", self.codes.shape))),
        }
    }

    pub(super) fn companion(&self, index: usize) -> Result<&StoredTensor> {
        let found = self.companions.get(index).copied().flatten();
        found.ok_or_else(|| AnamnesisError::internal("a companion that was checked is missing"))
    }

    /// The type of a companion, which must be one of these shapes.
    pub(super) fn checked(&self, index: usize, shapes: &[&[u64]]) -> Result<Dtype> {
        let part = self.companion(index)?;
        let is_shape = |shape: &&[u64]| part.shape.iter().map(|&dim| dim as u64).eq(shape.iter().copied());
        match shapes.iter().any(is_shape) {
            true => Ok(part.dtype),
            false => {
                let needed = shapes.iter().map(|shape| format!("{shape:?}")).collect::<Vec<_>>().join(" or ");
                Err(AnamnesisError::parse(format!(
                    "{} has shape {:?}; {needed} is needed",
                    quoted(&part.name),
                    part.shape
                )))
            }
        }
    }

    /// A companion of an ordinary float type and one of these shapes.
    pub(super) fn floats(&self, index: usize, shapes: &[&[u64]]) -> Result<ScaleType> {
        let dtype = self.checked(index, shapes)?;
        ScaleType::of_float(dtype).ok_or_else(|| self.wrong_type(index, "F32, BF16 or F16"))
    }

    /// A companion of F32 and one of these shapes.
    pub(super) fn f32(&self, index: usize, shapes: &[&[u64]]) -> Result<()> {
        match self.checked(index, shapes)? {
            Dtype::F32 => Ok(()),
            _ => Err(self.wrong_type(index, "F32")),
        }
    }

    pub(super) fn wrong_type(&self, index: usize, needed: &str) -> AnamnesisError {
        let part = self.companions.get(index).copied().flatten();
        let (name, dtype) = part.map_or((String::new(), ""), |part| (quoted(&part.name), part.dtype.name()));
        AnamnesisError::parse(format!("{name} is {dtype}; {needed} is needed"))
    }

    /// The origin of the scales in tiles, one per `group` columns.
    pub(super) fn tiles(&self, rows: u64, cols: u64, group: u64, dtypes: &[Dtype]) -> Result<PartOrigin> {
        if !cols.is_multiple_of(group) {
            return Err(AnamnesisError::parse(format!("{cols} columns are not groups of {group}")));
        }
        let grid = Swizzled { part: 1, cols: cols / group };
        let shape = Swizzled::padded(rows, grid.cols).unwrap_or_default();
        let dtype = self.checked(0, &[&shape])?;
        match dtypes.contains(&dtype) {
            true => Ok(PartOrigin::Restored(Arc::new(grid))),
            false => Err(self.wrong_type(0, dtypes.first().map_or("", |dtype| dtype.name()))),
        }
    }
}

/// Codes of `bits` bits, row by row, with an F32 scale for every `group` of a row.
pub(super) fn codes(rows: u64, cols: u64, bits: u8, group: u64, description: &str) -> Grouped {
    let arrangement = if group == cols { Arrangement::Row } else { Arrangement::Block(1, group) };
    Grouped {
        layout: Layout::bytes(bits, cols),
        meaning: Meaning::Unsigned,
        grid: Grid::new(rows, cols, 1, group, arrangement),
        scales: Scales { kind: ScaleType::F32, global: None },
        offsets: Offsets::None,
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: description.to_owned(),
    }
}
