//! `sparse-bitmask` and `sparse-24-bitmask`: the values that are not zero, and a mask of their places.
//!
//! | stored | type and shape | |
//! |---|---|---|
//! | `X.compressed` | any float, `[values]`, or `[out, in / 2]` for 2:4 | the values of all rows |
//! | `X.bitmask` | U8 `[out, ceil(in / 8)]` | a bit for every place, the lowest first |
//! | `X.shape` | I64 `[2]` or `[2, 1]` | rows and columns of the weight |
//! | `X.row_offsets` | I64 `[out]` | where the values of each row begin; 2:4 has two of every four |
//! | `X.weight_scale` | | the scale of eight-bit floats |
//!
//! The weight is `X.weight`; places without a value are zero.

use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::place_masked;

use super::spec::{Spec, Strategy};
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Claims, Confidence, PartName, QuantScheme, TensorRole, Weight};
use crate::scheme::coder::{
    Arrangement, Coding, Context, Grid, PartOrigin, PlainDecoder, Prepare, Prepared, Recipe, Restore, RestoredParts,
    ScaleType, TileDecoder, Window, mishandled,
};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};

/// The suffix of the values.
const VALUES: &str = ".compressed";
const MASK: &str = ".bitmask";
const SHAPE: &str = ".shape";
const OFFSETS: &str = ".row_offsets";
const SCALE: &str = ".weight_scale";

pub(super) const PART_NAMES: [PartName; 3] = [
    PartName::new(VALUES, VALUES, Confidence::IfConfigured),
    PartName::new(MASK, VALUES, Confidence::IfConfigured),
    PartName::new(OFFSETS, VALUES, Confidence::IfConfigured),
];

/// Claims every sparse weight: values with a mask.
pub(super) fn claim(claims: &mut Claims<'_>) {
    let values = claims.unclaimed().filter(|(_, tensor)| {
        let Some(module) = tensor.name.strip_suffix(VALUES) else { return false };
        let mask = format!("{module}{MASK}");
        claims.find_unclaimed(&mask).is_some() || claims.elsewhere(&mask).is_some()
    });
    let values: Vec<_> = values.map(|(id, _)| id).collect();
    for id in values {
        let name = &claims.catalog.get(id).name;
        let module = name.strip_suffix(VALUES).unwrap_or(name);
        claims.take(id, TensorRole::Quantized);
        let mut companion = |suffix: &str, role| claims.take_companion(&format!("{module}{suffix}"), role);
        let parts = Parts {
            values: id,
            mask: companion(MASK, TensorRole::QuantState),
            shape: companion(SHAPE, TensorRole::QuantState),
            offsets: companion(OFFSETS, TensorRole::QuantState),
            scale: companion(SCALE, TensorRole::Scale),
        };
        match weight(claims, module, &parts) {
            Ok(weight) => claims.add(weight),
            Err(problem) => claims.refuse(problem.in_tensor(name)),
        }
    }
}

struct Parts {
    values: TensorId,
    mask: Option<TensorId>,
    shape: Option<TensorId>,
    offsets: Option<TensorId>,
    scale: Option<TensorId>,
}

