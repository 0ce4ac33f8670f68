//! Claiming quanto's weights by their codes.

use std::sync::Arc;

use super::packed::packed_weight;
use super::parts::{NAME, Parts};
use crate::catalog::{Dtype, StoredTensor, TargetDtype, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{About, Claims, Confidence, PartName, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Arrangement, Coding, Grid, Recipe, Rounded, ScaleType};
use crate::scheme::fp8::{Fp8Decoder, Fp8Format};
use crate::scheme::grouped::{Formula, Grouped, Layout, Meaning, Offsets, Scales};

/// The quanto scheme.
pub(crate) struct Quanto;

const CODES: &str = "._data";
const PACKED: &str = "._data._data";

impl Scheme for Quanto {
    fn about(&self) -> About {
        About::Decoded(NAME, "2, 4 and 8 bits, E4M3 and E5M2")
    }

    fn part_names(&self) -> Vec<PartName> {
        let of_weights = [".weight._data._data", ".weight._data", ".weight._scale", ".weight._shift"];
        let of_others = ["._data", "._scale", "._shift"];
        let of_weights = of_weights.map(|suffix| PartName::new(suffix, ".weight._data", Confidence::Certain));
        let of_others = of_others.map(|suffix| PartName::new(suffix, CODES, Confidence::IfPacked));
        of_weights.into_iter().chain(of_others).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let codes: Vec<_> =
            claims.unclaimed().filter(|(_, tensor)| tensor.name.ends_with(CODES)).map(|(id, _)| id).collect();
        for id in codes {
            claim_weight(claims, id);
        }
    }
}

fn claim_weight(claims: &mut Claims<'_>, id: TensorId) {
    let codes = claims.catalog.get(id);
    let is_packed = codes.name.ends_with(PACKED);
    let Some(name) = codes.name.strip_suffix(if is_packed { PACKED } else { CODES }) else { return };
    let [scale, shift] = ["_scale", "_shift"].map(|part| claims.find_unclaimed(&format!("{name}.{part}")));
    // Other libraries have `._data` too: it is quanto's if it has a scale or shift, or is a weight.
    if scale.is_none() && shift.is_none() && !name.ends_with("weight") {
        return;
    }
    claims.take(id, TensorRole::Quantized);
    for (id, role) in [(scale, TensorRole::Scale), (shift, TensorRole::ZeroPoint)] {
        if let Some(id) = id {
            claims.take(id, role);
        }
    }
    let weight = parts(claims, name, id, scale, shift).and_then(|parts| match is_packed {
        true => packed_weight(claims, &parts),
        false => Ok((byte_weight(&parts)?, None)),
    });
    match weight {
        Ok((weight, note)) => {
            claims.add(weight);
            if let Some(note) = note {
                claims.note(note);
            }
        }
        Err(problem) => claims.refuse(problem),
    }
}

fn parts<'a>(
    claims: &Claims<'a>,
    name: &'a str,
    id: TensorId,
    scale: Option<TensorId>,
    shift: Option<TensorId>,
) -> Result<Parts<'a>> {
    let catalog = claims.catalog;
    let codes = catalog.get(id);
    let fail = |what: String| AnamnesisError::parse(format!("tensor {}: {what}", quoted(&codes.name)));
    let config = claims.config;
    if let Some(method) = config.method().filter(|method| *method != NAME) {
        return Err(fail(format!("it is named like quanto's, {} says {}", config.file(), quoted(method))));
    }
    let absent = |part: &str| {
        let name = format!("{name}.{part}");
        let place = claims.elsewhere(&name).map_or_else(String::new, |place| format!(": {place}"));
        fail(format!("there is no {}{place}", quoted(&name)))
    };
    let scale = scale.ok_or_else(|| absent("_scale"))?;
    if shift.is_none() && (codes.name.ends_with(PACKED) || claims.elsewhere(&format!("{name}._shift")).is_some()) {
        return Err(absent("_shift"));
    }
    let part = |id: TensorId| (id, catalog.get(id));
    let kind = ScaleType::of_float(part(scale).1.dtype).ok_or_else(|| {
        let (name, dtype) = (quoted(&part(scale).1.name), part(scale).1.dtype);
        AnamnesisError::unsupported(NAME, format!("{name} is {dtype}; F32, BF16 and F16 are read"))
    })?;
    let args = config.args();
    let configured = match config.method() {
        Some(_) => args.text(&["weights"])?.map(str::to_owned).zip(args.place_of(&["weights"])),
        None => None,
    };
    let evidence = claims.evidence(&["weights", "quant_method"]);
    Ok(Parts { name, id, codes, scale: part(scale), shift: shift.map(part), kind, configured, evidence })
}

