//! The constant tensors of a model, with their scales.

use super::element::{Element, Nibbles};
use super::flatbuffer::{Table, Vector};
use super::names::{Place, distinct_names};
use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, Extent, ScaledCodes, StoredTensor};
use crate::container::pages::Pages;
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// Maximum number of tensors of all subgraphs.
const MAX_TENSORS: u64 = 1_000_000;
/// Minimum bytes of a tensor: its table, and the offset that leads to it.
const TENSOR_BYTES: u64 = 8;
const MAX_RANK: u64 = 64;
/// Maximum bytes of a name, and of all names together: tensors may share one.
const MAX_NAME_BYTES: u64 = 65_535;
const MAX_NAMES_BYTES: u64 = 64 << 20;
/// Extents are relative to the file; the caller sets its number.
const FILE: u32 = 0;

/// A constant tensor.
pub(super) struct Constant {
    pub(super) tensor: StoredTensor,
    /// How its bytes are computed, if they are not those of its extent.
    pub(super) nibbles: Option<Nibbles>,
    /// Its scales and zero points, which are tensors of their own.
    pub(super) scale: Option<(ScaledCodes, [StoredTensor; 2])>,
}

/// A constant before all names are known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Found {
    element: Element,
    shape: Vec<usize>,
    start: u64,
    bytes: u64,
    scales: Option<Scales>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Scales {
    scales: Vector,
    zeros: Vector,
    axis: Option<usize>,
}

/// The constants of all subgraphs, and why others cannot be read.
pub(super) fn constants(
    pages: &Pages<'_>,
    model: &Table<'_, '_>,
    budget: &mut Budget,
) -> Result<(Vec<Constant>, Vec<String>)> {
    let (graphs, buffers) = (model.vector(2, 4)?, model.vector(4, 4)?);
    budget.items(graphs.count, "subgraphs")?;
    let mut found: Vec<(Place, Found)> = Vec::new();
    let (mut refused, mut seen, mut name_bytes) = (Vec::new(), 0, 0);
    for graph in 0..graphs.count {
        let table = model.item(graphs, graph)?;
        let tensors = table.vector(0, 4)?;
        // Subgraphs may share their tensors, so the sum is bounded, not each count alone.
        seen += tensors.count;
        if seen > MAX_TENSORS || seen > pages.len() / TENSOR_BYTES {
            let why = format!("{seen} tensors in a file of {} bytes, {MAX_TENSORS} are allowed", pages.len());
            return Err(AnamnesisError::limit("MAX_TENSOR_COUNT", why));
        }
        budget.items(seen, "tensors")?;
        let graph_name = table.text(4, MAX_NAME_BYTES)?;
        for index in 0..tensors.count {
            let tensor = table.item(tensors, index)?;
            let Some(data) = data(pages, model, buffers, &tensor)? else { continue };
            let name = tensor.text(3, MAX_NAME_BYTES)?;
            name_bytes += (name.len() + graph_name.len()) as u64;
            if name_bytes > MAX_NAMES_BYTES {
                let why = format!("{name_bytes} bytes of names, {MAX_NAMES_BYTES} are allowed");
                return Err(AnamnesisError::limit("MAX_NAMES_BYTES", why));
            }
            let size = (size_of::<(Place, Found)>() + name.len() + graph_name.len()) as u64;
            budget.working_set(size, "a tensor's entry")?;
            match constant(&tensor, data).map_err(|error| error.in_tensor(&name))? {
                Ok(constant) => found.push((Place { name, graph, graph_name: graph_name.clone(), index }, constant)),
                Err(why) => refused.push(format!("tensor {} {why}", quoted(&name))),
            }
        }
    }
    // Subgraphs may contain the same constant.
    let mut shared = std::collections::HashSet::new();
    found.retain(|(place, constant)| shared.insert((place.name.clone(), constant.clone())));
    let names = distinct_names(found.iter().map(|(place, _)| place));
    let constants = names.into_iter().zip(found).map(|(names, (_, found))| found.named(names));
    Ok((constants.collect(), refused))
}

/// The offset and size of a tensor's data; `None` if it is no constant.
fn data(
    pages: &Pages<'_>,
    model: &Table<'_, '_>,
    buffers: Vector,
    tensor: &Table<'_, '_>,
) -> Result<Option<(u64, u64)>> {
    if tensor.u32(10)?.is_some_and(|buffer| buffer != 0) {
        return Err(AnamnesisError::unsupported(super::NAME, "a tensor has its data in another file"));
    }
    let buffer = u64::from(tensor.u32(2)?.unwrap_or_default());
    if buffer == 0 && buffers.count == 0 {
        return Ok(None);
    }
    let buffer = model.item(buffers, buffer)?;
    let data = buffer.vector(0, 1)?;
    if data.count > 0 {
        return Ok(Some((data.start, data.count)));
    }
    // An offset of 1 is a placeholder of the converter.
    match (buffer.u64(1)?.unwrap_or_default(), buffer.u64(2)?.unwrap_or_default()) {
        (0 | 1, _) | (_, 0) => Ok(None),
        (offset, size) => {
            pages.check(offset, size)?;
            Ok(Some((offset, size)))
        }
    }
}

