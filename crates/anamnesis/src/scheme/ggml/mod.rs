//! GGML blocks: each block contains its scales, so a tensor needs no companions.
//!
//! Only NVFP4 tensors may have a companion, `X.scale` for `X.weight`: a global scale in F32, one value or one per
//! matrix of a stack of experts. The decoder multiplies the values by it.

mod decoder;
#[cfg(feature = "convert")]
mod encoder;
#[cfg(feature = "convert")]
mod mix;

#[cfg(feature = "convert")]
mod quantiser;
#[cfg(feature = "convert")]
mod tensor_types;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::catalog::{BlockType, Dtype, StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};

use crate::scheme::claim::{About, Claims, QuantScheme, Scheme, TensorRole, Weight};
use crate::scheme::coder::{Coding, Evidence, Recipe};

pub(crate) use decoder::GgmlDecoder;
use decoder::ScaledBlock;
#[cfg(feature = "convert")]
pub(crate) use encoder::{BlockEncoder, encode_rows, is_encoded};
#[cfg(feature = "convert")]
pub(crate) use quantiser::{ENCODINGS, in_order};

/// The block types of ggml.
pub(crate) struct Ggml;

impl Scheme for Ggml {
    fn about(&self) -> About {
        About::Decoded("GGML blocks", "every block type; big-endian where ggml defines the bytes")
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let blocks: Vec<_> = claims
            .unclaimed()
            .filter_map(|(id, tensor)| match tensor.dtype {
                Dtype::Block(block) => Some((id, tensor, block)),
                _ => None,
            })
            .collect();
        for (id, tensor, block) in blocks {
            claims.take(id, TensorRole::Quantized);
            match weight(claims, id, tensor, block) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem),
            }
        }
    }
}

fn weight(claims: &mut Claims<'_>, id: TensorId, tensor: &StoredTensor, block: BlockType) -> Result<Weight> {
    let mut parts = vec![id];
    let mut decoder = GgmlDecoder::new(block);
    if let Some((scaled, scale)) = scale_of(claims, tensor, block) {
        let scale_tensor = claims.catalog.get(scale);
        claims.take(scale, TensorRole::Scale);
        let count = scale_tensor.elements();
        let matrices = tensor.shape.iter().rev().skip(2).product::<usize>() as u64;
        if scale_tensor.dtype != Dtype::F32 || count == 0 || (count != 1 && count != matrices) {
            return Err(AnamnesisError::parse(format!(
                "scale {} is {} {:?}; {} of shape {:?} needs one F32, or one per matrix",
                quoted(&scale_tensor.name),
                scale_tensor.dtype,
                scale_tensor.shape,
                quoted(&tensor.name),
                tensor.shape,
            )));
        }
        decoder = GgmlDecoder::scaled(scaled, tensor.elements() / count);
        parts.push(scale);
    }
    Ok(Weight {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        values: tensor.elements(),
        scheme: QuantScheme::Ggml,
        blocks: None,
        coding: Coding {
            format: block.name().to_owned(),
            bits: block.name().chars().find_map(|digit| digit.to_digit(10)).and_then(|bits| u8::try_from(bits).ok()),
            group_size: Some(block.block_elements()),
            evidence: Evidence::Type,
            ..Coding::default()
        },
        parts,
        recipe: Recipe::Ready(Arc::new(decoder)),
    })
}

/// The global scale of a tensor whose block type may have one.
fn scale_of(claims: &Claims<'_>, tensor: &StoredTensor, block: BlockType) -> Option<(ScaledBlock, TensorId)> {
    let (scaled, module) = (ScaledBlock::of(block)?, tensor.name.strip_suffix("weight")?);
    Some((scaled, claims.find_unclaimed(&format!("{module}scale"))?))
}
