//! Claiming the experts of gpt-oss: blocks of 16 bytes that are transposed while they are decoded.

use std::sync::Arc;

use super::method::check_method;
use super::transposed::TransposedBlocks;
use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::claim::{Blocks, Claims, QuantScheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Evidence, Recipe};

/// Codes per block.
const BLOCK: u64 = 32;

pub(super) fn claim(claims: &mut Claims<'_>) {
    let is_weight = |tensor: &StoredTensor| {
        let Some(name) = scales_of(tensor).filter(|_| tensor.dtype == Dtype::U8) else { return false };
        claims.catalog.find(&name).is_some() || claims.elsewhere(&name).is_some()
    };
    let weights: Vec<_> = claims.unclaimed().filter(|(_, tensor)| is_weight(tensor)).map(|(id, _)| id).collect();
    for id in weights {
        claims.take(id, TensorRole::Quantized);
        let blocks = claims.catalog.get(id);
        let scales = scales_of(blocks).and_then(|name| claims.find_unclaimed(&name));
        if let Some(scales) = scales {
            claims.take(scales, TensorRole::Scale);
        }
        match weight(claims, id, scales) {
            Ok(weight) => claims.add(weight),
            Err(problem) => claims.refuse(problem.in_tensor(&blocks.name)),
        }
    }
}

/// The name of the scales of blocks.
fn scales_of(blocks: &StoredTensor) -> Option<String> {
    Some(format!("{}_scales", blocks.name.strip_suffix("_blocks")?))
}

fn weight(claims: &Claims<'_>, id: TensorId, scales: Option<TensorId>) -> Result<Weight> {
    let blocks = claims.catalog.get(id);
    let name = blocks.name.strip_suffix("_blocks").unwrap_or(&blocks.name);
    let module = claims.config.module(name.rsplit_once('.').map_or("", |(module, _)| module));
    check_method(claims, &module, &["mxfp4"])?;
    let Some(scale_id) = scales else {
        let scales = scales_of(blocks).unwrap_or_default();
        return Err(claims.missing(&scales));
    };
    let scales = claims.catalog.get(scale_id);
    if scales.dtype != Dtype::U8 {
        return Err(AnamnesisError::parse(format!("{} is {}; U8 is needed", quoted(&scales.name), scales.dtype)));
    }
    let ([experts, outputs, count, 16], [a, b, c]) = (&blocks.shape[..], &scales.shape[..]) else {
        return Err(misfit(blocks, scales));
    };
    if [experts, outputs, count] != [a, b, c] || elements(&blocks.shape).unwrap_or(0) == 0 {
        return Err(misfit(blocks, scales));
    }
    let inputs = count.checked_mul(BLOCK as usize).ok_or_else(|| misfit(blocks, scales))?;
    let shape = vec![*experts, inputs, *outputs];
    let values = elements(&shape).ok_or_else(|| misfit(blocks, scales))?;
    claims.check_output(name)?;
    let place = module.args().place_of(&["quant_method"]);
    Ok(Weight {
        name: name.to_owned(),
        shape,
        values,
        scheme: QuantScheme::Named("MXFP4"),
        blocks: Some(Blocks { bits: 4, size: BLOCK, nested: false }),
        coding: Coding {
            format: "MXFP4".to_owned(),
            bits: Some(4),
            group_size: Some(BLOCK),
            block_shape: None,
            symmetric: Some(true),
            evidence: place.map_or(Evidence::Names, Evidence::Configuration),
        },
        parts: vec![id, scale_id],
        recipe: Recipe::Ready(Arc::new(TransposedBlocks { outputs: *outputs as u64, blocks: *count as u64 })),
    })
}

fn misfit(blocks: &StoredTensor, scales: &StoredTensor) -> AnamnesisError {
    AnamnesisError::parse(format!(
        "blocks of shape {:?} and {} of shape {:?} are not [experts, out, in / 32, 16] and a scale for each",
        blocks.shape,
        quoted(&scales.name),
        scales.shape
    ))
}
