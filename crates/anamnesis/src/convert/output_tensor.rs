//! Output tensors: how many bytes they take, and whether their container holds them.

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

/// The tensors that an encoder makes.
pub(super) fn encoded(encoder: &dyn TileEncoder) -> Result<Vec<OutputTensor>> {
    let tensor = |made: &EncodedTensor| output(made.name.clone(), made.dtype, made.shape.clone());
    encoder.outputs().iter().map(tensor).collect()
}

/// Tensors named in a refusal; the rest are counted.
const NAMED_IN_REFUSAL: usize = 3;

/// Gives the outputs the shapes of their container, and refuses those it cannot hold, all in one message.
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
