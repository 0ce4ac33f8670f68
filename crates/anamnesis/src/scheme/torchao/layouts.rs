//! The layouts of the tensor subclasses that are decoded.

use std::sync::Arc;

use super::description::{Description, float8_name};
use crate::catalog::{Dtype, StoredTensor, TargetDtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{Arrangement, Grid, PartOrigin, RestoredParts, Rounded, ScaleType, Swizzled, TileDecoder};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::grouped::{Arithmetic, Formula, GlobalScale, Grouped, Layout, Meaning, Offsets, Scales, Step};

/// A stored part, by its name in the description.
pub(super) struct Part<'a> {
    pub id: TensorId,
    pub name: &'a str,
    pub tensor: &'a StoredTensor,
}

/// The parts of one tensor.
pub(super) struct Parts<'a>(pub Vec<Part<'a>>);

/// How a tensor is decoded.
pub(super) struct Decoded {
    pub shape: Vec<usize>,
    pub bits: u8,
    pub block: Option<(u64, u64)>,
    pub symmetric: Option<bool>,
    pub parts: Vec<TensorId>,
    pub decoder: Arc<dyn TileDecoder>,
}

impl<'a> Parts<'a> {
    fn find(&self, name: &str) -> Option<&Part<'a>> {
        self.0.iter().find(|part| part.name == name)
    }

    fn needed(&self, description: &Description, name: &str) -> Result<&Part<'a>> {
        self.find(name).ok_or_else(|| description.wrong("_tensor_data_names", name))
    }

    /// Refuses parts that the layout does not know.
    fn only(&self, description: &Description, known: &[&str]) -> Result<()> {
        match self.0.iter().find(|part| !known.contains(&part.name)) {
            None => Ok(()),
            Some(part) => Err(description.refused(&format!("{} is not decoded with it", quoted(&part.tensor.name)))),
        }
    }
}

/// How a tensor is decoded; `configured` are the types of eight-bit floats in the configuration.
pub(super) fn layout(description: &Description, parts: &Parts<'_>, configured: &[Dtype]) -> Result<Decoded> {
    match description.kind.as_str() {
        "Float8Tensor" => float8(description, parts, configured),
        "Int8Tensor" | "IntxUnpackedToInt8Tensor" => int8(description, parts),
        "MXTensor" => mx(description, parts),
        "NVFP4Tensor" => nvfp4(description, parts),
        "Int4TilePackedTo4dTensor" => {
            Err(description.refused("its codes are stored in the tile order of one kind of GPU"))
        }
        "Int4PlainInt32Tensor" | "Int4Tensor" => {
            Err(description.refused("its codes are packed by a library for one kind of device"))
        }
        _ => Err(description.refused("this type is not known")),
    }
}

fn mismatch(part: &Part<'_>, of: &[usize]) -> AnamnesisError {
    let (name, found) = (quoted(&part.tensor.name), &part.tensor.shape);
    AnamnesisError::parse(format!("{name} has shape {found:?}, which does not fit a tensor of shape {of:?}"))
}

fn wrong_type(part: &Part<'_>, needed: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("{} is {}; {needed} is needed", quoted(&part.tensor.name), part.tensor.dtype))
}

/// The grid of scales with as many dimensions as the tensor: each dimension is cut into as many blocks as the scales
/// have indices.
fn grid(description: &Description, shape: &[usize], scale: &Part<'_>) -> Result<Grid> {
    let fits = || mismatch(scale, shape);
    if shape.len() < 2 || shape.len() != scale.tensor.shape.len() || shape.contains(&0) {
        return Err(fits());
    }
    let blocks: Option<Vec<u64>> = shape
        .iter()
        .zip(&scale.tensor.shape)
        .map(|(&dim, &count)| (count > 0 && dim.is_multiple_of(count)).then(|| (dim / count) as u64))
        .collect();
    let blocks = blocks.ok_or_else(fits)?;
    if let Some(found) = description.sizes("block_size")?.filter(|found| *found != blocks) {
        return Err(description.wrong("block_size", &format!("{blocks:?} instead of {found:?}")));
    }
    let [stack @ .., block_rows, block_cols] = &blocks[..] else { return Err(fits()) };
    let total = scale.tensor.elements();
    let [.., rows, cols] = shape else { return Err(fits()) };
    let (rows, cols) = (*rows as u64, *cols as u64);
    match (total, stack.iter().all(|&block| block == 1)) {
        (1, _) => Ok(Grid::single(shape.iter().fold(1, |product, &dim| product * dim as u64))),
        (_, true) => Ok(Grid::new(rows, cols, *block_rows, *block_cols, Arrangement::Block(*block_rows, *block_cols))),
        _ => Err(description.refused("scales that matrices of a stack share are not decoded")),
    }
}

fn step(target: TargetDtype) -> Step {
    match target {
        TargetDtype::BF16 => Step::Bf16,
        TargetDtype::F16 => Step::F16,
        TargetDtype::F32 => Step::F32,
    }
}

fn float_scale(part: &Part<'_>) -> Result<ScaleType> {
    ScaleType::of_float(part.tensor.dtype).ok_or_else(|| wrong_type(part, "F32, BF16 or F16"))
}

