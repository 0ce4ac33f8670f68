//! Quark's MXFP4: four-bit floats with a power-of-two scale per 32 values.

use std::sync::Arc;

use super::parts::Parts;
use super::spec::{QuarkSpec, only};
use crate::catalog::Dtype;
use crate::catalog::dtype::elements;
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, Weight};
use crate::scheme::coder::{Arrangement, Coding, Evidence, Grid, Recipe, ScaleType};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Scales};

/// The group size.
const GROUP: u64 = 32;

pub(super) fn weight(claims: &Claims<'_>, parts: &Parts, specs: &[QuarkSpec<'_>]) -> Result<Weight> {
    let codes = claims.catalog.get(parts.codes);
    let spec = only(specs, &["fp4"])?;
    if let Some(spec) = spec {
        spec.needs("scale_format", "e8m0")?;
        spec.needs("qscheme", "per_group")?;
        spec.needs_axis(&[1, -1])?;
        if let Some(size) = spec.group_size()?.filter(|&size| size != GROUP as i64) {
            return Err(AnamnesisError::parse(format!("{} has groups of {size}; {GROUP} are read", spec.place())));
        }
    }
    let scale_id = parts.scale.ok_or_else(|| parts.missing(claims, "scale"))?;
    let scale = claims.catalog.get(scale_id);
    let name = quoted(&scale.name);
    if scale.dtype != Dtype::U8 {
        return Err(AnamnesisError::parse(format!("{name} is {}; U8 is needed", scale.dtype)));
    }
    if let Some(zeros) = parts.zeros {
        let zeros = quoted(&claims.catalog.get(zeros).name);
        return Err(AnamnesisError::parse(format!("it has {zeros}, but four-bit floats have no zero points")));
    }
    let fail = || {
        AnamnesisError::parse(format!(
            "bytes of shape {:?} and {name} of shape {:?} are not two codes a byte and {GROUP} a scale",
            codes.shape, scale.shape
        ))
    };
    let ([stack @ .., rows, bytes], [above @ .., scale_rows, groups]) = (&codes.shape[..], &scale.shape[..]) else {
        return Err(fail());
    };
    let columns = (*bytes as u64).checked_mul(2).ok_or_else(fail)?;
    let fits = above == stack && scale_rows == rows && (*groups as u64).checked_mul(GROUP) == Some(columns);
    if !fits || columns == 0 || *rows == 0 {
        return Err(fail());
    }
    let shape = [stack, &[*rows, columns as usize]].concat();
    let values = elements(&shape).ok_or_else(fail)?;
    let evidence =
        spec.map_or_else(|| claims.evidence(&["quant_method"]), |spec| Evidence::Configuration(spec.place()));
    Ok(Weight {
        name: codes.name.clone(),
        shape,
        values,
        scheme: QuantScheme::Named("MXFP4"),
        blocks: Some(Blocks { bits: 4, size: GROUP, nested: false }),
        coding: Coding {
            format: "MXFP4".to_owned(),
            bits: Some(4),
            group_size: Some(GROUP),
            block_shape: None,
            symmetric: Some(true),
            evidence,
        },
        parts: vec![parts.codes, scale_id],
        recipe: Recipe::Ready(Arc::new(Grouped {
            layout: Layout::bytes(4, columns),
            meaning: Meaning::E2m1,
            grid: Grid::new(*rows as u64, columns, 1, GROUP, Arrangement::Block(1, GROUP)),
            scales: Scales { kind: ScaleType::Exponent, global: None },
            offsets: Offsets::None,
            is_indexed: false,
            arithmetic: Arithmetic::default(),
            description: "MXFP4, groups of 32".to_owned(),
        })),
    })
}