/// One constant, or why it is not read.
fn constant(tensor: &Table<'_, '_>, data: (u64, u64)) -> Result<std::result::Result<Found, String>> {
    let element = match Element::of(tensor.u8(1)?.unwrap_or_default()) {
        Ok(element) => element,
        Err(name) => return Ok(Err(format!("has type {name}"))),
    };
    if tensor.table(6)?.is_some() {
        return Ok(Err("is sparse".to_owned()));
    }
    let shape = shape(tensor)?;
    let count = elements(&shape).ok_or_else(|| AnamnesisError::parse("it has more than 2^64 elements"))?;
    let (start, bytes) = data;
    if element.stored_bytes(count) != Some(bytes) {
        let dtype = element.dtype;
        return Err(AnamnesisError::parse(format!("its shape {shape:?} of {dtype} does not take its {bytes} bytes")));
    }
    let scales = match scales(tensor, element, &shape)? {
        Ok(scales) => scales,
        Err(why) => return Ok(Err(why)),
    };
    Ok(Ok(Found { element, shape, start, bytes, scales }))
}

fn shape(tensor: &Table<'_, '_>) -> Result<Vec<usize>> {
    let vector = tensor.vector(0, 4)?;
    if vector.count > MAX_RANK {
        return Err(AnamnesisError::parse(format!("it has {} dimensions, {MAX_RANK} are allowed", vector.count)));
    }
    let size = |index: u64| {
        let size = i32::from_le_bytes(tensor.array(vector.start + index * 4)?);
        usize::try_from(size).map_err(|_| AnamnesisError::parse(format!("its dimension {index} is {size}")))
    };
    (0..vector.count).map(size).collect()
}

/// The scales of integers; `None` if they are plain.
fn scales(
    tensor: &Table<'_, '_>,
    element: Element,
    shape: &[usize],
) -> Result<std::result::Result<Option<Scales>, String>> {
    let Some(table) = tensor.table(4)? else { return Ok(Ok(None)) };
    match table.u8(4)?.unwrap_or_default() {
        0 => {}
        1 => return Ok(Err("has custom scales".to_owned())),
        2 => return Ok(Err("has scales for blocks".to_owned())),
        other => return Ok(Err(format!("has scales of kind {other}"))),
    }
    let (scales, zeros) = (table.vector(2, 4)?, table.vector(3, 8)?);
    let has_codes =
        matches!(element.dtype, Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::U16 | Dtype::I32 | Dtype::U32 | Dtype::I64);
    if scales.count == 0 || !has_codes {
        return Ok(Ok(None));
    }
    let fault = |why: String| Err(AnamnesisError::parse(why));
    if zeros.count != scales.count {
        return fault(format!("it has {} scales and {} zero points", scales.count, zeros.count));
    }
    let dimension = table.u32(6)?.unwrap_or_default() as usize;
    match shape.get(dimension) {
        _ if scales.count == 1 => Ok(Ok(Some(Scales { scales, zeros, axis: None }))),
        Some(&size) if size as u64 == scales.count => Ok(Ok(Some(Scales { scales, zeros, axis: Some(dimension) }))),
        _ => fault(format!("{} scales are for dimension {dimension} of the shape {shape:?}", scales.count)),
    }
}

impl Found {
    fn named(self, [name, scales_name, zeros_name]: [String; 3]) -> Constant {
        let Self { element, shape, start, bytes, scales } = self;
        let scale = scales.map(|Scales { scales, zeros, axis }| {
            let part = |name: &str, dtype: Dtype, vector: Vector| {
                let shape = if axis.is_some() { vec![vector.count as usize] } else { Vec::new() };
                let bytes = vector.count * dtype.byte_size() as u64;
                let extent = Extent { file: FILE, offset: vector.start, bytes };
                StoredTensor { name: name.to_owned(), dtype, shape, extent }
            };
            let parts = [part(&scales_name, Dtype::F32, scales), part(&zeros_name, Dtype::I64, zeros)];
            (ScaledCodes { codes: name.clone(), scales: scales_name, zero_points: zeros_name, axis }, parts)
        });
        let count = elements(&shape).unwrap_or_default();
        let (nibbles, bytes) = match element.is_nibble {
            true => (Some(Nibbles { start, count }), count),
            false => (None, bytes),
        };
        let extent = Extent { file: FILE, offset: start, bytes };
        Constant { tensor: StoredTensor { name, dtype: element.dtype, shape, extent }, nibbles, scale }
    }
}
