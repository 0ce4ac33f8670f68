//! Writing tensors from memory to a file, with the same layout as conversions; the file appears complete or not at all.

use std::path::Path;

use crate::catalog::{Dtype, dtype::elements};
use crate::container::safetensors::Safetensors;
use crate::container::{Container, Layout, OutputTensor};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::Existing;
use crate::io::output::PendingFile;
use crate::io::zeroed;

/// A callback that takes the bytes of the next tensor.
pub(super) type Put<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// A file to be written: its layout, and a function that yields the tensors in the order of the layout.
pub(super) struct InMemory<F> {
    layout: Layout,
    tensors: F,
}

impl<F: FnOnce(Put<'_>) -> Result<()>> InMemory<F> {
    /// A file of any format.
    pub(super) const fn new(layout: Layout, tensors: F) -> Self {
        Self { layout, tensors }
    }

    /// A safetensors file.
    pub(super) fn safetensors(outputs: &[OutputTensor], tensors: F) -> Result<Self> {
        Ok(Self::new(Safetensors.lay_out(outputs, None)?, tensors))
    }

    /// Writes the file, which appears complete or not at all.
    pub(super) fn write(self, output: &Path) -> Result<()> {
        let file = PendingFile::create(output, Existing::Replace, self.layout.total_bytes)?;
        self.fill(&mut |offset, bytes| file.write_at(offset, bytes))?;
        file.commit()
    }

    pub(super) fn into_bytes(self) -> Result<Vec<u8>> {
        let total = self.layout.total_bytes;
        let too_large = || AnamnesisError::limit("available_memory", format!("the output takes {total} bytes"));
        let mut file = zeroed(usize::try_from(total).map_err(|_| too_large())?);
        self.fill(&mut |offset, bytes| {
            let start = usize::try_from(offset).map_err(|_| too_large())?;
            let place = file.get_mut(start..).and_then(|rest| rest.get_mut(..bytes.len())).ok_or_else(too_large)?;
            place.copy_from_slice(bytes);
            Ok(())
        })?;
        Ok(file)
    }

    fn fill(self, put: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let Self { layout, tensors } = self;
        put(0, layout.front())?;
        let mut offsets = layout.offsets.iter();
        tensors(&mut |bytes| match offsets.next() {
            Some(&offset) => put(offset, bytes),
            None => Err(AnamnesisError::internal("a file has fewer tensors than are written into it")),
        })
    }
}

/// The output tensor for `data`, whose length must match the shape.
pub(super) fn checked(name: &str, dtype: Dtype, shape: &[usize], data: &[u8]) -> Result<OutputTensor> {
    let (bytes, name, shape) = (data.len() as u64, name.to_owned(), shape.to_vec());
    if elements(&shape).and_then(|elements| dtype.byte_len(elements)) != Some(bytes) {
        let why = format!("tensor {} of shape {shape:?} and type {dtype} has {bytes} bytes", quoted(&name));
        return Err(AnamnesisError::parse(why));
    }
    Ok(OutputTensor { name, dtype, shape, bytes })
}
