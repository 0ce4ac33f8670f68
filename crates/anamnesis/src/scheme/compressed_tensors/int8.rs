//! `int-quantized` and `naive-quantized`: integer codes of up to 8 bits, each in a byte. Eight-bit floats are decoded
//! by FP8.

use std::sync::Arc;

use super::parts::Parts;
use super::scales::{Rows, block_shape, check_bytes, check_symmetry, describe, float_scale, group_size};
use super::spec::Spec;
use crate::error::Result;
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{Coding, Recipe, ScaleType};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Scales};

const FORMATS: [&str; 2] = ["int-quantized", "naive-quantized"];
const SCHEME: QuantScheme = QuantScheme::Named("compressed-tensors int-quantized");

pub(super) fn byte_weight(claims: &Claims<'_>, parts: &Parts, spec: &Spec) -> Result<Weight> {
    spec.check_format(&FORMATS)?;
    spec.check_type(false, |_| true)?;
    parts.refuse(claims, FORMATS[0], &[parts.global_scale, parts.shape, parts.g_idx])?;
    let codes = claims.catalog.get(parts.codes);
    let (rows, cols) = Rows::of(codes)?;
    let (scale_id, scale) = parts.needed(claims, parts.scale, "weight_scale")?;
    rows.check_scale(scale, spec.strategy)?;
    let zero_point = parts.zero_point.map(|id| claims.catalog.get(id));
    check_symmetry(spec, zero_point, &format!("{}.weight_zero_point", parts.module(claims)))?;
    if let Some(zero_point) = zero_point {
        check_bytes(zero_point, scale)?;
    }
    let decoder = Grouped {
        layout: Layout::bytes(8, cols),
        meaning: Meaning::Signed,
        grid: rows.grid(cols, spec.strategy, &scale.shape)?,
        scales: Scales { kind: float_scale(scale)?, global: None },
        offsets: match zero_point {
            Some(_) => Offsets::Stored { kind: ScaleType::I8, plus: 0 },
            None => Offsets::None,
        },
        is_indexed: false,
        arithmetic: Arithmetic::default(),
        description: format!("compressed-tensors INT8, {}", describe(spec.strategy)),
    };
    let mut ids = vec![parts.codes, scale_id];
    ids.extend(parts.zero_point);
    Ok(Weight {
        name: codes.name.clone(),
        shape: codes.shape.clone(),
        values: codes.elements(),
        scheme: SCHEME,
        blocks: group_size(spec.strategy).map(|size| Blocks { bits: 8, size, nested: false }),
        coding: Coding {
            format: spec.format.as_deref().unwrap_or(FORMATS[0]).to_owned(),
            bits: Some(spec.bits),
            group_size: group_size(spec.strategy),
            block_shape: block_shape(spec.strategy, Some(cols)),
            symmetric: Some(zero_point.is_none()),
            evidence: claims.evidence(&["config_groups"]),
        },
        parts: ids,
        recipe: Recipe::Ready(Arc::new(decoder)),
    })
}
