//! The weights that operations read: their parts, checked against each other, and their decoders.

use std::sync::Arc;

use super::columns::{Columns, Packing, Table, ZeroPoints};
use super::operators::{Axis, Reading};
use super::unpacked_part::UnpackedPart;
use crate::catalog::{Catalog, Dtype, Operand, Operation, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::TensorRole;
use crate::scheme::coder::{PartOrigin, RestoredParts, TileDecoder};
use crate::scheme::linear::{LinearDecoder, Nested, Number, Spread, Zeros};

/// A weight before it is claimed.
pub(super) struct Draft {
    pub(super) shape: Vec<usize>,
    /// The stored tensors, the codes first.
    pub(super) parts: Vec<(TensorId, TensorRole)>,
    pub(super) decoder: Arc<dyn TileDecoder>,
    pub(super) bits: u8,
    /// Codes per scale, if they are in blocks.
    pub(super) group: Option<u64>,
    pub(super) is_symmetric: bool,
    pub(super) is_nested: bool,
    /// A part that the operation reads for another purpose: the scale of its activations.
    pub(super) borrowed: Option<TensorId>,
}

/// The stored tensors of a catalog with a graph.
pub(super) struct Graph<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) operations: &'a [Operation],
}

fn refuse<T>(why: String) -> Result<T> {
    Err(AnamnesisError::parse(why))
}

/// A scale, and the scale of scales that are quantised themselves.
struct Scales<'a> {
    id: TensorId,
    tensor: &'a StoredTensor,
    number: Number,
    nested: Option<(Nested, Vec<(TensorId, TensorRole)>)>,
}

impl<'a> Graph<'a> {
    /// The stored tensor of an operand.
    pub(super) fn tensor(&self, operation: &Operation, place: usize) -> Option<(TensorId, &'a StoredTensor)> {
        let id = self.catalog.find(operation.stored(place)?)?;
        Some((id, self.catalog.get(id)))
    }

    /// Whether an operation reads a stored tensor.
    pub(super) fn reads(&self, operation: u32, id: TensorId) -> bool {
        let Some(operation) = self.operations.get(operation as usize) else { return false };
        let name = self.catalog.get(id).name.as_str();
        (0..operation.operands.len()).any(|place| operation.stored(place) == Some(name))
    }

    /// The stored tensor of an operand that may be absent but not computed.
    fn optional(
        &self,
        operation: &Operation,
        place: usize,
        what: &str,
    ) -> Result<Option<(TensorId, &'a StoredTensor)>> {
        match operation.operand(place) {
            Operand::Absent => Ok(None),
            _ => self.needed(operation, place, what).map(Some),
        }
    }

    fn needed(&self, operation: &Operation, place: usize, what: &str) -> Result<(TensorId, &'a StoredTensor)> {
        let kind = &operation.kind;
        self.tensor(operation, place)
            .ok_or_else(|| AnamnesisError::parse(format!("{kind} reads it with {what} that are not stored")))
    }

