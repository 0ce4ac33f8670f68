//! The geometry of a marked weight, from its format, the shapes of its parts and the options of its marker.

use std::sync::Arc;

use super::format::{Format, block_size};
use super::levels::{CODEBOOK, Levels};
use super::low_rank::{CodeTiles, LowRank, TILE_ROWS};
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::quant_config::Args;
use crate::scheme::claim::{Blocks, Claims, QuantScheme, TensorRole, Weight};
use crate::scheme::coder::{
    Arrangement, Coding, Evidence, Grid, PartOrigin, PlusGroups, Recipe, Refine, Refined, Restore, RestoredParts,
    ScaleType, Swizzled, TileDecoder, TransposedPart,
};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::grouped::{Arithmetic, Formula, GlobalScale, Grouped, Layout, Meaning, Offsets, Scales, Step};

/// The values that share a scale in NVFP4, MXFP8 and SVDQuant.
const NVFP4_GROUP: u64 = 16;
const MXFP8_GROUP: u64 = 32;
const SVDQUANT_GROUP: u64 = 64;
/// Default group sizes.
const W4A8_GROUP: u64 = 16;
const AWQ_GROUP: u64 = 64;
const INT8_BLOCK: u64 = 128;

/// The stored tensors of a weight.
pub(super) struct Parts {
    format: Format,
    weight: TensorId,
    /// The companions, in the order of the format's [parts](Format::parts).
    companions: Vec<Option<TensorId>>,
    /// A companion under its other name too.
    duplicate: Option<TensorId>,
}

impl Parts {
    /// Claims the codes of a weight and the companions that are present.
    pub(super) fn take(claims: &mut Claims<'_>, module: &str, weight: TensorId, format: Format) -> Self {
        claims.take(weight, TensorRole::Quantized);
        let mut duplicate = None;
        let mut companion = |name: &str| {
            let id = claims.find_unclaimed(&in_module(module, name))?;
            claims.take(id, TensorRole::Scale);
            Some(id)
        };
        let companions = format.parts().iter().map(|part| {
            let [first, second] = part.names.map(&mut companion);
            duplicate = duplicate.or(first.and(second));
            first.or(second)
        });
        let companions = companions.collect();
        Self { format, weight, companions, duplicate }
    }
}

fn in_module(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}.{name}") }
}

/// A weight while it is checked: its parts, and the options of its marker.
struct Build<'a> {
    codes: &'a StoredTensor,
    companions: Vec<Option<&'a StoredTensor>>,
    marker: Args<'a>,
}

/// A decoder and its geometry.
struct Decoder {
    rows: u64,
    cols: u64,
    bits: u8,
    group: u64,
    decoder: Arc<dyn TileDecoder>,
    steps: Vec<Arc<dyn Refine>>,
}

pub(super) fn weight(claims: &Claims<'_>, module: &str, parts: &Parts) -> Result<Weight> {
    let catalog = claims.catalog;
    let codes = catalog.get(parts.weight);
    let config = claims.config.module(module);
    let marker = config.marker().cloned().unwrap_or_default();
    if let Some(id) = parts.duplicate {
        return Err(AnamnesisError::parse(format!("{} is stored under two names", quoted(&catalog.get(id).name))));
    }
    let scaled = in_module(module, "pre_quant_scale");
    if catalog.find(&scaled).is_some() || claims.elsewhere(&scaled).is_some() {
        let detail =
            format!("{} scales the inputs of its layer, which a decoded weight does not reproduce", quoted(&scaled));
        return Err(AnamnesisError::unsupported(parts.format.title(), detail));
    }
    let mut companions = Vec::new();
    for (part, id) in parts.format.parts().iter().zip(&parts.companions) {
        let names = part.names.map(|name| in_module(module, name));
        match id {
            Some(id) => companions.push(Some(catalog.get(*id))),
            None => {
                if let Some(place) = names.iter().find_map(|name| claims.elsewhere(name)) {
                    return Err(AnamnesisError::parse(format!("its {} is not here: {place}", quoted(&names[0]))));
                }
                if part.is_needed {
                    return Err(AnamnesisError::parse(format!("it has no {}", quoted(&names[0]))));
                }
                companions.push(None);
            }
        }
    }
    let build = Build { codes, companions, marker };
    let Decoder { rows, cols, bits, group, decoder, mut steps } = match parts.format {
        Format::Nvfp4 => build.nvfp4()?,
        Format::Mxfp8 => build.mxfp8()?,
        Format::Int8 => build.int8()?,
        Format::Int8Blocks => build.int8_blocks()?,
        Format::ConvRotW4A4 => build.convrot()?,
        Format::W4A8 => build.w4a8()?,
        Format::Awq => build.awq()?,
        Format::SvdQuant => build.svdquant()?,
    };
    if let Some(rotation) = parts.format.rotation(&build.marker)? {
        let group = rotation.group();
        if !cols.is_multiple_of(group) {
            return Err(AnamnesisError::parse(format!("{cols} columns are not groups of {group}, which are rotated")));
        }
        steps.push(Arc::new(rotation));
    }
    let values =
        rows.checked_mul(cols).ok_or_else(|| AnamnesisError::parse("its number of values overflows 64 bits"))?;
    let place = build.marker.place().map(|place| place.to_string()).unwrap_or_default();
    let ids = std::iter::once(parts.weight).chain(parts.companions.iter().copied().flatten());
    Ok(Weight {
        name: codes.name.clone(),
        shape: vec![rows as usize, cols as usize],
        values,
        scheme: QuantScheme::Named(parts.format.title()),
        blocks: Some(Blocks { bits, size: group, nested: false }),
        coding: Coding {
            format: build.marker.text(&["format"])?.unwrap_or("int8_tensorwise").to_owned(),
            bits: Some(bits),
            group_size: Some(group).filter(|group| *group < cols),
            symmetric: Some(parts.format != Format::Awq),
            evidence: Evidence::Configuration(place),
            ..Coding::default()
        },
        parts: ids.collect(),
        recipe: Recipe::Ready(Refined::around(decoder, [rows, cols], steps)),
    })
}

