//! Arrays in memory to safetensors.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::Path;

use crate::catalog::dtype::elements;
use crate::compat::parse::npz::NpzTensor;
use crate::container::safetensors::Safetensors;
use crate::container::{Container, Layout, OutputTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::output::{Existing, PendingFile};

/// Writes arrays as a safetensors file, under the names of the map. The file appears complete or not at all.
///
/// # Errors
/// `Parse` where an array's bytes are not as many as its shape needs, `Io` where the file cannot be written.
pub fn npz_to_safetensors<S: BuildHasher>(
    tensors: &HashMap<String, NpzTensor, S>,
    output: impl AsRef<Path>,
) -> Result<()> {
    let (outputs, layout) = lay_out(tensors)?;
    let file = PendingFile::create(output.as_ref(), Existing::Replace, layout.total_bytes)?;
    each_piece(tensors, &outputs, &layout, |offset, bytes| file.write_at(offset, bytes))?;
    file.commit()
}

/// [`npz_to_safetensors`] in memory.
///
/// # Errors
/// As [`npz_to_safetensors`].
pub fn npz_to_safetensors_bytes<S: BuildHasher>(tensors: &HashMap<String, NpzTensor, S>) -> Result<Vec<u8>> {
    let (outputs, layout) = lay_out(tensors)?;
    let mut bytes = Vec::new();
    let too_large =
        |_| AnamnesisError::limit("available_memory", format!("the output takes {} bytes", layout.total_bytes));
    bytes.try_reserve_exact(usize::try_from(layout.total_bytes).unwrap_or(usize::MAX)).map_err(too_large)?;
    // The format has no holes, so that the pieces in the order of their places are the file.
    each_piece(tensors, &outputs, &layout, |_, piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

fn lay_out<S>(tensors: &HashMap<String, NpzTensor, S>) -> Result<(Vec<OutputTensor>, Layout)> {
    let output = |(name, tensor): (&String, &NpzTensor)| {
        let dtype = tensor.dtype.to_dtype()?;
        let bytes = tensor.data.len() as u64;
        if elements(&tensor.shape).and_then(|count| dtype.byte_len(count)) != Some(bytes) {
            let reason = format!("array {} of {dtype} {:?} cannot have {bytes} bytes", quoted(name), tensor.shape);
            return Err(AnamnesisError::parse(reason));
        }
        Ok(OutputTensor { name: name.clone(), dtype, shape: tensor.shape.clone(), bytes })
    };
    let outputs = tensors.iter().map(output).collect::<Result<Vec<_>>>()?;
    let layout = Safetensors.lay_out(&outputs, None)?;
    Ok((outputs, layout))
}

/// Hands out the file from front to back.
fn each_piece<S: BuildHasher>(
    tensors: &HashMap<String, NpzTensor, S>,
    outputs: &[OutputTensor],
    layout: &Layout,
    mut put: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    put(0, layout.front())?;
    let mut places: Vec<_> = layout.offsets.iter().zip(outputs).collect();
    places.sort_by_key(|(offset, output)| (**offset, output.bytes));
    for (&offset, output) in places {
        if let Some(tensor) = tensors.get(&output.name) {
            put(offset, &tensor.data)?;
        }
    }
    Ok(())
}
