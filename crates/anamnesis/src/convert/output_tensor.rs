//! Output tensors: their sizes, and whether the container can hold them.

use crate::catalog::{Dtype, dtype::elements};
use crate::container::{Container, OutputTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::pipeline::Planned;
use crate::scheme::{EncodedTensor, TileEncoder};

pub(super) fn output(name: String, dtype: Dtype, shape: Vec<usize>) -> Result<OutputTensor> {
    let bytes = elements(&shape).and_then(|elements| dtype.byte_len(elements));
    match bytes {
        Some(bytes) => Ok(OutputTensor { name, dtype, shape, bytes }),
        None => {
            Err(AnamnesisError::parse(format!("tensor {} of shape {shape:?} is too large as {dtype}", quoted(&name))))
        }
    }
}

/// The output tensors of an encoder.
pub(super) fn encoded(encoder: &dyn TileEncoder) -> Result<Vec<OutputTensor>> {
    let tensor = |encoded: &EncodedTensor| output(encoded.name.clone(), encoded.dtype, encoded.shape.clone());
    encoder.outputs().iter().map(tensor).collect()
}

/// Maximum number of tensors named in a refusal; the rest are counted.
const NAMED_IN_REFUSAL: usize = 3;

/// Adapts the output shapes to the container, and returns how many changed. Tensors that it cannot hold are
/// refused in one error.
pub(super) fn fit(planned: &mut [Planned], container: &dyn Container, format: &str) -> Result<usize> {
    let mut reshaped = 0;
    let mut refused: Vec<&OutputTensor> = Vec::new();
    for output in planned.iter_mut().flat_map(|planned| &mut planned.outputs) {
        let shape = container.shape(&output.shape);
        reshaped += usize::from(shape != output.shape);
        output.shape = shape;
        if !container.holds(output.dtype, &output.shape) {
            refused.push(output);
        }
    }
    if refused.is_empty() {
        return Ok(reshaped);
    }
    let name = |output: &&OutputTensor| format!("{} ({} {:?})", quoted(&output.name), output.dtype, output.shape);
    let mut names = refused.iter().take(NAMED_IN_REFUSAL).map(name).collect::<Vec<_>>().join(", ");
    if refused.len() > NAMED_IN_REFUSAL {
        names += &format!(" and {} more", refused.len() - NAMED_IN_REFUSAL);
    }
    let why = format!("it cannot hold {names}");
    Err(AnamnesisError::unsupported(format, why))
}
