//! `nvfp4-pack-quantized` and `mxfp4-pack-quantized`: four-bit floats, two in a byte, the first in the low nibble. The
//! type of the scales identifies the format, so these weights are decoded without a configuration too.

use std::sync::Arc;

use super::parts::Parts;
use super::scales::Rows;
use super::spec::{Spec, Strategy};
use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::ScaleOp;
use crate::scheme::coder::{Coding, Recipe, ScaleType};
use crate::scheme::grouped::{Arithmetic, GlobalScale, Grouped, Layout, Meaning, Offsets, Scales, Step};

/// One of the two formats.
struct Kind {
    format: &'static str,
    name: &'static str,
    scheme: QuantScheme,
    scale_dtype: Dtype,
    scale: ScaleType,
    /// The default group size.
    group: u64,
    has_global_scale: bool,
}

static KINDS: [Kind; 2] = [
    Kind {
        format: "nvfp4-pack-quantized",
        name: "NVFP4",
        scheme: QuantScheme::Named("NVFP4 (compressed-tensors)"),
        scale_dtype: Dtype::F8E4M3,
        scale: ScaleType::E4m3,
        group: 16,
        has_global_scale: true,
    },
    Kind {
        format: "mxfp4-pack-quantized",
        name: "MXFP4",
        scheme: QuantScheme::Named("MXFP4 (compressed-tensors)"),
        scale_dtype: Dtype::U8,
        scale: ScaleType::Exponent,
        group: 32,
        has_global_scale: false,
    },
];

pub(super) fn fp4_weight(claims: &Claims<'_>, parts: &Parts, spec: Option<&Spec>) -> Result<Weight> {
    let codes = claims.catalog.get(parts.codes);
    let (scale_id, scale) = parts.needed(claims, parts.scale, "weight_scale")?;
    let kind = KINDS.iter().find(|kind| kind.scale_dtype == scale.dtype).ok_or_else(|| {
        let (name, dtype) = (quoted(&scale.name), scale.dtype);
        AnamnesisError::parse(format!("{name} is {dtype}; scales of bytes are F8_E4M3 (NVFP4) or U8 (MXFP4)"))
    })?;
    parts.refuse(claims, kind.format, &[parts.zero_point, parts.shape, parts.g_idx])?;
    let group = match spec {
        None => kind.group,
        Some(spec) => group_of(kind, spec)?,
    };
    let (rows, bytes) = Rows::of(codes)?;
    if spec.is_none() && is_six_bits(kind, bytes, scale) {
        let detail = "a scale belongs to 24 bytes, which are 32 codes of six bits; those of four bits are read";
        return Err(AnamnesisError::unsupported("mxfp6-pack-quantized", detail));
    }
    if !rows.stack.is_empty() {
        let (format, shape) = (kind.format, &codes.shape);
        return Err(AnamnesisError::unsupported(format, format!("it has shape {shape:?}; matrices are read")));
    }
    let cols = bytes.saturating_mul(2);
    let strategy = Strategy::Group(group);
    rows.check_scale(scale, strategy)?;
    let mut ids = vec![parts.codes, scale_id];
    let global = match kind.has_global_scale {
        false => {
            parts.refuse(claims, kind.format, &[parts.global_scale])?;
            None
        }
        true => {
            let (id, global) = parts.needed(claims, parts.global_scale, "weight_global_scale")?;
            if global.dtype != Dtype::F32 || !matches!(global.shape[..], [] | [1]) {
                let (name, dtype, shape) = (quoted(&global.name), global.dtype, &global.shape);
                return Err(AnamnesisError::parse(format!("{name} is {dtype} {shape:?}; one F32 is needed")));
            }
            ids.push(id);
            // The library calculates in BF16 if the global scale is a scalar, and in F32 if it is a vector.
            let library = if global.shape.is_empty() { Step::Bf16 } else { Step::F32 };
            Some(GlobalScale { op: ScaleOp::Divide, per_matrix: false, step: Step::F32, library })
        }
    };
    let decoder = Grouped {
        layout: Layout::bytes(4, cols),
        meaning: Meaning::E2m1,
        grid: rows.grid(cols, strategy, &scale.shape)?,
        scales: Scales { kind: kind.scale, global },
        offsets: Offsets::None,
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: format!("compressed-tensors {}, groups of {group}", kind.name),
    };
    Ok(Weight {
        name: parts.output_name(claims),
        shape: rows.shape(rows.rows, cols),
        values: rows.rows.saturating_mul(cols),
        scheme: kind.scheme,
        blocks: Some(Blocks { bits: 4, size: group, nested: kind.has_global_scale }),
        coding: Coding {
            format: kind.format.to_owned(),
            bits: Some(4),
            group_size: Some(group),
            block_shape: None,
            symmetric: Some(true),
            evidence: claims.evidence(&["config_groups"]),
        },
        parts: ids,
        recipe: Recipe::Ready(Arc::new(decoder)),
    })
}

/// Whether the bytes of a row are codes of six bits in groups of as many as MXFP4 has.
fn is_six_bits(kind: &Kind, bytes: u64, scale: &StoredTensor) -> bool {
    let scales = scale.shape.last().map_or(0, |&scales| scales as u64);
    !kind.has_global_scale && scales > 0 && bytes.checked_mul(8) == scales.checked_mul(kind.group * 6)
}

/// The configured group size, after checking that the configuration describes weights of this format.
fn group_of(kind: &Kind, spec: &Spec) -> Result<u64> {
    spec.check_format(&[kind.format])?;
    spec.check_type(true, |bits| bits == 4)?;
    match spec.strategy {
        Strategy::Group(size) if spec.symmetric => Ok(size),
        _ => {
            let (place, name) = (&spec.place, kind.name);
            Err(AnamnesisError::parse(format!("{place} does not say that it is symmetric with groups, as {name} is")))
        }
    }
}