fn weight(claims: &Claims<'_>, module: &str, parts: &Parts) -> Result<Weight> {
    let catalog = claims.catalog;
    let values = catalog.get(parts.values);
    let needed = |id: Option<TensorId>, suffix: &str| id.ok_or_else(|| claims.missing(&format!("{module}{suffix}")));
    let (mask_id, shape_id) = (needed(parts.mask, MASK)?, needed(parts.shape, SHAPE)?);
    let is_pairs = values.shape.len() == 2;
    let offsets = match (is_pairs, parts.offsets) {
        (true, None) => None,
        (true, Some(_)) => return Err(AnamnesisError::parse("a 2:4 weight has no row_offsets")),
        (false, id) => Some(needed(id, OFFSETS)?),
    };
    let method = claims.config.method();
    if let Some(method) = method.filter(|method| *method != super::METHOD) {
        let (file, method) = (claims.config.file(), quoted(method));
        return Err(AnamnesisError::parse(format!("it is sparse as in {}, {file} says {method}", super::METHOD)));
    }
    let format = if is_pairs { "sparse-24-bitmask" } else { "sparse-bitmask" };
    if let Some(configured) = claims.config.args().inside("sparsity_config").text(&["format"])?
        && configured != format
    {
        let configured = quoted(configured);
        return Err(AnamnesisError::parse(format!("it is stored as {format}, the configuration says {configured}")));
    }
    let [mask, shape] = [mask_id, shape_id].map(|id| catalog.get(id));
    let wrong = |part: &StoredTensor| {
        let (name, dtype, shape) = (quoted(&part.name), part.dtype, &part.shape);
        AnamnesisError::parse(format!("{name} is {dtype} {shape:?}, which does not fit the values of a sparse weight"))
    };
    let &[rows, mask_bytes] = &mask.shape[..] else { return Err(wrong(mask)) };
    if mask.dtype != Dtype::U8 || rows == 0 || mask_bytes == 0 {
        return Err(wrong(mask));
    }
    if shape.dtype != Dtype::I64 || !matches!(shape.shape[..], [2] | [2, 1]) {
        return Err(wrong(shape));
    }
    if let Some(offsets) = offsets.map(|id| catalog.get(id))
        && (offsets.dtype != Dtype::I64 || offsets.shape != [rows])
    {
        return Err(wrong(offsets));
    }
    let values_fit = match values.shape[..] {
        [found, _] => found == rows,
        [_] => true,
        _ => false,
    };
    if !values_fit {
        return Err(wrong(values));
    }
    let scale = parts.scale.map(|id| catalog.get(id));
    let coded = match (PlainDecoder::of(values.dtype), Fp8Format::of(values.dtype), scale) {
        (Some(_), _, None) => None,
        (_, Some(Fp8Format::E4m3), Some(scale)) => {
            let module = claims.config.module(module);
            let mut arrangements = Vec::new();
            for spec in module.groups().map_or_else(|| Ok(Vec::new()), |_| Spec::of_module(claims.config, &module))? {
                spec.check_type(true, |bits| bits == 8)?;
                arrangements.push(match spec.strategy {
                    Strategy::Tensor => Arrangement::Tensor,
                    Strategy::Channel => Arrangement::Row,
                    Strategy::Group(size) => Arrangement::Block(1, size),
                    Strategy::Block(rows, cols) => Arrangement::Block(rows, cols),
                });
            }
            let kind = ScaleType::of_float(scale.dtype).ok_or_else(|| wrong(scale))?;
            Some((kind, scale.shape.clone(), arrangements))
        }
        (_, Some(_), None) => {
            return Err(claims.missing(&format!("{module}{SCALE}")));
        }
        _ => return Err(AnamnesisError::unsupported(format, format!("its values are {}", values.dtype))),
    };
    let name = format!("{module}.weight");
    claims.check_output(&name)?;
    let mut ids = vec![parts.values, mask_id, shape_id];
    ids.extend(offsets);
    ids.extend(parts.scale);
    let sparse = Sparse { values: values.clone(), rows, mask_bytes, is_pairs, coded };
    Ok(Weight {
        name,
        shape: Vec::new(),
        values: rows as u64 * mask_bytes as u64 * 8,
        scheme: QuantScheme::Named(format),
        blocks: None,
        coding: Coding {
            format: format.to_owned(),
            evidence: claims.evidence(&["sparsity_config", "quant_method"]),
            ..Coding::default()
        },
        parts: ids,
        recipe: Recipe::Deferred(Arc::new(sparse)),
    })
}

/// A weight whose shape and row offsets are read while planning.
struct Sparse {
    values: StoredTensor,
    rows: usize,
    mask_bytes: usize,
    is_pairs: bool,
    /// The type and shape of the scales of eight-bit floats, and their configured arrangements.
    coded: Option<(ScaleType, Vec<usize>, Vec<Arrangement>)>,
}

/// The part indices of the shape and of the row offsets.
const SHAPE_PART: usize = 2;
const OFFSETS_PART: usize = 3;

fn integers(bytes: &[u8]) -> Option<Vec<u64>> {
    let numbers = bytes.as_chunks::<8>().0.iter();
    numbers.map(|bytes| u64::try_from(i64::from_le_bytes(*bytes)).ok()).collect()
}

