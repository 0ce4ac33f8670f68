//! Quantisation methods that a configuration names and that are not decoded: the packed tensors of the checkpoint are
//! refused by the name of the method, whatever they are called.

use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, quoted};

use super::claims::Claims;
use super::scheme::{About, Scheme};

/// Refuses checkpoints that are quantised by a method that is not decoded.
pub(in crate::scheme) struct RefusedMethods;

/// `quant_method`, the name of the format, and why it is not decoded.
const METHODS: [(&str, &str, &str); 10] = [
    ("bitblas", "BitBLAS", "its codes are stored in the tile order of one kind of GPU"),
    ("fp_quant", "FP-Quant", "its weights are rotated by a stored matrix, and its library does not rotate them back"),
    ("higgs", "HIGGS", "its codes point into grids, and the weights are rotated"),
    ("paroquant", "ParoQuant", "its weights are rotated in pairs"),
    ("qqq", "QQQ", "its codes are stored in the tile order of one kind of GPU"),
    ("quip", "QuIP#", "its codes point into a lattice, and the weights are rotated"),
    ("quip_sharp", "QuIP#", "its codes point into a lattice, and the weights are rotated"),
    ("quip#", "QuIP#", "its codes point into a lattice, and the weights are rotated"),
    ("spqr", "SpQR", "its outliers are stored apart from its codes"),
    ("tequila", "Tequila", "its codes are ternary, with a bias"),
];

impl Scheme for RefusedMethods {
    fn about(&self) -> About {
        let mut names: Vec<_> = METHODS.iter().map(|(_, name, _)| *name).collect();
        names.dedup();
        About::Refused(names)
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let method = claims.config.method().map(str::to_ascii_lowercase);
        let Some(&(_, format, why)) = METHODS.iter().find(|(known, ..)| Some(*known) == method.as_deref()) else {
            return;
        };
        let is_quantised = |tensor: &StoredTensor| is_packed(tensor.dtype) || is_rotated(&tensor.name);
        let quantised: Vec<_> = claims.unclaimed().filter(|(_, tensor)| is_quantised(tensor)).collect();
        for (id, tensor) in quantised.into_iter().filter(|(_, tensor)| !is_integer_buffer(&tensor.name)) {
            claims.take_refused(id, format);
            let (name, dtype, file) = (quoted(&tensor.name), tensor.dtype, claims.config.file());
            let detail =
                format!("tensor {name} ({dtype}) is packed by the method of {file}, which is not decoded: {why}");
            claims.refuse(AnamnesisError::unsupported(format, detail));
        }
    }
}

/// Whether codes may be stored in this type.
fn is_packed(dtype: Dtype) -> bool {
    use Dtype::{I8, I16, I32, I64, U8, U16, U32, U64};
    dtype.is_quantized() || matches!(dtype, U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64 | Dtype::F8E8M0)
}

/// Whether this is the name of an FP-Quant weight that is rounded and rotated, and stored as floats.
fn is_rotated(name: &str) -> bool {
    name.ends_with(".dqweight")
}

/// Whether this is the name of an integer buffer that unquantised models have too.
fn is_integer_buffer(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    ["position_ids", "num_batches_tracked", "token_type_ids"].contains(&last)
}