/// A weight of eight-bit integers or floats.
fn byte_weight(parts: &Parts<'_>) -> Result<Weight> {
    let (codes, scale) = (parts.codes, parts.scale.1);
    if let Some((_, shift)) = parts.shift {
        return Err(parts.fail(format!("it has {}, but codes of eight bits have no shift", quoted(&shift.name))));
    }
    let grid = grid(codes, scale).ok_or_else(|| {
        let (name, found, shape) = (quoted(&scale.name), &scale.shape, &codes.shape);
        parts.fail(format!("{name} has shape {found:?}, which does not fit a weight of shape {shape:?}"))
    })?;
    let (format, recipe) = match (codes.dtype, Fp8Format::of(codes.dtype)) {
        (Dtype::I8, _) => {
            parts.check_configured(&["int8"])?;
            let decoder = Grouped {
                layout: Layout::bytes(8, grid.cols),
                meaning: Meaning::Signed,
                grid,
                scales: Scales { kind: parts.kind, global: None },
                offsets: Offsets::None,
                is_indexed: false,
                arithmetic: parts.arithmetic(Formula::Affine),
                description: "quanto qint8".to_owned(),
            };
            ("qint8", Recipe::Ready(Arc::new(decoder)))
        }
        (_, Some(format @ (Fp8Format::E4m3 | Fp8Format::E5m2 | Fp8Format::E4m3Fnuz))) => {
            let (name, names): (_, &[_]) = match format {
                Fp8Format::E5m2 => ("qfloat8_e5m2", &["float8_e5m2"]),
                Fp8Format::E4m3Fnuz => ("qfloat8_e4m3fnuz", &["float8_e4m3fnuz"]),
                _ => ("qfloat8_e4m3fn", &["float8_e4m3fn", "float8"]),
            };
            parts.check_configured(names)?;
            let first = match parts.kind {
                ScaleType::Bf16 => TargetDtype::BF16,
                ScaleType::F16 => TargetDtype::F16,
                _ => TargetDtype::F32,
            };
            let decoder = Arc::new(Fp8Decoder::new(format, grid, Some(parts.kind)));
            (name, Recipe::Ready(Rounded::to(first, decoder)))
        }
        (other, _) => return Err(parts.fail(format!("it is {other}; I8 and eight-bit floats are read"))),
    };
    Ok(Weight {
        name: parts.name.to_owned(),
        shape: codes.shape.clone(),
        values: codes.elements(),
        scheme: QuantScheme::Named(NAME),
        blocks: None,
        coding: Coding {
            format: format.to_owned(),
            bits: Some(8),
            symmetric: Some(true),
            evidence: parts.evidence.clone(),
            ..Coding::default()
        },
        parts: vec![parts.id, parts.scale.0],
        recipe,
    })
}

/// The grid of scales: one value, one per index of the first dimension, or one per index of the last.
fn grid(codes: &StoredTensor, scale: &StoredTensor) -> Option<Grid> {
    let total = codes.elements();
    let (&first, &last) = (codes.shape.first()?, codes.shape.last()?);
    let (first, last) = (first as u64, last as u64);
    let ones = |shape: &[usize]| shape.iter().all(|&dim| dim == 1);
    match &scale.shape[..] {
        _ if total == 0 => None,
        [] | [1] => Some(Grid::single(total)),
        shape if shape.len() != codes.shape.len() => None,
        shape if ones(shape) => Some(Grid::single(total)),
        [rows, rest @ ..] if *rows as u64 == first && ones(rest) => {
            Some(Grid::new(first, total / first, 1, total / first, Arrangement::Row))
        }
        [rest @ .., columns] if *columns as u64 == last && ones(rest) => {
            Some(Grid::new(total / last, last, total / last, 1, Arrangement::Block(total / last, 1)))
        }
        _ => None,
    }
}
