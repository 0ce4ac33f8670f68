//! Claiming MLX weights: 32-bit words with companion scales.

use super::parts::Parts;
use super::weight::mlx_weight;
use crate::catalog::{Dtype, StoredTensor};
use crate::scheme::claim::{About, Claims, Confidence, PartName, Scheme};

/// The suffixes of companions.
const COMPANIONS: [&str; 3] = [".scales", ".biases", ".qbiases"];

/// The MLX scheme.
pub(crate) struct Mlx;

impl Scheme for Mlx {
    fn about(&self) -> About {
        About::Decoded("MLX", "affine with 1, 2, 3, 4, 5, 6 and 8 bits, mxfp4, mxfp8, nvfp4; metal of transformers")
    }

    fn part_names(&self) -> Vec<PartName> {
        COMPANIONS.map(|suffix| PartName::new(suffix, ".weight", Confidence::IfConfigured)).to_vec()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let weights: Vec<_> =
            claims.unclaimed().filter(|(_, tensor)| is_weight(claims, tensor)).map(|(id, _)| id).collect();
        for id in weights {
            let parts = Parts::take(claims, id);
            match mlx_weight(claims, &parts) {
                Ok(weight) => claims.add(weight),
                Err(problem) => claims.refuse(problem),
            }
        }
    }
}

/// Whether a tensor has the type and name of an MLX weight, and a companion here or in another file.
fn is_weight(claims: &Claims<'_>, tensor: &StoredTensor) -> bool {
    let Some(module) = tensor.name.strip_suffix(".weight").filter(|_| tensor.dtype == Dtype::U32) else { return false };
    COMPANIONS.iter().any(|suffix| {
        let name = format!("{module}{suffix}");
        claims.catalog.find(&name).is_some() || claims.elsewhere(&name).is_some()
    })
}
