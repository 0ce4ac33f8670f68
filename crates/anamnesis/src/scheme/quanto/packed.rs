//! quanto's weights of two and four bits.

use std::sync::Arc;

use super::parts::{NAME, Parts};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Claims, QuantScheme, Weight};
use crate::scheme::coder::{Arrangement, Coding, Grid, Recipe, ScaleType};
use crate::scheme::grouped::{Formula, Grouped, Layout, Meaning, Offsets, Order, Scales, Unit};

/// quanto's default group sizes.
const GROUPS: [u64; 4] = [128, 96, 64, 32];

/// The weight, and a note if its shape is uncertain.
pub(super) fn packed_weight(claims: &Claims<'_>, parts: &Parts<'_>) -> Result<(Weight, Option<String>)> {
    let codes = parts.codes;
    let (shift_id, shift) = parts.shift.ok_or_else(|| parts.fail("it has no shift"))?;
    let (scale_id, scale) = parts.scale;
    if codes.dtype != Dtype::U8 {
        return Err(parts.fail(format!("it is {}; U8 is needed", codes.dtype)));
    }
    let offsets = match (shift.dtype, ScaleType::of_float(shift.dtype)) {
        (_, Some(kind)) => Offsets::Negated { kind },
        (Dtype::I8, _) => Offsets::Stored { kind: ScaleType::I8, plus: 0 },
        (other, _) => {
            let detail = format!("{} is {other}; F32, BF16, F16 and I8 are read", quoted(&shift.name));
            return Err(AnamnesisError::unsupported(NAME, detail));
        }
    };
    let (Some(&rows), true) = (scale.shape.first(), is_column(&scale.shape, codes.shape.len())) else {
        let (name, shape) = (quoted(&scale.name), &scale.shape);
        return Err(parts.fail(format!("{name} has shape {shape:?}; one value for each row is needed")));
    };
    if shift.shape != scale.shape {
        let [scale, shift] = [scale, shift].map(|part| format!("{} {:?}", quoted(&part.name), part.shape));
        return Err(parts.fail(format!("{scale} and {shift} have different shapes")));
    }
    let (rows, stored) = (rows as u64, codes.shape.first().map_or(0, |&rows| rows as u64));
    let cols = codes.elements().checked_div(stored).filter(|&cols| cols > 0);
    let cols = cols.ok_or_else(|| parts.fail("it is empty"))?;
    let bits = bits(parts, rows, stored)?;
    let (shape, note) = shape(claims, parts, rows, cols)?;
    let formula = if matches!(offsets, Offsets::Negated { .. }) { Formula::Biased } else { Formula::Affine };
    let decoder = Grouped {
        layout: Layout::Planes { bits, unit: Unit::Byte, rows: stored, order: Order::LowestFirst },
        meaning: Meaning::Unsigned,
        grid: Grid::new(rows, cols, 1, cols, Arrangement::Row),
        scales: Scales { kind: parts.kind, global: None },
        offsets,
        is_indexed: false,
        arithmetic: parts.arithmetic(formula),
        description: format!("quanto qint{bits}, groups of {cols}"),
    };
    let weight = Weight {
        name: parts.name.to_owned(),
        shape,
        values: rows.saturating_mul(cols),
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding: Coding {
            format: format!("qint{bits}"),
            bits: Some(bits),
            group_size: Some(cols),
            symmetric: Some(false),
            evidence: parts.evidence.clone(),
            ..Coding::default()
        },
        parts: vec![parts.id, scale_id, shift_id],
        recipe: Recipe::Ready(Arc::new(decoder)),
    };
    Ok((weight, note))
}

/// Whether all dimensions except the first are one.
fn is_column(shape: &[usize], rank: usize) -> bool {
    shape.len() == rank && shape.get(1..).is_some_and(|rest| rest.iter().all(|&dim| dim == 1))
}

/// The bits of a code: the only number that fits the shapes, or the configured one.
fn bits(parts: &Parts<'_>, rows: u64, stored: u64) -> Result<u8> {
    let fitting: Vec<u8> = [4, 2].into_iter().filter(|&bits| rows.div_ceil(8 / u64::from(bits)) == stored).collect();
    let names = |bits: u8| if bits == 4 { ["int4"] } else { ["int2"] };
    match fitting[..] {
        [bits] => parts.check_configured(&names(bits)).map(|()| bits),
        [] => Err(parts.fail(format!("{stored} rows of bytes do not hold {rows} rows of two or four bits"))),
        _ if parts.configured.is_none() => {
            Err(parts.fail("its codes may have two or four bits, and no configuration says which"))
        }
        _ => match fitting.iter().find(|&&bits| parts.check_configured(&names(bits)).is_ok()) {
            Some(&bits) => Ok(bits),
            None => parts.check_configured(&["int4"]).map(|()| 4),
        },
    }
}

/// The shape of the weight, and a note if it is uncertain.
fn shape(claims: &Claims<'_>, parts: &Parts<'_>, rows: u64, cols: u64) -> Result<(Vec<usize>, Option<String>)> {
    let stored = &parts.codes.shape;
    let rest = stored.get(1..).unwrap_or_default();
    let as_stored = || [&[rows as usize], rest].concat();
    if stored.len() != 2 || !GROUPS.contains(&cols) {
        return Ok((as_stored(), None));
    }
    let module = parts.name.strip_suffix("weight");
    let bias = module.and_then(|module| claims.catalog.find(&format!("{module}bias"))).map(|id| claims.catalog.get(id));
    match bias.map(|bias| (bias, &bias.shape[..])) {
        Some((_, &[length])) if length > 0 && rows.is_multiple_of(length as u64) => {
            Ok((vec![length, (rows / length as u64 * cols) as usize], None))
        }
        Some((bias, shape)) => {
            let (name, total) = (quoted(&bias.name), rows * cols);
            Err(parts.fail(format!("{name} of shape {shape:?} does not fit {total} values in groups of {cols}")))
        }
        None if rows == 1 => Ok((as_stored(), None)),
        None => {
            let name = quoted(parts.name);
            let note = format!(
                "tensor {name}: its shape is not stored; its {rows} groups of {cols} values are taken for its rows"
            );
            Ok((as_stored(), Some(note)))
        }
    }
}
