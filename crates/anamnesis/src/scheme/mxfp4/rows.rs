//! Claiming the experts of DeepSeek-V4: codes in rows, two in a byte.

use std::sync::Arc;

use super::method::check_method;
use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, TensorRole, Weight};
use crate::scheme::coder::{Arrangement, Coding, Evidence, Grid, Recipe, ScaleType};
use crate::scheme::grouped::{Arithmetic, Grouped, Layout, Meaning, Offsets, Scales};

/// The group size.
const GROUP: u64 = 32;

/// The `quant_method` of DeepSeek-V4 checkpoints.
const METHOD: &str = "fp8";

pub(super) fn claim(claims: &mut Claims<'_>) {
    let found = |(id, tensor)| {
        let scale = scale_of(claims, tensor)?;
        Some((id, scale))
    };
    let weights: Vec<_> = claims.unclaimed().filter_map(found).collect();
    for (id, scale) in weights {
        claims.take(id, TensorRole::Quantized);
        claims.take(scale, TensorRole::Scale);
        match weight(claims, id, scale) {
            Ok(weight) => claims.add(weight),
            Err(problem) => claims.refuse(problem.in_tensor(&claims.catalog.get(id).name)),
        }
    }
}

/// The scale of an I8 tensor that holds four-bit floats: its scale is E8M0, or stored as its bytes for every 32 codes, or the
/// configuration has `expert_dtype` fp4.
fn scale_of(claims: &Claims<'_>, tensor: &StoredTensor) -> Option<TensorId> {
    if tensor.dtype != Dtype::I8 {
        return None;
    }
    let own = tensor.name.strip_suffix(".weight").map(|module| format!("{module}.scale"));
    let mut names = own.into_iter().chain([format!("{}_scale_inv", tensor.name)]);
    let scale = names.find_map(|name| claims.find_unclaimed(&name))?;
    let is_configured = || matches!(claims.config.args().text(&["expert_dtype"]), Ok(Some("fp4")));
    let powers = claims.catalog.get(scale);
    let is_power = powers.dtype == Dtype::F8E8M0 || powers.dtype == Dtype::U8 && fits(&tensor.shape, &powers.shape);
    (is_power || is_configured()).then_some(scale)
}

/// Whether there is a scale for every 32 codes, two of which are in a byte.
fn fits(codes: &[usize], scales: &[usize]) -> bool {
    let ([stack @ .., bytes], [above @ .., groups]) = (codes, scales) else { return false };
    stack == above && *bytes > 0 && (*groups as u64).checked_mul(GROUP) == (*bytes as u64).checked_mul(2)
}

fn weight(claims: &Claims<'_>, id: TensorId, scale_id: TensorId) -> Result<Weight> {
    let [codes, scale] = [id, scale_id].map(|id| claims.catalog.get(id));
    let module = claims.config.module(codes.name.rsplit_once('.').map_or("", |(module, _)| module));
    check_method(claims, &module, &[METHOD])?;
    if let Some(dtype) = module.args().text(&["expert_dtype"])?.filter(|&dtype| dtype != "fp4") {
        let place = module.args().place_of(&["expert_dtype"]).unwrap_or_default();
        return Err(AnamnesisError::parse(format!("it is packed in bytes, and {place} is {}", quoted(dtype))));
    }
    let kind = match scale.dtype {
        Dtype::F8E8M0 => ScaleType::E8m0,
        Dtype::F32 => ScaleType::F32,
        Dtype::U8 => ScaleType::Exponent,
        dtype => {
            let name = quoted(&scale.name);
            return Err(AnamnesisError::parse(format!("{name} is {dtype}; F8_E8M0, U8 or F32 is needed")));
        }
    };
    let fail = || {
        AnamnesisError::parse(format!(
            "bytes of shape {:?} and {} of shape {:?} are not two codes a byte and {GROUP} a scale",
            codes.shape,
            quoted(&scale.name),
            scale.shape
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
    let place = module.args().place_of(&["expert_dtype", "quant_method"]);
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
            evidence: place.map_or(Evidence::Names, Evidence::Configuration),
        },
        parts: vec![id, scale_id],
        recipe: Recipe::Ready(Arc::new(Grouped {
            layout: Layout::bytes(4, columns),
            meaning: Meaning::E2m1,
            grid: Grid::new(*rows as u64, columns, 1, GROUP, Arrangement::Block(1, GROUP)),
            scales: Scales { kind, global: None },
            offsets: Offsets::None,
            is_indexed: false,
            arithmetic: Arithmetic::default(),
            description: "MXFP4, groups of 32".to_owned(),
        })),
    })
}
