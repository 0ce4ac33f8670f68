//! Methods that a configuration names and nobody decodes: what they pack is refused by their names, whatever its tensors look
//! like.

use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, quoted};

use super::claims::Claims;
use super::part_name::{Confidence, PartName};
use super::scheme::{About, Scheme};

/// Refuses what is quantised by a method that nobody decodes.
pub(in crate::scheme) struct Methods;

/// `quant_method`, the name of the format, and what it would need.
const METHODS: [(&str, &str, &str); 18] = [
    ("aqlm", "AQLM", "its codes point into learned codebooks"),
    ("bitblas", "BitBLAS", "its codes lie in the tiles of one kind of machine"),
    ("eetq", "EETQ", "its columns are interleaved for the machine that packed them, and nothing stored says which"),
    ("exl2", "EXL2", "its rows have different numbers of bits"),
    ("exl3", "EXL3", "its codes are paths of a trellis, and the weights are rotated"),
    ("fouroversix", "Four Over Six", "its blocks choose between two ranges"),
    ("fp_quant", "FP-Quant", "its weights are rotated by a stored matrix, and its library does not rotate them back"),
    ("gemma", "Gemma quantisation", "its layers quantise what they are given too"),
    ("higgs", "HIGGS", "its codes point into grids, and the weights are rotated"),
    ("paroquant", "ParoQuant", "its weights are rotated in pairs"),
    ("qqq", "QQQ", "its codes lie in the tiles of one kind of machine"),
    ("quip", "QuIP#", "its codes point into a lattice, and the weights are rotated"),
    ("quip_sharp", "QuIP#", "its codes point into a lattice, and the weights are rotated"),
    ("quip#", "QuIP#", "its codes point into a lattice, and the weights are rotated"),
    ("sinq", "SINQ", "its weights have a scale for every column too, and their description is in a file of its own"),
    ("spqr", "SpQR", "its outliers are stored beside its codes"),
    ("tequila", "Tequila", "its codes are of three values with a bias"),
    ("vptq", "VPTQ", "its codes point into learned codebooks"),
];

impl Scheme for Methods {
    fn about(&self) -> About {
        let mut names: Vec<_> = METHODS.iter().map(|(_, name, _)| *name).collect();
        names.dedup();
        About::Refused(names)
    }

    fn part_names(&self) -> Vec<PartName> {
        let of = |ends: &'static [&'static str], codes| {
            ends.iter().map(move |end| PartName::new(end, codes, Confidence::IfConfigured))
        };
        of(&PARTS_OF_SINQ, ".W_q").chain(of(&PARTS_OF_GEMMA, ".weight")).collect()
    }

    fn claim(&self, claims: &mut Claims<'_>) {
        let method = claims.config.method().map(str::to_ascii_lowercase);
        let Some(&(_, format, why)) = METHODS.iter().find(|(known, ..)| Some(*known) == method.as_deref()) else {
            return;
        };
        let is_one = |tensor: &StoredTensor| is_packed(tensor.dtype) || is_rotated(&tensor.name);
        let packed: Vec<_> = claims.free().filter(|(_, tensor)| is_one(tensor)).collect();
        for (id, tensor) in packed.into_iter().filter(|(_, tensor)| !is_count(&tensor.name)) {
            claims.take_refused(id, format);
            let (name, dtype, file) = (quoted(&tensor.name), tensor.dtype, claims.config.file());
            let detail = format!("tensor {name} ({dtype}) is packed as {file} says, which is not decoded: {why}");
            claims.refuse(AnamnesisError::unsupported(format, detail));
        }
    }
}

/// What SINQ calls the companions of its codes.
const PARTS_OF_SINQ: [&str; 7] =
    [".meta.scale", ".meta.zero", ".meta.scale2", ".meta.scale.s", ".meta.scale.m", ".meta.zero.s", ".meta.zero.m"];

/// What Gemma's own quantisation calls scales of activations.
const PARTS_OF_GEMMA: [&str; 4] =
    [".input_activation_scale", ".output_activation_scale", ".k_cache_scale", ".v_cache_scale"];

/// Types that codes are stored in.
fn is_packed(dtype: Dtype) -> bool {
    use Dtype::{I8, I16, I32, I64, U8, U16, U32, U64};
    dtype.is_quantized() || matches!(dtype, U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64 | Dtype::F8E8M0)
}

/// What FP-Quant calls weights that are rounded and rotated, and stored as floats.
fn is_rotated(name: &str) -> bool {
    name.ends_with(".dqweight")
}

/// Integers that models of any kind keep.
fn is_count(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    ["position_ids", "num_batches_tracked", "token_type_ids"].contains(&last)
}