impl Build<'_> {
    /// Refuses codes of another type.
    fn check_dtype(&self, allowed: &[Dtype]) -> Result<()> {
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
    fn matrix(&self) -> Result<[u64; 2]> {
        match self.codes.shape[..] {
            [rows, cols] if rows > 0 && cols > 0 => Ok([rows as u64, cols as u64]),
            _ => Err(AnamnesisError::parse(format!("its shape is {:?}; a matrix is needed", self.codes.shape))),
        }
    }

    fn companion(&self, index: usize) -> Result<&StoredTensor> {
        let found = self.companions.get(index).copied().flatten();
        found.ok_or_else(|| AnamnesisError::internal("a companion that was checked is missing"))
    }

    /// The type of a companion, which must be one of these shapes.
    fn checked(&self, index: usize, shapes: &[&[u64]]) -> Result<Dtype> {
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
    fn floats(&self, index: usize, shapes: &[&[u64]]) -> Result<ScaleType> {
        let dtype = self.checked(index, shapes)?;
        ScaleType::of_float(dtype).ok_or_else(|| self.wrong_type(index, "F32, BF16 or F16"))
    }

    /// A companion of F32 and one of these shapes.
    fn f32(&self, index: usize, shapes: &[&[u64]]) -> Result<()> {
        match self.checked(index, shapes)? {
            Dtype::F32 => Ok(()),
            _ => Err(self.wrong_type(index, "F32")),
        }
    }

    fn wrong_type(&self, index: usize, needed: &str) -> AnamnesisError {
        let part = self.companions.get(index).copied().flatten();
        let (name, dtype) = part.map_or((String::new(), ""), |part| (quoted(&part.name), part.dtype.name()));
        AnamnesisError::parse(format!("{name} is {dtype}; {needed} is needed"))
    }

    /// The origin of the scales in tiles, one per `group` columns.
    fn tiles(&self, rows: u64, cols: u64, group: u64, dtypes: &[Dtype]) -> Result<PartOrigin> {
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

    fn nvfp4(&self) -> Result<Decoder> {
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

    fn mxfp8(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::F8E4M3])?;
        let [rows, cols] = self.matrix()?;
        let scales = self.tiles(rows, cols, MXFP8_GROUP, &[Dtype::F8E8M0, Dtype::U8])?;
        let grid = Grid::new(rows, cols, 1, MXFP8_GROUP, Arrangement::Block(1, MXFP8_GROUP));
        let inner = Fp8Decoder::new(Fp8Format::E4m3, grid, Some(ScaleType::ExponentField));
        let decoder = Arc::new(RestoredParts::around(Arc::new(inner), vec![PartOrigin::Stored(0), scales]));
        Ok(Decoder { rows, cols, bits: 8, group: MXFP8_GROUP, decoder, steps: Vec::new() })
    }

    fn int8(&self) -> Result<Decoder> {
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

    fn int8_blocks(&self) -> Result<Decoder> {
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

    fn convrot(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::I8])?;
        let [rows, bytes] = self.matrix()?;
        let cols = bytes.saturating_mul(2);
        self.f32(0, &[&[rows], &[rows, 1]])?;
        let decoder = Grouped { meaning: Meaning::SignedNibble, ..codes(rows, cols, 4, cols, "ComfyUI ConvRot W4A4") };
        Ok(Decoder { rows, cols, bits: 4, group: cols, decoder: Arc::new(decoder), steps: Vec::new() })
    }

    fn w4a8(&self) -> Result<Decoder> {
        self.check_dtype(&[Dtype::I8])?;
        let [rows, bytes] = self.matrix()?;
        let group = block_size(&self.marker, "group_size", W4A8_GROUP)?;
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

    fn awq(&self) -> Result<Decoder> {
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

    fn svdquant(&self) -> Result<Decoder> {
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
            [strips, groups, ..] if is_tiled => [strips as u64 * TILE_ROWS, groups as u64 * SVDQUANT_GROUP],
            _ => {
                let [rows, bytes] = self.matrix()?;
                [rows, bytes.saturating_mul(2)]
            }
        };
        if rows == 0 || cols == 0 || !cols.is_multiple_of(SVDQUANT_GROUP) {
            return Err(AnamnesisError::parse(format!("{cols} columns are not groups of {SVDQUANT_GROUP}")));
        }
        let groups = cols / SVDQUANT_GROUP;
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
            ..codes(rows, cols, 4, SVDQUANT_GROUP, "ComfyUI SVDQuant W4A4")
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
        Ok(Decoder { rows, cols, bits: 4, group: SVDQUANT_GROUP, decoder: Arc::new(decoder), steps })
    }
}

/// Codes of `bits` bits, row by row, with an F32 scale for every `group` of a row.
fn codes(rows: u64, cols: u64, bits: u8, group: u64, description: &str) -> Grouped {
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