    /// The scales at a place: stored, or the result of dequantising stored ones with a single scale.
    fn scales(&self, operation: &Operation, place: usize) -> Result<Scales<'a>> {
        let Operand::Result(index) = operation.operand(place) else {
            let (id, tensor) = self.needed(operation, place, "scales")?;
            let number = scale_number(tensor)?;
            return Ok(Scales { id, tensor, number, nested: None });
        };
        let inner = self.operations.get(*index as usize).filter(|inner| inner.kind.ends_with("DequantizeLinear"));
        let Some(inner) = inner else {
            return refuse(format!("{} reads it with scales that are computed", operation.kind));
        };
        let (id, tensor) = self.needed(inner, 0, "scales")?;
        let (factor_id, factor) = self.needed(inner, 1, "scales of scales")?;
        let zero = self.optional(inner, 2, "zero points of scales")?;
        let Some(number) = code_number(tensor.dtype).filter(|number| *number != Number::I32) else {
            return refuse(format!("its scales {} are quantised in {}", quoted(&tensor.name), tensor.dtype));
        };
        let is_single = |tensor: &StoredTensor| tensor.elements() == 1;
        if !is_single(factor) || !zero.is_none_or(|(_, zero)| is_single(zero) && zero.dtype == tensor.dtype) {
            return refuse(format!("its scales {} have several scales themselves", quoted(&tensor.name)));
        }
        let nested = Nested { scale: scale_number(factor)?, has_zero: zero.is_some() && number.is_integer() };
        let mut parts = vec![(factor_id, TensorRole::NestedScale)];
        parts.extend(zero.map(|(id, _)| (id, TensorRole::ZeroPoint)));
        Ok(Scales { id, tensor, number, nested: Some((nested, parts)) })
    }

    /// A linearly quantised operand; `None` if the operation does not read it as a stored tensor.
    pub(super) fn linear(&self, operation: &Operation, reading: &Reading) -> Option<(TensorId, Result<Draft>)> {
        let (id, codes) = self.tensor(operation, reading.codes)?;
        let bits = operation.stored_bits(reading.codes)?;
        Some((id, self.linear_draft(operation, reading, (id, codes, bits))))
    }

    fn linear_draft(
        &self,
        operation: &Operation,
        reading: &Reading,
        (id, codes, bits): (TensorId, &StoredTensor, u8),
    ) -> Result<Draft> {
        let mut scales = self.scales(operation, reading.scale)?;
        let zero = match reading.zero {
            Some(place) => self.optional(operation, place, "zero points")?,
            None => None,
        };
        if let Some(place) = reading.factor {
            let (factor_id, factor) = self.needed(operation, place, "scales")?;
            if factor.elements() != 1 || scales.nested.is_some() {
                return refuse(format!("the scale {} is not a single value", quoted(&factor.name)));
            }
            let nested = Nested { scale: scale_number(factor)?, has_zero: false };
            scales.nested = Some((nested, vec![(factor_id, TensorRole::NestedScale)]));
        }
        let axis = match reading.axis {
            Axis::Setting => operation.setting("axis").unwrap_or(1),
            Axis::First => 0,
            Axis::Last => -1,
            Axis::Rows => -2,
            Axis::Transposed => i64::from(operation.setting("transB") != Some(1)),
        };
        let block = match reading.axis {
            Axis::Setting => operation.setting("block_size").unwrap_or(0),
            _ => 0,
        };
        let layout = LinearLayout::of(codes, &operation.kind, axis, block, scales.tensor)?;
        let borrowed = reading.factor.and_then(|place| Some(self.tensor(operation, place)?.0));
        Ok(Draft { borrowed, ..self.finish_linear((id, codes, bits), scales, zero, layout)? })
    }

    /// Codes with a scale and a zero point that were found by name.
    pub(super) fn by_name(
        &self,
        (id, codes, bits): (TensorId, &StoredTensor, u8),
        scale: TensorId,
        zero: Option<TensorId>,
        axis: Axis,
    ) -> Result<Draft> {
        let tensor = self.catalog.get(scale);
        let scales = Scales { id: scale, tensor, number: scale_number(tensor)?, nested: None };
        let axis = if axis == Axis::First { 0 } else { -1 };
        let layout = LinearLayout::of(codes, "its reader", axis, 0, tensor)?;
        self.finish_linear((id, codes, bits), scales, zero.map(|zero| (zero, self.catalog.get(zero))), layout)
    }

    fn finish_linear(
        &self,
        (id, codes, bits): (TensorId, &StoredTensor, u8),
        scales: Scales<'_>,
        zero: Option<(TensorId, &StoredTensor)>,
        layout: LinearLayout,
    ) -> Result<Draft> {
        let Some(number) = code_number(codes.dtype) else {
            return refuse(format!("codes of type {} are not known", codes.dtype));
        };
        if let Some((_, zero)) = zero {
            // An odd number of four-bit floats is presented in another type.
            let is_type = zero.dtype == codes.dtype || codes.dtype == Dtype::F4;
            if !is_type || zero.elements() != scales.tensor.elements() {
                let [zeros, of_scales] = [zero, scales.tensor].map(|part| format!("{} {:?}", part.dtype, part.shape));
                let name = quoted(&zero.name);
                return refuse(format!("zero points {name} {zeros} do not fit {} and scales {of_scales}", codes.dtype));
            }
        }
        let (mut parts, scale) = (vec![(id, TensorRole::Quantized), (scales.id, TensorRole::Scale)], scales.number);
        // Floats have no zero points; those that are given must be zero.
        let zeros = match zero {
            Some((zero, _)) if number.is_integer() => {
                parts.push((zero, TensorRole::ZeroPoint));
                Zeros::Stored(number)
            }
            _ => Zeros::None,
        };
        let (nested, more) = scales.nested.map_or((None, Vec::new()), |(nested, parts)| (Some(nested), parts));
        parts.extend(
            more.into_iter()
                .filter(|(_, role)| *role != TensorRole::ZeroPoint || nested.is_some_and(|nested| nested.has_zero)),
        );
        let group = match layout.spread {
            Spread::Blocks(block) => Some(block),
            _ => None,
        };
        let how = match layout.spread {
            Spread::Tensor => "one scale".to_owned(),
            Spread::Axis => "a scale per channel".to_owned(),
            Spread::Blocks(block) => format!("blocks of {block}"),
        };
        let description = format!("{bits} bits, {how}");
        let LinearLayout { axis_size: axis, inner, spread, .. } = layout;
        let decoder = LinearDecoder { codes: number, axis, inner, spread, scales: scale, zeros, nested, description };
        Ok(Draft {
            shape: codes.shape.clone(),
            parts,
            decoder: Arc::new(decoder),
            bits,
            group,
            is_symmetric: zeros == Zeros::None,
            is_nested: nested.is_some(),
            borrowed: None,
        })
    }

    /// The codes of `GatherBlockQuantized`.
    pub(super) fn gathered(&self, operation: &Operation) -> Option<(TensorId, Result<Draft>)> {
        let (id, codes) = self.tensor(operation, 0)?;
        let bits = operation.stored_bits(0)?;
        Some((id, self.gathered_draft(operation, (id, codes, bits))))
    }

    fn gathered_draft(
        &self,
        operation: &Operation,
        (id, codes, stored): (TensorId, &StoredTensor, u8),
    ) -> Result<Draft> {
        let scales = self.scales(operation, 2)?;
        let zero = self.optional(operation, 3, "zero points")?;
        let (axis, block) =
            (operation.setting("quantize_axis").unwrap_or(1), operation.setting("block_size").unwrap_or(128));
        if block <= 0 {
            return refuse(format!("{} has blocks of {block}", operation.kind));
        }
        if stored < 8 {
            let layout = LinearLayout::of(codes, &operation.kind, axis, block, scales.tensor)?;
            return self.finish_linear((id, codes, stored), scales, zero, layout);
        }
        let bits = operation.setting("bits").unwrap_or(4);
        let (Some(&last), Ok(bits @ (2 | 4 | 8)), Dtype::U8) = (codes.shape.last(), u8::try_from(bits), codes.dtype)
        else {
            return refuse(format!("{} of {} with {bits} bits is not known", operation.kind, codes.dtype));
        };
        let overflow = || AnamnesisError::parse("its shape overflows");
        let mut shape = codes.shape.clone();
        let columns = last.checked_mul(8 / usize::from(bits)).ok_or_else(overflow)?;
        if let Some(dim) = shape.last_mut() {
            *dim = columns;
        }
        crate::catalog::dtype::elements(&shape).ok_or_else(overflow)?;
        let logical = StoredTensor { name: codes.name.clone(), dtype: Dtype::U8, shape, extent: codes.extent };
        let layout = LinearLayout::of(&logical, &operation.kind, axis, block, scales.tensor)?;
        if layout.axis != Some(logical.shape.len() - 1) {
            return refuse(format!("{} packs along another axis than it quantises", operation.kind));
        }
        let blocks = (columns as u64).div_ceil(block.cast_unsigned());
        let rows = scales.tensor.elements().checked_div(blocks).unwrap_or_default();
        if let Some((_, zero)) = zero {
            let needed = rows * (blocks * u64::from(bits)).div_ceil(8);
            if zero.dtype != Dtype::U8 || zero.elements() != needed {
                let (name, shape) = (quoted(&zero.name), &zero.shape);
                return refuse(format!("zero points {name} {shape:?} do not have {needed} bytes"));
            }
        }
        let mut parts = vec![(id, TensorRole::Quantized), (scales.id, TensorRole::Scale)];
        parts.extend(zero.map(|(zero, _)| (zero, TensorRole::ZeroPoint)));
        let LinearLayout { axis_size: axis, inner, spread, .. } = layout;
        let zeros = if zero.is_some() { Zeros::Stored(Number::U8) } else { Zeros::Constant(1 << (bits - 1)) };
        if scales.nested.is_some() {
            return refuse(format!("{} reads it with scales that are computed", operation.kind));
        }
        let description = format!("{bits} bits, blocks of {block}");
        let linear = LinearDecoder {
            codes: Number::U8,
            axis,
            inner,
            spread,
            scales: scales.number,
            zeros,
            nested: None,
            description,
        };
        let unpacked = |part: usize, row_values: u64| match bits {
            8 => PartOrigin::Stored(part),
            bits => PartOrigin::Restored(Arc::new(UnpackedPart { part, bits: bits.into(), row_values })),
        };
        let mut origins = vec![unpacked(0, columns as u64), PartOrigin::Stored(1)];
        origins.extend(zero.map(|_| unpacked(2, blocks)));
        Ok(Draft {
            shape: logical.shape,
            parts,
            decoder: Arc::new(RestoredParts::around(Arc::new(linear), origins)),
            bits,
            group: Some(block.cast_unsigned()),
            is_symmetric: zero.is_none(),
            is_nested: false,
            borrowed: None,
        })
    }

    /// The weight of `MatMulNBits`.
    pub(super) fn packed(&self, operation: &Operation) -> Option<(TensorId, Result<Draft>)> {
        let (id, codes) = self.tensor(operation, 1)?;
        Some((id, self.packed_draft(operation, id, codes)))
    }

    fn packed_draft(&self, operation: &Operation, id: TensorId, codes: &StoredTensor) -> Result<Draft> {
        let MatMulSize { k, n, block } = MatMulSize::of(operation)?;
        let bits = operation.setting("bits").unwrap_or(4);
        let Some(bits) = [2, 4, 8].into_iter().find(|known| i64::from(*known) == bits) else {
            return refuse(format!("{} of {bits} bits is not known, 2, 4 and 8 are", operation.kind));
        };
        if operation.setting("weight_prepacked").is_some_and(|order| order != 0) {
            let why = format!("{}: codes in the order of a CUDA kernel (weight_prepacked)", operation.kind);
            return Err(AnamnesisError::unsupported(super::NAME, why));
        }
        let blocks = k.div_ceil(block);
        let block_bytes = block * u64::from(bits) / 8;
        sized(codes, n.checked_mul(blocks).and_then(|count| count.checked_mul(block_bytes)), "bytes of codes")?;
        if codes.dtype != Dtype::U8
            || operation.stored_bits(1) != Some(8)
            || !(block * u64::from(bits)).is_multiple_of(8)
        {
            return refuse(format!("{} reads codes of type {} in blocks of {block}", operation.kind, codes.dtype));
        }
        let (scale_id, scales) = self.needed(operation, 2, "scales")?;
        let count = n.checked_mul(blocks);
        sized(scales, count, "scales")?;
        let number = scale_number(scales)?;
        let mut parts = vec![(id, TensorRole::Quantized), (scale_id, TensorRole::Scale)];
        let zeros = match self.optional(operation, 3, "zero points")? {
            None => ZeroPoints::Middle,
            Some((zero, stored)) if stored.dtype == Dtype::U8 => {
                let row = (blocks * u64::from(bits)).div_ceil(8);
                sized(stored, n.checked_mul(row), "bytes of zero points")?;
                parts.push((zero, TensorRole::ZeroPoint));
                ZeroPoints::Packed
            }
            Some((zero, stored)) if stored.dtype == scales.dtype => {
                sized(stored, count, "zero points")?;
                parts.push((zero, TensorRole::ZeroPoint));
                ZeroPoints::Floats
            }
            Some((_, stored)) => {
                let (name, dtype) = (quoted(&stored.name), stored.dtype);
                return refuse(format!("zero points {name} are {dtype}, scales {}", scales.dtype));
            }
        };
        let index = self.optional(operation, 4, "a group index")?;
        if let Some((index, stored)) = index {
            if zeros == ZeroPoints::Packed {
                let why = format!("{}: a group index together with packed zero points", operation.kind);
                return Err(AnamnesisError::unsupported(super::NAME, why));
            }
            // The index may be padded to whole blocks.
            let is_long_enough = stored.elements() == k || stored.elements() == blocks * block;
            if stored.dtype != Dtype::I32 || !is_long_enough {
                let (name, dtype, shape) = (quoted(&stored.name), stored.dtype, &stored.shape);
                return refuse(format!("the group index {name} is {dtype} {shape:?}, {k} of I32 are needed"));
            }
            parts.push((index, TensorRole::GroupIndex));
        }
        let coding = Packing::Integers { bits: bits.into(), zeros, is_indexed: index.is_some() };
        let description = format!("{bits} bits, blocks of {block}");
        Ok(Draft {
            shape: matrix(k, n)?,
            parts,
            decoder: Arc::new(Columns { k, n, block, scales: number, coding, description }),
            bits,
            group: Some(block),
            is_symmetric: zeros == ZeroPoints::Middle,
            is_nested: false,
            borrowed: None,
        })
    }

    /// The weight of `MatMulBnb4`.
    pub(super) fn table(&self, operation: &Operation) -> Option<(TensorId, Result<Draft>)> {
        let (id, codes) = self.tensor(operation, 1)?;
        Some((id, self.table_draft(operation, id, codes)))
    }

    fn table_draft(&self, operation: &Operation, id: TensorId, codes: &StoredTensor) -> Result<Draft> {
        let MatMulSize { k, n, block } = MatMulSize::of(operation)?;
        let (table, name) = match operation.setting("quant_type") {
            Some(0) => (Table::Fp4, "FP4"),
            Some(1) => (Table::Nf4, "NF4"),
            other => {
                return refuse(format!("{} has the type {other:?}, 0 (FP4) and 1 (NF4) are known", operation.kind));
            }
        };
        if operation.setting("transB").is_some_and(|is_transposed| is_transposed != 1) {
            return refuse(format!("{} has a weight that is not transposed", operation.kind));
        }
        let total = k.checked_mul(n);
        sized(codes, total.map(|total| total.div_ceil(2)), "bytes of codes")?;
        let (scale_id, scales) = self.needed(operation, 2, "scales")?;
        sized(scales, total.map(|total| total.div_ceil(block)), "scales")?;
        if codes.dtype != Dtype::U8 || operation.stored_bits(1) != Some(8) || !block.is_multiple_of(2) {
            return refuse(format!("{} reads codes of type {} in blocks of {block}", operation.kind, codes.dtype));
        }
        let (scales, description) = (scale_number(scales)?, format!("{name}, blocks of {block}"));
        Ok(Draft {
            shape: matrix(k, n)?,
            parts: vec![(id, TensorRole::Quantized), (scale_id, TensorRole::Scale)],
            decoder: Arc::new(Columns { k, n, block, scales, coding: Packing::Table(table), description }),
            bits: 4,
            group: Some(block),
            is_symmetric: true,
            is_nested: false,
            borrowed: None,
        })
    }
}