fn float8(description: &Description, parts: &Parts<'_>, configured: &[Dtype]) -> Result<Decoded> {
    parts.only(description, &["qdata", "scale"])?;
    let (codes, scale) = (parts.needed(description, "qdata")?, parts.needed(description, "scale")?);
    let format = match codes.tensor.dtype {
        Dtype::F8E4M3 => Fp8Format::E4m3,
        Dtype::F8E5M2 => Fp8Format::E5m2,
        _ => return Err(wrong_type(codes, "F8_E4M3 or F8_E5M2")),
    };
    if !configured.is_empty() && !configured.contains(&codes.tensor.dtype) {
        let configured = configured.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(" or ");
        return Err(wrong_type(codes, &format!("{configured}, the quant_type of the configuration,")));
    }
    let target = description.target("dtype")?;
    let shape = codes.tensor.shape.clone();
    let grid = grid(description, &shape, scale)?;
    let decoder = Arc::new(Fp8Decoder::new(format, grid, Some(float_scale(scale)?)));
    Ok(Decoded {
        shape,
        bits: 8,
        block: Some((grid.block_rows, grid.block_cols)),
        symmetric: Some(true),
        parts: vec![codes.id, scale.id],
        decoder: Rounded::to(target, decoder),
    })
}

fn int8(description: &Description, parts: &Parts<'_>) -> Result<Decoded> {
    parts.only(description, &["qdata", "scale", "zero_point"])?;
    let (codes, scale) = (parts.needed(description, "qdata")?, parts.needed(description, "scale")?);
    if codes.tensor.dtype != Dtype::I8 {
        return Err(wrong_type(codes, "I8"));
    }
    let target = description.target("dtype")?;
    let shape = codes.tensor.shape.clone();
    let grid = grid(description, &shape, scale)?;
    let zero = parts.find("zero_point");
    if let Some(zero) = zero.filter(|zero| zero.tensor.shape != scale.tensor.shape) {
        return Err(mismatch(zero, &scale.tensor.shape));
    }
    let offsets = match zero.map(|zero| (zero, zero.tensor.dtype, ScaleType::of_float(zero.tensor.dtype))) {
        None => Offsets::None,
        Some((_, Dtype::I8, _)) => Offsets::Stored { kind: ScaleType::I8, plus: 0 },
        Some((_, _, Some(kind))) => Offsets::Stored { kind, plus: 0 },
        Some((zero, ..)) => return Err(wrong_type(zero, "I8, F32, BF16 or F16")),
    };
    let bits = match description.kind.as_str() {
        "Int8Tensor" => 8,
        _ => match description.type_name("target_dtype")?.strip_prefix("int").map(str::parse) {
            Some(Ok(bits @ 1..=8)) => bits,
            _ => return Err(description.wrong("target_dtype", "int1 to int8")),
        },
    };
    let decoder = Grouped {
        layout: Layout::bytes(8, grid.cols),
        meaning: Meaning::Signed,
        grid,
        scales: Scales { kind: float_scale(scale)?, global: None },
        offsets,
        is_indexed: false,
        arithmetic: Arithmetic { formula: Formula::Affine, step: step(target) },
        description: format!("torchao {}", description.kind),
    };
    Ok(Decoded {
        shape,
        bits,
        block: Some((grid.block_rows, grid.block_cols)),
        symmetric: zero.is_none().then_some(true),
        parts: [codes.id, scale.id].into_iter().chain(zero.map(|zero| zero.id)).collect(),
        decoder: Arc::new(decoder),
    })
}

/// The shape of a tensor whose codes are stored two to a byte.
fn unpacked(codes: &Part<'_>) -> Result<Vec<usize>> {
    let mut shape = codes.tensor.shape.clone();
    match shape.last_mut().and_then(|last| Some((last.checked_mul(2)?, last))) {
        Some((doubled, last)) => *last = doubled,
        None => return Err(mismatch(codes, &[])),
    }
    Ok(shape)
}

/// The part index of the scales.
const SCALES: usize = 1;

/// Wraps a decoder that reads its scales row by row, if they are swizzled.
fn in_rows(swizzled: Option<Swizzled>, decoder: Arc<dyn TileDecoder>) -> Arc<dyn TileDecoder> {
    match swizzled {
        None => decoder,
        Some(swizzled) => {
            let parts = vec![PartOrigin::Stored(0), PartOrigin::Restored(Arc::new(swizzled)), PartOrigin::Stored(2)];
            Arc::new(RestoredParts::around(decoder, parts))
        }
    }
}

