//! The parts of a marked weight, and the weight as they and its marker describe it.

use std::sync::Arc;

use super::build::{Build, Decoder};
use super::format::Format;
use crate::catalog::TensorId;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Evidence, Recipe, Refined};

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
        let mut companion = |name: &str| claims.take_companion(&in_module(module, name), TensorRole::Scale);
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
