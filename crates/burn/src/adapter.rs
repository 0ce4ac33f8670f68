//! The parameters of PyTorch as those of burn, without a second copy of any.

use std::sync::Arc;

use anamnesis::{AnamnesisError, TargetDtype};
use burn_core::tensor::Bytes;
use burn_pack::{Error, Tensor};
use burn_store::{ModuleAdapter, ModuleContext, PyTorchToBurnAdapter};

use crate::lazy::{self, Tensors};

/// The values that are decoded before they are transposed.
const TILE: usize = 1 << 18;

/// Adapts as [`PyTorchToBurnAdapter`], and transposes the weights of linear layers while they are decoded.
#[derive(Clone)]
pub(crate) struct Transposing {
    pub(crate) source: Arc<Tensors>,
    pub(crate) dtype: TargetDtype,
}

impl ModuleAdapter for Transposing {
    fn adapt(&self, tensor: Tensor, context: ModuleContext<'_>) -> Tensor {
        let is_linear = context.module_type() == Some("Struct:Linear");
        let is_weight = tensor.name.rsplit('.').next() == Some("weight");
        let &[rows, columns] = &tensor.shape[..] else { return PyTorchToBurnAdapter.adapt(tensor, context) };
        if !is_linear || !is_weight || tensor.dtype != lazy::decoded_type(self.dtype) {
            return PyTorchToBurnAdapter.adapt(tensor, context);
        }
        let (this, key) = (self.clone(), tensor.name.clone());
        let provide =
            move || this.transposed(&key, rows, columns).map_err(|error| Error::ValidationError(error.to_string()));
        let bytes = rows * columns * tensor.dtype.size();
        Tensor::deferred(tensor.name, tensor.dtype, [columns, rows], tensor.param_id, bytes, provide)
    }

    fn get_alternative_param_name(&self, parameter: &str, module: &str) -> Option<String> {
        PyTorchToBurnAdapter.get_alternative_param_name(parameter, module)
    }

    fn clone_box(&self) -> Box<dyn ModuleAdapter> {
        Box::new(self.clone())
    }
}

impl Transposing {
    /// Decodes a matrix, a few rows at a time, and writes them as columns.
    fn transposed(&self, name: &str, rows: usize, columns: usize) -> Result<Bytes, AnamnesisError> {
        let size = self.dtype.byte_size();
        let mut out = lazy::zeros(rows * columns, self.dtype);
        let height = (TILE / columns.max(1)).clamp(1, rows.max(1));
        let mut tile = vec![0; height * columns * size];
        for first in (0..rows).step_by(height) {
            let count = height.min(rows - first);
            let tile = &mut tile[..count * columns * size];
            self.source.decode_from(name, first * columns, tile, self.dtype)?;
            for column in 0..columns {
                let target = &mut out[(column * rows + first) * size..][..count * size];
                for (row, value) in target.chunks_exact_mut(size).enumerate() {
                    value.copy_from_slice(&tile[(row * columns + column) * size..][..size]);
                }
            }
        }
        Ok(out)
    }
}