/// The grid of scales for blocks of `size` values of a row, and their swizzled order if they have one.
fn row_blocks(
    description: &Description,
    shape: &[usize],
    scale: &Part<'_>,
    size: u64,
) -> Result<(Grid, Option<Swizzled>)> {
    let [stack @ .., rows, cols] = shape else { return Err(mismatch(scale, shape)) };
    let (rows, cols) = (*rows as u64, *cols as u64);
    if shape.contains(&0) || !cols.is_multiple_of(size) {
        return Err(description.wrong("block_size", &format!("a size that divides {cols}")));
    }
    let grid = Grid::new(rows, cols, 1, size, Arrangement::Block(1, size));
    let blocks = (cols / size) as usize;
    let mut plain = shape.to_vec();
    if let Some(last) = plain.last_mut() {
        *last = blocks;
    }
    if !description.flag("is_swizzled_scales")? {
        return if scale.tensor.shape == plain { Ok((grid, None)) } else { Err(mismatch(scale, shape)) };
    }
    let all_rows = stack.iter().fold(rows, |product, &dim| product.saturating_mul(dim as u64));
    let swizzled = Swizzled { part: SCALES, cols: blocks as u64 };
    let stored = Swizzled::padded(all_rows, swizzled.cols).and_then(|[rows, cols]| rows.checked_mul(cols));
    // The scales of a stack are swizzled as those of one tall matrix; no matrix may end inside a tile.
    let is_whole = stack.iter().all(|&dim| dim == 1) || rows.is_multiple_of(Swizzled::ROWS);
    match is_whole && Some(scale.tensor.elements()) == stored && scale.tensor.shape.len() == shape.len() {
        true => Ok((grid, Some(swizzled))),
        false => Err(mismatch(scale, shape)),
    }
}

fn mx(description: &Description, parts: &Parts<'_>) -> Result<Decoded> {
    parts.only(description, &["qdata", "scale"])?;
    let (codes, scale) = (parts.needed(description, "qdata")?, parts.needed(description, "scale")?);
    if scale.tensor.dtype != Dtype::F8E8M0 {
        return Err(wrong_type(scale, "F8_E8M0"));
    }
    let target = match description.target("orig_dtype")? {
        // The library first rounds the scales to this type, where powers of two overflow.
        TargetDtype::F16 => return Err(description.refused("its orig_dtype is float16, which is not decoded")),
        target => target,
    };
    let (elements, size) = (description.type_name("elem_dtype")?, description.size("block_size")?);
    let format = Fp8Format::of(codes.tensor.dtype).filter(|_| float8_name(codes.tensor.dtype) == elements);
    let (shape, bits) = match (codes.tensor.dtype, elements) {
        (Dtype::U8, "float4_e2m1fn_x2") => (unpacked(codes)?, 4),
        _ if format.is_some() => (codes.tensor.shape.clone(), 8),
        _ => return Err(description.refused(&format!("its codes are {elements} stored as {}", codes.tensor.dtype))),
    };
    let (grid, swizzled) = row_blocks(description, &shape, scale, size)?;
    let decoder: Arc<dyn TileDecoder> = match format {
        Some(format) => Arc::new(Fp8Decoder::new(format, grid, Some(ScaleType::E8m0))),
        None => Arc::new(four_bit(description, grid, Scales { kind: ScaleType::E8m0, global: None })),
    };
    Ok(Decoded {
        shape,
        bits,
        block: Some((1, size)),
        symmetric: Some(true),
        parts: vec![codes.id, scale.id],
        decoder: Rounded::to(target, in_rows(swizzled, decoder)),
    })
}

fn nvfp4(description: &Description, parts: &Parts<'_>) -> Result<Decoded> {
    parts.only(description, &["qdata", "scale", "per_tensor_scale"])?;
    let (codes, scale) = (parts.needed(description, "qdata")?, parts.needed(description, "scale")?);
    if codes.tensor.dtype != Dtype::U8 {
        return Err(wrong_type(codes, "U8"));
    }
    if scale.tensor.dtype != Dtype::F8E4M3 {
        return Err(wrong_type(scale, "F8_E4M3"));
    }
    let (target, size) = (description.target("orig_dtype")?, description.size("block_size")?);
    let shape = unpacked(codes)?;
    let (grid, swizzled) = row_blocks(description, &shape, scale, size)?;
    let global = parts.find("per_tensor_scale");
    let global_scale = match global.map(|global| (global, &global.tensor.shape[..])) {
        None => None,
        Some((global, _)) if global.tensor.dtype != Dtype::F32 => return Err(wrong_type(global, "F32")),
        Some((_, [])) => Some(GlobalScale::times(false)),
        Some((_, [stack, 1, 1])) if shape.len() == 3 && shape.first() == Some(stack) => Some(GlobalScale::times(true)),
        Some((global, _)) => return Err(mismatch(global, &shape)),
    };
    let decoder = four_bit(description, grid, Scales { kind: ScaleType::E4m3, global: global_scale });
    Ok(Decoded {
        shape,
        bits: 4,
        block: Some((1, size)),
        symmetric: Some(true),
        parts: [codes.id, scale.id].into_iter().chain(global.map(|global| global.id)).collect(),
        decoder: Rounded::to(target, in_rows(swizzled, Arc::new(decoder))),
    })
}

/// The decoder of four-bit floats, the first of a byte in the low nibble.
fn four_bit(description: &Description, grid: Grid, scales: Scales) -> Grouped {
    Grouped {
        layout: Layout::bytes(4, grid.cols),
        meaning: Meaning::E2m1,
        grid,
        scales,
        offsets: Offsets::None,
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: format!("torchao {}", description.kind),
    }
}
