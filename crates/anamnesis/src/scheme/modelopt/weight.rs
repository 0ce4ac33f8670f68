//! Building a ModelOpt weight from its parts and the configuration.

use std::sync::Arc;

use super::algorithm::{Algorithm, configured_group};
use super::parts::Parts;
use super::shape::Shape;
use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{Coding, Evidence, Recipe, ScaleType, Swizzled};
use crate::scheme::grouped::{Arithmetic, GlobalScale, Grouped, Meaning, Offsets, Scales};

pub(super) fn weight(claims: &Claims<'_>, parts: &Parts) -> Result<Weight> {
    let codes = claims.catalog.get(parts.codes);
    let names = &parts.names;
    let module = claims.config.module(&names.module);
    if let Some(left) = module.exclusion() {
        return Err(AnamnesisError::parse(format!("it is packed in bytes, but {left}")));
    }
    refuse_other_formats(claims, parts)?;
    let missing = |name: &str| claims.missing(name);
    let configured = Algorithm::configured(claims.config, &module)?;
    let scale_id = parts.scale.ok_or_else(|| missing(&names.scale))?;
    let scale = claims.catalog.get(scale_id);
    let algorithm = match (configured, scale.dtype) {
        (Some(algorithm), _) => algorithm,
        (None, Dtype::F8E4M3) => Algorithm::Nvfp4,
        (None, dtype) => {
            let text = format!("{} is {dtype}; without a configured algorithm, F8_E4M3 is needed", quoted(&scale.name));
            return Err(AnamnesisError::parse(text));
        }
    };
    let (kind, meaning) = match (algorithm, scale.dtype) {
        (Algorithm::Nvfp4, Dtype::F8E4M3) => (ScaleType::E4m3, Meaning::E2m1NoMinusZero),
        (Algorithm::Mxfp4, Dtype::U8) => (ScaleType::Exponent, Meaning::E2m1),
        (Algorithm::Int4, Dtype::F32) => (ScaleType::F32, Meaning::SignedNibble),
        (_, dtype) => {
            let (name, algorithm) = (quoted(&scale.name), algorithm.name());
            return Err(AnamnesisError::parse(format!("{name} is {dtype}, which is not a scale type of {algorithm}")));
        }
    };
    let group = match (configured_group(algorithm, &module)?, algorithm) {
        (Some(group), _) => group,
        // The configuration may omit the group size, and the shapes determine it.
        (None, Algorithm::Int4) => group_by_shape(codes, scale).unwrap_or_else(|| algorithm.default_group()),
        (None, _) => algorithm.default_group(),
    };
    let shape = match algorithm {
        Algorithm::Nvfp4 | Algorithm::Mxfp4 => Shape::of(codes, scale, group)?,
        Algorithm::Int4 => Shape::of_row_pairs(codes, scale, group)?,
    };
    if configured.is_none() && !claims.config.is_present() && Swizzled::may_hold(&scale.shape) {
        let scale = quoted(&scale.name);
        let detail = format!(
            "{scale} may hold its scales row after row, or in tiles of 128 rows as ComfyUI does: the shape fits both, and \
             no configuration, header or marker says which"
        );
        return Err(AnamnesisError::unsupported("NVFP4", detail));
    }
    let global = match (algorithm, parts.global_scale) {
        (Algorithm::Nvfp4, None) => return Err(missing(&names.global_scale)),
        (Algorithm::Nvfp4, Some(id)) => Some(global_scale(claims.catalog.get(id), &shape)?),
        (Algorithm::Mxfp4 | Algorithm::Int4, None) => None,
        (Algorithm::Mxfp4 | Algorithm::Int4, Some(_)) => {
            let (name, algorithm) = (quoted(&names.global_scale), algorithm.name());
            return Err(AnamnesisError::parse(format!("it has {name}, but {algorithm} has no global scale")));
        }
    };
    let values =
        elements(&shape.output).ok_or_else(|| AnamnesisError::parse("its number of values overflows 64 bits"))?;
    let place = module.args().place_of(&["quant_algo", "quant_method"]);
    Ok(Weight {
        name: codes.name.clone(),
        shape: shape.output,
        values,
        scheme: match algorithm {
            Algorithm::Nvfp4 => QuantScheme::Nvfp4,
            Algorithm::Mxfp4 => QuantScheme::Named("MXFP4 (ModelOpt)"),
            Algorithm::Int4 => QuantScheme::Named("AWQ (ModelOpt)"),
        },
        blocks: Some(Blocks { bits: 4, size: group, nested: global.is_some() }),
        coding: Coding {
            format: algorithm.name().to_owned(),
            bits: Some(4),
            group_size: Some(group),
            block_shape: None,
            symmetric: Some(true),
            evidence: place.map_or(Evidence::Names, Evidence::Configuration),
        },
        parts: [Some(parts.codes), Some(scale_id), parts.global_scale].into_iter().flatten().collect(),
        recipe: Recipe::Ready(Arc::new(Grouped {
            layout: shape.layout,
            meaning,
            grid: shape.grid,
            scales: Scales { kind, global },
            offsets: Offsets::None,
            is_indexed: false,
            arithmetic: Arithmetic::default(),
            description: format!("{}, groups of {group}", algorithm.name()),
        })),
    })
}

