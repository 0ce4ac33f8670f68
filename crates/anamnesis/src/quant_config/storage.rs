//! Tables of stored tensors: `tensor_storage` of exllamav3 lists the type and shape of every tensor of a quantised
//! module, and its bits.

use super::QuantConfig;
use super::json::{Json, Members};
use crate::catalog::{Dtype, StoredTensor};
use crate::error::{AnamnesisError, Result, quoted};

/// The member with an object per module, and the member of that with an object per tensor.
const MODULES: &str = "tensor_storage";
const TENSORS: &str = "stored_tensors";
const BITS: &str = "bits_per_weight";
/// The suffix of a listed tensor that is not part of a weight.
const BIAS: &str = ".bias";

impl QuantConfig {
    /// Whether a description lists the stored tensors of a module.
    pub(crate) fn lists_storage(&self, module: &str) -> bool {
        self.descriptions.iter().any(|description| {
            let tables = description.members.get(MODULES).and_then(Json::members);
            let table = tables.and_then(|modules| modules.get(module)).and_then(Json::members);
            table.and_then(|table| table.get(TENSORS)).is_some()
        })
    }

    /// Refuses stored tensors of a module of so many bits that contradict the table of a description.
    pub(crate) fn check_storage(&self, module: &str, stored: &[StoredTensor], bits: f64) -> Result<()> {
        for description in &self.descriptions {
            let tables = description.members.get(MODULES).and_then(Json::members);
            let Some(table) = tables.and_then(|modules| modules.get(module)).and_then(Json::members) else { continue };
            let place = description.place().with(MODULES);
            if let Some(Json::Number(listed)) = table.get(BITS)
                && listed.as_f64() != Some(bits)
            {
                return Err(AnamnesisError::parse(format!("its weights have {bits} bits, {place} says {listed}")));
            }
            let Some(tensors) = table.get(TENSORS).and_then(Json::members) else { continue };
            for tensor in stored {
                let listed = tensors.get(&tensor.name).and_then(Json::members);
                let is_listed =
                    |entry: &Members| shape(entry).as_deref() == Some(&tensor.shape) && has_type(entry, tensor.dtype);
                if !listed.is_some_and(is_listed) {
                    let (name, dtype, shape) = (quoted(&tensor.name), tensor.dtype, &tensor.shape);
                    return Err(AnamnesisError::parse(format!("{name} is {dtype} {shape:?}, and {place} differs")));
                }
            }
            let is_present = |name: &str| name.ends_with(BIAS) || stored.iter().any(|tensor| tensor.name == name);
            if let Some(name) = tensors.iter().map(|(name, _)| name).find(|name| !is_present(name)) {
                return Err(AnamnesisError::parse(format!("{place} lists {}, which it does not have", quoted(name))));
            }
        }
        Ok(())
    }
}

/// Whether an entry has this type, as PyTorch names it, or none.
fn has_type(entry: &Members, dtype: Dtype) -> bool {
    let Some(Json::Text(listed)) = entry.get("dtype") else { return true };
    let name = match dtype {
        Dtype::I16 => "torch.int16",
        Dtype::I32 => "torch.int32",
        Dtype::F16 => "torch.float16",
        Dtype::BF16 => "torch.bfloat16",
        Dtype::F32 => "torch.float32",
        // PyTorch has these types under their own names; the tables of exllamav3 have signed words only.
        Dtype::U16 => "torch.uint16",
        Dtype::U32 => "torch.uint32",
        _ => return false,
    };
    listed == name
}

fn shape(tensor: &Members) -> Option<Vec<usize>> {
    let Json::List(dims) = tensor.get("shape")? else { return None };
    let dim = |dim: &Json| match dim {
        Json::Number(number) => usize::try_from(number.as_u64()?).ok(),
        _ => None,
    };
    dims.iter().map(dim).collect()
}