/// The type of codes: an integer that operations dequantise, or a small float.
fn code_number(dtype: Dtype) -> Option<Number> {
    let integer = Number::of_integers(dtype).filter(|number| !matches!(number, Number::U32 | Number::I64));
    integer.or_else(|| Number::of_floats(dtype))
}

/// The type of a scale.
fn scale_number(scale: &StoredTensor) -> Result<Number> {
    Number::of_scales(scale.dtype).ok_or_else(|| {
        let (name, dtype) = (quoted(&scale.name), scale.dtype);
        AnamnesisError::parse(format!("the scales {name} are {dtype}; F32, F16, BF16 and F8_E8M0 are known"))
    })
}

/// Refuses a part with another number of elements.
fn sized(tensor: &StoredTensor, needed: Option<u64>, what: &str) -> Result<()> {
    if needed == Some(tensor.elements()) {
        return Ok(());
    }
    let (name, shape) = (quoted(&tensor.name), &tensor.shape);
    let needed = needed.map_or_else(|| "more than 2^64".to_owned(), |needed| needed.to_string());
    refuse(format!("{name} has shape {shape:?}, {needed} {what} are needed"))
}

fn matrix(k: u64, n: u64) -> Result<Vec<usize>> {
    let size =
        |dim: u64| usize::try_from(dim).map_err(|_| AnamnesisError::parse(format!("its dimension {dim} is too large")));
    Ok(vec![size(k)?, size(n)?])
}