/// The group size by the shapes: codes per scale of a row, if that is a whole number.
fn group_by_shape(codes: &StoredTensor, scale: &StoredTensor) -> Option<u64> {
    let (columns, groups) = (*codes.shape.last()? as u64, *scale.shape.last()? as u64);
    (groups > 0 && columns.is_multiple_of(groups)).then(|| columns / groups)
}

/// The global scale: one value, or one for every matrix of a stack.
fn global_scale(tensor: &StoredTensor, shape: &Shape) -> Result<GlobalScale> {
    let name = quoted(&tensor.name);
    if tensor.dtype != Dtype::F32 {
        return Err(AnamnesisError::parse(format!("{name} is {}; F32 is needed", tensor.dtype)));
    }
    let is_of_matrices = tensor.shape.len() <= shape.output.len()
        && tensor.elements() == shape.matrices
        && tensor.shape.first().is_some_and(|&first| first as u64 == shape.matrices);
    match &tensor.shape[..] {
        [] => Ok(GlobalScale::times(false)),
        // For a stack, `[1]` may be a truncated list of one value per matrix.
        [1] if shape.matrices == 1 => Ok(GlobalScale::times(false)),
        _ if is_of_matrices && shape.output.len() > 2 => Ok(GlobalScale::times(true)),
        other => Err(AnamnesisError::parse(format!(
            "{name} has shape {other:?}; one value is needed, or one for each of {} matrices",
            shape.matrices
        ))),
    }
}

/// Refuses a weight with a companion or metadata of a format that changes the meaning of its codes.
fn refuse_other_formats(claims: &Claims<'_>, parts: &Parts) -> Result<()> {
    let companion = parts.names.refused.iter().find(|(name, _)| claims.catalog.find(name).is_some());
    if let Some((name, format)) = companion {
        let detail = format!("it has the companion {}, and is not decoded without it", quoted(name));
        return Err(AnamnesisError::unsupported(*format, detail));
    }
    // Files for kernels of diffusion models store scales swizzled for the kernel, in a shape that may be that of rows.
    let has = |key: &&str| claims.catalog.metadata.as_ref().is_some_and(|metadata| metadata.get(*key).is_some());
    match ["_quantization_metadata", "quantization_config"].into_iter().find(has) {
        None => Ok(()),
        Some(key) => {
            let detail = format!("__metadata__ has {key}: the scales may be in the order of a kernel");
            Err(AnamnesisError::unsupported("NVFP4 in the order of a kernel", detail))
        }
    }
}
