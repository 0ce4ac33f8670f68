//! The result of decoding a mutilated checkpoint.

use super::case::Truth;
use crate::support::{Contents, Tensor, difference};

/// The outcome of one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All decoded values are right.
    Correct,
    Refused(String),
    /// A weight or a plain tensor has different values.
    Wrong(String),
    /// A part of a quantised weight was copied like a tensor of the model.
    Orphan(String),
    /// A weight is missing without an error.
    Lost(String),
    Panicked,
}

impl Verdict {
    /// Judges the output of a checkpoint. `lost` returns whether a missing weight was lost.
    pub fn of(outcome: anamnesis::Result<Contents>, truth: &Truth, lost: impl Fn(&str) -> bool) -> Self {
        let output = match outcome {
            Ok(output) => output,
            Err(error) => return Self::Refused(error.to_string()),
        };
        for (name, found) in &output.tensors {
            let wanted = truth.weights.get(name).or_else(|| truth.plain.get(name));
            let Some(wanted) = wanted else { continue };
            let comparable = |tensor: &Tensor| match truth.unsigned_zeros && tensor.dtype == "F32" {
                true => with_positive_zeros(tensor),
                false => tensor.clone(),
            };
            if let Some(why) = difference(&comparable(wanted), &comparable(found)) {
                return Self::Wrong(format!("{name}: {why}"));
            }
        }
        let known = |name: &&String| !truth.weights.contains_key(*name) && !truth.plain.contains_key(*name);
        if let Some(name) = output.tensors.keys().find(known) {
            let Tensor { dtype, shape, .. } = &output.tensors[name];
            return Self::Orphan(format!("{name} {dtype} {shape:?}"));
        }
        let wanted = truth.weights.keys().chain(truth.plain.keys());
        match wanted.into_iter().find(|name| !output.tensors.contains_key(*name) && lost(name)) {
            Some(name) => Self::Lost(name.clone()),
            None => Self::Correct,
        }
    }

    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::Correct | Self::Refused(_))
    }
}

/// The tensor with every negative zero made positive.
fn with_positive_zeros(tensor: &Tensor) -> Tensor {
    let mut tensor = tensor.clone();
    for element in tensor.data.chunks_exact_mut(4).filter(|element| **element == [0, 0, 0, 0x80]) {
        element[3] = 0;
    }
    tensor
}
