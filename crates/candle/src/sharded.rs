//! Shares of tensors for the ranks of tensor parallelism.

use std::sync::Arc;

use candle_core::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::var_builder::{Backend, Shard, VarBuilderArgs};

use crate::tensors::Tensors;

/// The backend of a `VarBuilder` whose hints are [`Shard`]s. A share of the first dimension decodes its rows alone.
pub struct ShardedBackend {
    tensors: Arc<Tensors>,
}

impl ShardedBackend {
    pub(crate) fn new(tensors: Arc<Tensors>) -> Self {
        Self { tensors }
    }

    /// A `VarBuilder` of this type and device, for `get_with_hints`.
    #[must_use]
    pub fn var_builder(self, dtype: DType, device: &Device) -> VarBuilderArgs<'static, Self> {
        VarBuilderArgs::new_with_args(self, dtype, device)
    }
}

impl Backend for ShardedBackend {
    type Hints = Shard;

    /// The share of a rank; the shape is that of the whole tensor, and is checked if there is one rank.
    fn get(&self, shape: Shape, name: &str, shard: Shard, dtype: DType, device: &Device) -> Result<Tensor> {
        let Shard { dim, rank, world_size } = shard;
        if world_size == 1 {
            self.tensors.check_shape(name, &shape)?;
            return self.tensors.get(name, dtype, device);
        }
        let whole = self.tensors.needed_shape(name)?;
        let size = whole.get(dim).copied().unwrap_or(0);
        if world_size == 0 || rank >= world_size || size == 0 || size % world_size != 0 {
            let text = format!("rank {rank} of {world_size} has no share of dimension {dim} of {name} {whole:?}");
            return Err(Error::Msg(text).bt());
        }
        let share = size / world_size;
        match dim {
            0 => self.tensors.rows(name, rank * share..(rank + 1) * share, dtype, device),
            _ => self.tensors.get(name, dtype, device)?.narrow(dim, rank * share, share)?.contiguous(),
        }
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        self.tensors.get(name, dtype, device)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.tensors.shape(name).is_some()
    }
}
