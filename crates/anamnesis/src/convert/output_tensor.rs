//! An output tensor, and how many bytes it takes.

use crate::catalog::{Dtype, dtype::elements};
use crate::container::OutputTensor;
use crate::error::{AnamnesisError, Result, quoted};

pub(super) fn output(name: String, dtype: Dtype, shape: Vec<usize>) -> Result<OutputTensor> {
    let bytes = elements(&shape).and_then(|elements| dtype.byte_len(elements));
    match bytes {
        Some(bytes) => Ok(OutputTensor { name, dtype, shape, bytes }),
        None => {
            Err(AnamnesisError::parse(format!("tensor {} of shape {shape:?} is too large as {dtype}", quoted(&name))))
        }
    }
}
