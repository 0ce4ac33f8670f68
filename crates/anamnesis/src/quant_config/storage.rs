//! Tables of stored tensors: `tensor_storage` of exllamav3 lists the shape of every tensor of a quantised module.

use super::QuantConfig;
use super::json::{Json, Members};
use crate::catalog::StoredTensor;
use crate::error::{AnamnesisError, Result, quoted};

/// The member with an object per module, and the member of that with an object per tensor.
const MODULES: &str = "tensor_storage";
const TENSORS: &str = "stored_tensors";

impl QuantConfig {
    /// Refuses stored tensors of a module whose shapes contradict the table of a description.
    pub(crate) fn check_storage(&self, module: &str, stored: &[StoredTensor]) -> Result<()> {
        for description in &self.descriptions {
            let tables = description.members.get(MODULES).and_then(Json::members);
            let Some(table) = tables.and_then(|modules| modules.get(module)).and_then(Json::members) else { continue };
            let Some(tensors) = table.get(TENSORS).and_then(Json::members) else { continue };
            for tensor in stored {
                let listed = tensors.get(&tensor.name).and_then(Json::members);
                if listed.and_then(shape).is_none_or(|shape| shape != tensor.shape) {
                    let (place, name, shape) = (description.place().with(MODULES), quoted(&tensor.name), &tensor.shape);
                    return Err(AnamnesisError::parse(format!("{name} has shape {shape:?}, and {place} another one")));
                }
            }
        }
        Ok(())
    }
}

fn shape(tensor: &Members) -> Option<Vec<usize>> {
    let Json::List(dims) = tensor.get("shape")? else { return None };
    let dim = |dim: &Json| match dim {
        Json::Number(number) => usize::try_from(number.as_u64()?).ok(),
        _ => None,
    };
    dims.iter().map(dim).collect()
}
