//! `pack-quantized`: codes of 1 to 8 bits in 32-bit words. The shape of the weight is stored in a tensor, which is read
//! while planning.

use std::sync::Arc;

use super::packing::{Packed, is_dense};
use super::parts::Parts;
use super::scales::{Rows, block_shape, check_bytes, check_symmetry, describe, float_scale, group_size};
use super::spec::{Spec, Strategy};
use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{Coding, Prepare, Prepared, Recipe, ScaleType};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Scales};

const FORMAT: &str = "pack-quantized";
const SCHEME: QuantScheme = QuantScheme::Named("compressed-tensors pack-quantized");

/// How zero points are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZeroPoints {
    /// Not stored: codes are symmetric about the middle.
    Middle,
    Bytes,
    /// Packed into words down the columns, with this many rows of words.
    Packed(u64),
}

/// The layout of a weight, except its number of columns.
struct Geometry {
    rows: Rows,
    /// Words per row.
    words: u64,
    bits: u8,
    strategy: Strategy,
    scale: ScaleType,
    scale_shape: Vec<usize>,
    zero_points: ZeroPoints,
    /// Whether the version of the library that packed it leaves no gaps between codes; `None` if unknown.
    densely: Option<bool>,
}

/// A weight whose shape, and group index if it has one, are read while planning.
struct Unprepared {
    geometry: Geometry,
    /// The index of the part that stores the shape, and the bytes of each dimension.
    shape: (usize, usize),
    index: Option<usize>,
    coding: Coding,
}

pub(super) fn packed_weight(claims: &Claims<'_>, parts: &Parts, spec: &Spec) -> Result<Weight> {
    spec.check_format(&[FORMAT])?;
    spec.check_type(false, |_| true)?;
    parts.refuse(claims, FORMAT, &[parts.global_scale])?;
    let codes = claims.catalog.get(parts.codes);
    let (rows, words) = Rows::of(codes)?;
    let (scale_id, scale) = parts.needed(claims, parts.scale, "weight_scale")?;
    let (shape_id, shape) = parts.needed(claims, parts.shape, "weight_shape")?;
    let number_bytes = match shape.dtype {
        Dtype::I64 => 8,
        Dtype::I32 => 4,
        _ => 0,
    };
    if number_bytes == 0 || shape.shape != [codes.shape.len()] {
        let (name, dtype, found, rank) = (quoted(&shape.name), shape.dtype, &shape.shape, codes.shape.len());
        return Err(AnamnesisError::parse(format!(
            "{name} is {dtype} {found:?}; {rank} numbers of I64 or I32 are needed"
        )));
    }
    let cols = rows.check_scale(scale, spec.strategy)?;
    let zero_point = parts.zero_point.map(|id| claims.catalog.get(id));
    let geometry = Geometry {
        words,
        bits: spec.bits,
        strategy: spec.strategy,
        scale: float_scale(scale)?,
        scale_shape: scale.shape.clone(),
        zero_points: zero_points(
            &rows,
            spec,
            zero_point,
            scale,
            &format!("{}.weight_zero_point", parts.module(claims)),
        )?,
        densely: spec.packs_densely(),
        rows,
    };
    if let Some(cols) = cols {
        geometry.is_dense(cols)?;
    }
    let mut ids = vec![parts.codes, scale_id];
    ids.extend(parts.zero_point);
    let index = match parts.g_idx {
        Some(index) => {
            check_index(claims.catalog.get(index), &geometry, cols)?;
            ids.push(index);
            Some(ids.len() - 1)
        }
        None => {
            let groups = scale.shape.last().map_or(1, |&groups| groups);
            if spec.reordered && groups > 1 && !spec.omits_group_index() {
                parts.needed(claims, None, "weight_g_idx").map_err(|error| error.within(&spec.place))?;
            }
            None
        }
    };
    ids.push(shape_id);
    let (bits, all_rows) = (spec.bits, geometry.rows.matrices().saturating_mul(geometry.rows.rows));
    // Without a known number of columns, an upper bound: the last word of a row may be partly filled.
    let values = all_rows.saturating_mul(cols.unwrap_or(words.saturating_mul(32) / u64::from(bits)));
    let coding = Coding {
        format: FORMAT.to_owned(),
        bits: Some(bits),
        group_size: group_size(spec.strategy),
        block_shape: block_shape(spec.strategy, cols),
        symmetric: Some(geometry.zero_points == ZeroPoints::Middle),
        evidence: claims.evidence(&["config_groups"]),
    };
    Ok(Weight {
        name: parts.output_name(claims),
        shape: cols.map_or_else(Vec::new, |cols| geometry.rows.shape(geometry.rows.rows, cols)),
        values,
        scheme: SCHEME,
        blocks: group_size(spec.strategy).map(|size| Blocks { bits, size, nested: false }),
        coding: coding.clone(),
        parts: ids.clone(),
        recipe: Recipe::Deferred(Arc::new(Unprepared {
            geometry,
            shape: (ids.len() - 1, number_bytes),
            index,
            coding,
        })),
    })
}

fn zero_points(
    rows: &Rows,
    spec: &Spec,
    zero_point: Option<&StoredTensor>,
    scale: &StoredTensor,
    name: &str,
) -> Result<ZeroPoints> {
    check_symmetry(spec, zero_point, name)?;
    let Some(zero_point) = zero_point else { return Ok(ZeroPoints::Middle) };
    let are_packed = !spec.symmetric && matches!(spec.strategy, Strategy::Channel | Strategy::Group(_));
    if zero_point.dtype != Dtype::I32 || !are_packed {
        check_bytes(zero_point, scale)?;
        return Ok(ZeroPoints::Bytes);
    }
    let last = scale.shape.last().map_or(1, |&last| last as u64);
    match zero_point.shape[..] {
        [.., words, _] if zero_point.shape == rows.shape(words as u64, last) => Ok(ZeroPoints::Packed(words as u64)),
        _ => {
            let (zero_point, found) = (quoted(&zero_point.name), &zero_point.shape);
            Err(AnamnesisError::parse(format!(
                "{zero_point} has shape {found:?}, which scales {:?} do not fit",
                scale.shape
            )))
        }
    }
}

