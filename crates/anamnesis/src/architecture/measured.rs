//! Tensors of a checkpoint whose values decide metadata or the values of other tensors.

use std::collections::BTreeMap;

use crate::error::{AnamnesisError, Result};

/// A tensor that is read before the output is planned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadTensor {
    /// The name in a checkpoint, after the layer's prefix and number if it is in layers.
    pub name: &'static str,
    pub is_in_layer: bool,
    pub measure: Measure,
}

/// What is kept of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// All values of a small tensor.
    Values,
    /// The mean of a small tensor, in its stored type.
    Mean,
    /// The mean of the magnitudes.
    MeanMagnitude,
    /// The 2-norm of every column.
    ColumnNorms,
    /// The numbers of the rows of zeros, from the first added token on.
    ZeroRows,
    /// The SHA-256 of the values in F32, a number for each of its bytes.
    Digest,
    /// All values of a small tensor of integers.
    Integers,
}

/// A tensor outside the layers.
pub(crate) const fn read(name: &'static str, measure: Measure) -> ReadTensor {
    ReadTensor { name, is_in_layer: false, measure }
}

/// A tensor of every layer.
pub(crate) const fn read_in_layers(name: &'static str, measure: Measure) -> ReadTensor {
    ReadTensor { name, is_in_layer: true, measure }
}

/// Measured values by layer and name.
pub(crate) type ByTensor = BTreeMap<(Option<u64>, &'static str), Vec<f32>>;

/// The values of tensors of integers, by layer and name.
pub(crate) type IntegersByTensor = BTreeMap<(Option<u64>, &'static str), Vec<i64>>;

/// The measured tensors of a checkpoint; none, before it is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured(Option<ByTensor>, IntegersByTensor);

impl Measured {
    /// All tensors that were read, by layer and name.
    pub(crate) fn new(tensors: ByTensor, integers: IntegersByTensor) -> Self {
        Self(Some(tensors), integers)
    }

    /// The values of a tensor of integers outside the layers; `None` if nothing was read.
    pub(crate) fn integers(&self, name: &'static str) -> Result<Option<&[i64]>> {
        match (&self.0, self.1.get(&(None, name))) {
            (Some(_), None) => Err(AnamnesisError::parse("it is missing").in_tensor(name)),
            (_, values) => Ok(values.map(Vec::as_slice)),
        }
    }

    /// The values of a tensor, if it was read.
    pub(crate) fn get(&self, layer: Option<u64>, name: &'static str) -> Option<&[f32]> {
        self.0.as_ref()?.get(&(layer, name)).map(Vec::as_slice)
    }

    /// The values that a change depends on; `None` if nothing was read, so that only shapes matter.
    pub(crate) fn needed(&self, layer: Option<u64>, name: &'static str) -> Result<Option<&[f32]>> {
        match (&self.0, self.get(layer, name)) {
            (Some(_), None) => Err(AnamnesisError::parse(format!("the values of {name:?} were not read"))),
            (_, values) => Ok(values),
        }
    }
}