impl Prepare for Sparse {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let fail = AnamnesisError::parse;
        let shape = integers(&read(SHAPE_PART)?).unwrap_or_default();
        let cols = match shape[..] {
            [rows, cols] if rows == self.rows as u64 && cols.div_ceil(8) == self.mask_bytes as u64 => cols,
            _ => return Err(fail(format!("a shape of {shape:?} does not fit a mask of {} rows", self.rows))),
        };
        let total = self.values.elements();
        let starts = match self.is_pairs {
            true => {
                if !cols.is_multiple_of(4) || self.values.shape.last().map(|&dim| dim as u64) != Some(cols / 2) {
                    return Err(fail(format!("its shape is not that of two of every four of {cols} columns")));
                }
                None
            }
            false => {
                let starts = integers(&read(OFFSETS_PART)?).unwrap_or_default();
                let is_sorted = starts.first() == Some(&0) && starts.is_sorted();
                if !is_sorted || starts.last().is_some_and(|last| *last > total) {
                    return Err(fail(format!("its row offsets do not divide {total} values")));
                }
                Some(starts.into())
            }
        };
        let each = self.values.dtype.byte_size() as u64;
        let (rows, shape) = (self.rows as u64, vec![self.rows, cols as usize]);
        let expanded = Expanded { cols, each, total, starts };
        let mut parts = vec![PartOrigin::Restored(Arc::new(expanded))];
        let decoder: Arc<dyn TileDecoder> = match &self.coded {
            None => {
                let plain = PlainDecoder::of(self.values.dtype);
                Arc::new(plain.ok_or_else(|| AnamnesisError::internal("values of another type"))?)
            }
            Some((kind, scale, arrangements)) => {
                parts.push(PartOrigin::Stored(if self.is_pairs { OFFSETS_PART } else { OFFSETS_PART + 1 }));
                let grid =
                    Grid::resolve(&shape, scale, arrangements).map_err(|why| fail(format!("its scale {why}")))?;
                Arc::new(Fp8Decoder::new(Fp8Format::E4m3, grid, Some(*kind)))
            }
        };
        let restored = RestoredParts { granule: Some(cols.max(1)), ..RestoredParts::around(decoder, parts) };
        debug_assert!(rows > 0);
        Ok(Prepared { shape, decoder: Arc::new(restored), coding: None })
    }

    fn describe(&self) -> String {
        if self.is_pairs { "2:4 sparse with a mask" } else { "sparse with a mask" }.to_owned()
    }
}

/// Restores rows of `cols` values of `each` bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Expanded {
    cols: u64,
    each: u64,
    /// All stored values.
    total: u64,
    /// The first value of each row; `None` if every row has half of its values.
    starts: Option<Arc<[u64]>>,
}

impl Expanded {
    fn rows(&self, plain: &Range<u64>) -> Range<u64> {
        let row = (self.cols * self.each).max(1);
        plain.start / row..plain.end.div_ceil(row)
    }

    /// The first value of a row.
    fn start(&self, row: u64) -> u64 {
        match &self.starts {
            None => row * self.cols / 2,
            Some(starts) => starts.get(row as usize).copied().unwrap_or(self.total),
        }
    }
}

impl Restore for Expanded {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let (rows, mask) = (self.rows(plain), self.cols.div_ceil(8));
        windows.push(Window::between(0, self.start(rows.start) * self.each..self.start(rows.end) * self.each));
        windows.push(Window::between(1, rows.start * mask..rows.end * mask));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let [values, masks] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let rows = self.rows(plain);
        let (each, row_bytes) = (self.each as usize, (self.cols * self.each) as usize);
        if !(plain.end - plain.start).is_multiple_of(row_bytes as u64) {
            return Err(mishandled("a range that cuts a row"));
        }
        let mut left = *values;
        let by_row = out.chunks_exact_mut(row_bytes).zip(masks.chunks_exact(self.cols.div_ceil(8) as usize));
        for ((out, mask), row) in by_row.zip(rows) {
            let stored = (self.start(row + 1) - self.start(row)) as usize;
            let set: usize = mask.iter().map(|byte| byte.count_ones() as usize).sum();
            let is_half = self.starts.is_some()
                || mask.iter().all(|byte| matches!([byte & 15, byte >> 4].map(u8::count_ones), [2, 2] | [2, 0]));
            let spare = self.cols % 8;
            let has_spare = spare > 0 && mask.last().is_some_and(|last| last >> spare != 0);
            if set != stored || !is_half || has_spare {
                return Err(AnamnesisError::parse(format!(
                    "the mask of row {row} has {set} places for {stored} values"
                )));
            }
            let (next, others) = left.split_at_checked(stored * each).ok_or_else(|| mishandled("too few values"))?;
            if place_masked(mask, next, each, out) != out.len() {
                return Err(mishandled("a mask of another size"));
            }
            left = others;
        }
        Ok(())
    }
}
