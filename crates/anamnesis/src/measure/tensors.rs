//! The decoded tensors of a checkpoint: the input of measurements.

use std::sync::Arc;

use crate::catalog::{Dtype, StoredTensor, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::container::OutputTensor;
use crate::error::Result;
use crate::pipeline::{Origin, Planned, Values, Work};
use crate::scheme::PlainDecoder;

/// A decoded tensor: a quantised weight, or plain data.
pub(super) struct DecodedInput<'a> {
    pub name: &'a str,
    pub shape: Vec<usize>,
    pub content: InputContent<'a>,
}

pub(super) enum InputContent<'a> {
    /// Numbers, and the stored tensor if they are plain floats.
    Values(Values, Option<&'a StoredTensor>),
    /// Data that is not decoded.
    Stored(&'a StoredTensor),
}

impl Checkpoint {
    /// All tensors, each decoded to `dtype`, in order of name. A checkpoint that cannot be decoded as a whole
    /// is an error.
    pub(super) fn decoded_inputs(&self, dtype: TargetDtype) -> Result<Vec<DecodedInput<'_>>> {
        let claimed = self.claimed();
        if let Some(problem) = claimed.problems.first() {
            return Err(problem.duplicate());
        }
        let mut inputs = Vec::new();
        for weight in claimed.weights.iter() {
            let (shape, values) = self.weight_values(weight, dtype).map_err(|error| error.in_tensor(&weight.name))?;
            inputs.push(DecodedInput { name: &weight.name, shape, content: InputContent::Values(values, None) });
        }
        for tensor in self.plain() {
            let content = match PlainDecoder::of(tensor.dtype) {
                Some(decoder) => {
                    let values = Values {
                        decoder: Arc::new(decoder),
                        parts: vec![tensor.extent],
                        sources: Vec::new(),
                        dtype,
                        elements: tensor.elements(),
                        origin: Origin::Plain,
                    };
                    InputContent::Values(values, Some(tensor))
                }
                None => InputContent::Stored(tensor),
            };
            inputs.push(DecodedInput { name: &tensor.name, shape: tensor.shape.clone(), content });
        }
        inputs.sort_by_key(|input| input.name);
        Ok(inputs)
    }
}

/// The job that decodes values for a measurement, with the number of decoded bytes.
pub(super) fn measured(name: &str, values: Values, bytes: u64) -> Planned {
    let outputs = vec![OutputTensor { name: name.to_owned(), dtype: Dtype::F32, shape: Vec::new(), bytes }];
    Planned { outputs, work: Work::Decode(values) }
}
