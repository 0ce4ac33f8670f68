//! Writing arrays from memory to safetensors.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::Path;

use crate::compat::in_memory::{InMemory, Put, checked};
use crate::compat::parse::npz::NpzTensor;
use crate::error::Result;

/// Writes arrays as a safetensors file, under the names of the map. The file appears complete or not at all.
///
/// # Errors
/// `Parse` if the length of an array disagrees with its shape, `Io` if the file cannot be written.
pub fn npz_to_safetensors<S: BuildHasher>(
    tensors: &HashMap<String, NpzTensor, S>,
    output: impl AsRef<Path>,
) -> Result<()> {
    in_memory(tensors)?.write(output.as_ref())
}

/// [`npz_to_safetensors`] in memory.
///
/// # Errors
/// As [`npz_to_safetensors`].
pub fn npz_to_safetensors_bytes<S: BuildHasher>(tensors: &HashMap<String, NpzTensor, S>) -> Result<Vec<u8>> {
    in_memory(tensors)?.into_bytes()
}

fn in_memory<S>(tensors: &HashMap<String, NpzTensor, S>) -> Result<InMemory<impl FnOnce(Put<'_>) -> Result<()>>> {
    let output =
        |(name, tensor): (&String, &NpzTensor)| checked(name, tensor.dtype.to_dtype()?, &tensor.shape, &tensor.data);
    let outputs = tensors.iter().map(output).collect::<Result<Vec<_>>>()?;
    InMemory::safetensors(&outputs, |put| tensors.values().try_for_each(|tensor| put(&tensor.data)))
}