/// The settings of a multiplication by packed codes.
struct MatMulSize {
    k: u64,
    n: u64,
    block: u64,
}

impl MatMulSize {
    fn of(operation: &Operation) -> Result<Self> {
        let setting = |name: &str| {
            let value = operation.setting(name).and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0);
            // Sizes beyond these would overflow the products of a tile.
            let value = value.filter(|value| *value <= 1 << 31);
            value.ok_or_else(|| AnamnesisError::parse(format!("{} has no valid {name}", operation.kind)))
        };
        Ok(Self { k: setting("K")?, n: setting("N")?, block: setting("block_size")? })
    }
}

/// Which codes of a tensor share a scale.
struct LinearLayout {
    /// The axis of the scales, if there are several.
    axis: Option<usize>,
    axis_size: u64,
    inner: u64,
    spread: Spread,
}

impl LinearLayout {
    fn of(codes: &StoredTensor, kind: &str, axis: i64, block: i64, scales: &StoredTensor) -> Result<Self> {
        let shape = &codes.shape;
        let rank = shape.len() as i64;
        let place = if axis < 0 { axis + rank } else { axis };
        let place = usize::try_from(place).ok().filter(|place| *place < shape.len());
        let unfit = || {
            let (name, of_scales) = (quoted(&scales.name), &scales.shape);
            AnamnesisError::parse(format!(
                "scales {name} of shape {of_scales:?} do not fit codes of shape {shape:?} along axis {axis} in blocks of {block} ({kind})"
            ))
        };
        let product = |dims: &[usize]| dims.iter().map(|dim| *dim as u64).product();
        if scales.elements() == 1 && block == 0 {
            let all = product(shape);
            return Ok(Self { axis: None, axis_size: 1, inner: all, spread: Spread::Tensor });
        }
        let place = place.ok_or_else(unfit)?;
        let (axis_size, inner) = (shape[place] as u64, product(&shape[place + 1..]));
        let spread = match block {
            0 => {
                // One dimension at most is not 1.
                let is_row = scales.shape.iter().filter(|dim| **dim != 1).count() <= 1;
                if !is_row || scales.elements() != axis_size {
                    return Err(unfit());
                }
                Spread::Axis
            }
            block => {
                let block = u64::try_from(block).map_err(|_| unfit())?;
                let wanted = shape.iter().enumerate().map(|(at, dim)| match at == place {
                    true => (*dim as u64).div_ceil(block) as usize,
                    false => *dim,
                });
                if !wanted.eq(scales.shape.iter().copied()) {
                    return Err(unfit());
                }
                Spread::Blocks(block)
            }
        };
        Ok(Self { axis: Some(place), axis_size, inner, spread })
    }
}