/// Refuses a group index unless it has an I32 for every column of a matrix with groups.
fn check_index(index: &StoredTensor, geometry: &Geometry, cols: Option<u64>) -> Result<()> {
    let fits = cols.is_some_and(|cols| geometry.rows.stack.is_empty() && index.shape == [cols as usize]);
    if fits && index.dtype == Dtype::I32 {
        return Ok(());
    }
    let (name, dtype, shape) = (quoted(&index.name), index.dtype, &index.shape);
    Err(AnamnesisError::parse(format!("{name} is {dtype} {shape:?}; a matrix in groups needs an I32 for every column")))
}

impl Geometry {
    /// Whether codes are packed without gaps; an error if the number of words fits neither packing of `cols` columns.
    fn is_dense(&self, cols: u64) -> Result<bool> {
        let codes = Packed { codes: cols, words: self.words };
        match self.zero_points {
            ZeroPoints::Packed(words) => {
                is_dense(self.bits, &[codes, Packed { codes: self.rows.rows, words }], self.densely)
            }
            ZeroPoints::Middle | ZeroPoints::Bytes => is_dense(self.bits, &[codes], self.densely),
        }
    }

    fn decoder(&self, cols: u64) -> Result<Grouped> {
        let (bits, dense) = (self.bits, self.is_dense(cols)?);
        let middle = 1 << (bits - 1);
        Ok(Grouped {
            layout: if dense { Layout::words(bits, cols) } else { Layout::padded_words(bits, cols) },
            meaning: Meaning::Unsigned,
            grid: self.rows.grid(cols, self.strategy, &self.scale_shape)?,
            scales: Scales { kind: self.scale, global: None },
            offsets: match self.zero_points {
                ZeroPoints::Middle => Offsets::Constant(middle),
                ZeroPoints::Bytes => Offsets::Stored { kind: ScaleType::I8, plus: middle },
                // Zero points are stored unsigned like codes, so that their middles cancel out.
                ZeroPoints::Packed(_) => Offsets::PackedDown { bits, dense },
            },
            is_indexed: false,
            arithmetic: Arithmetic::default(),
            description: self.describe(),
        })
    }

    fn describe(&self) -> String {
        format!("compressed-tensors {}-bit, {}", self.bits, describe(self.strategy))
    }
}

impl Prepare for Unprepared {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let (part, number_bytes) = self.shape;
        let numbers = numbers(&read(part)?, number_bytes);
        let rows = &self.geometry.rows;
        let cols = numbers.last().and_then(|&cols| u64::try_from(cols).ok()).filter(|&cols| cols > 0);
        let above: Vec<_> = rows.stack.iter().map(|&dim| dim as i64).chain([rows.rows.cast_signed()]).collect();
        let cols = match (cols, numbers.split_last()) {
            (Some(cols), Some((_, found))) if *found == above => cols,
            _ => {
                return Err(AnamnesisError::parse(format!(
                    "weight_shape says {numbers:?}; rows of {} words {above:?} are stored",
                    self.geometry.words
                )));
            }
        };
        let mut decoder = self.geometry.decoder(cols).map_err(|error| error.within("weight_shape"))?;
        if let (Some(part), Strategy::Group(size)) = (self.index, self.geometry.strategy) {
            decoder.is_indexed = is_reordered(&read(part)?, decoder.grid.grid_cols, size)?;
            if decoder.is_indexed {
                decoder.description.push_str(", activation order");
            }
        }
        let coding = Coding { block_shape: block_shape(self.geometry.strategy, Some(cols)), ..self.coding.clone() };
        Ok(Prepared { shape: rows.shape(rows.rows, cols), decoder: Arc::new(decoder), coding: Some(coding) })
    }

    fn describe(&self) -> String {
        self.geometry.describe()
    }
}

/// Little-endian signed integers of `each` bytes.
fn numbers(bytes: &[u8], each: usize) -> Vec<i64> {
    let number = |bytes: &[u8]| match *bytes {
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => -1,
    };
    bytes.chunks_exact(each).map(number).collect()
}

/// Whether a group index differs from consecutive groups. The library takes an index that contains -1 for unset. It
/// sorts columns by group and splits them evenly, so an index of uneven groups would mean something else there and is
/// refused.
fn is_reordered(bytes: &[u8], groups: u64, size: u64) -> Result<bool> {
    let index = || bytes.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
    if index().any(|group| group == -1) {
        return Ok(false);
    }
    let mut counts = vec![0; groups as usize];
    let mut in_order = true;
    for (column, group) in (0..).zip(index()) {
        let Some(count) = usize::try_from(group).ok().and_then(|group| counts.get_mut(group)) else {
            let text = format!("weight_g_idx puts column {column} into group {group}, there are {groups}");
            return Err(AnamnesisError::parse(text));
        };
        *count += 1;
        in_order &= u64::try_from(group) == Ok(column / size);
    }
    match counts.iter().position(|&count| count != size) {
        None => Ok(!in_order),
        Some(group) => {
            let text = format!("weight_g_idx puts {} columns into group {group} of {size}", counts[group]);
            Err(AnamnesisError::parse(text))
        }
    }
}
