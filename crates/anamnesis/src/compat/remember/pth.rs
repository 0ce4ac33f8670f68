//! Converting PyTorch files to safetensors; types are kept.

use std::path::Path;

use super::RememberOptions;
use crate::catalog::{Catalog, Selection, TargetDtype};
use crate::compat::in_memory::{InMemory, Put, checked};
use crate::compat::parse::pth::ParsedPth;
use crate::compat::parse::pth_types::PthTensor;
use crate::container::safetensors::Safetensors;
use crate::convert::{ClaimedCatalog, OutputRequest, Outputs, plan_outputs, to_bytes, write_file};
use crate::error::Result;
use crate::pipeline::Plan;
use crate::scheme::Claimed;

impl ParsedPth {
    /// A plan that copies every tensor.
    fn plan(&self) -> Result<Plan> {
        let catalog = Catalog::new(self.stored.clone(), None)?;
        let claimed = Claimed::all_plain(catalog.len());
        let (selection, sources) = (Selection::new(), std::slice::from_ref(&self.source));
        let request = OutputRequest::decode(TargetDtype::default(), &selection);
        let Outputs { planned, .. } =
            plan_outputs(ClaimedCatalog { catalog: &catalog, sources, claimed: &claimed }, &request)?;
        Plan::new(planned, &Safetensors, None)
    }

    /// Writes all tensors to a safetensors file, with their names and types. The file appears complete or not at all.
    ///
    /// # Errors
    /// `Parse` if two tensors have the same name, `Io` if a file cannot be read or written.
    pub fn to_safetensors(&self, output: impl AsRef<Path>) -> Result<()> {
        let sources = std::slice::from_ref(&self.source);
        write_file(&self.plan()?, sources, output.as_ref(), &RememberOptions::new(), &mut |_| {}).map(drop)
    }

    /// The bytes that [`to_safetensors`](Self::to_safetensors) would write.
    ///
    /// # Errors
    /// As [`to_safetensors`](Self::to_safetensors), and `LimitExceeded` if the output exceeds the limits
    /// given at parsing.
    pub fn to_safetensors_bytes(&self) -> Result<Vec<u8>> {
        let sources = std::slice::from_ref(&self.source);
        to_bytes(&self.plan()?, sources, &self.limits, &RememberOptions::new(), &mut |_| {}).map(|(bytes, _)| bytes)
    }
}

/// Writes tensors to a safetensors file. The file appears complete or not at all.
///
/// # Errors
/// `Parse` if two tensors have the same name or the length of one disagrees with its shape, `Io` if the file
/// cannot be written.
pub fn pth_to_safetensors(tensors: &[PthTensor<'_>], output: impl AsRef<Path>) -> Result<()> {
    in_memory(tensors)?.write(output.as_ref())
}

/// [`pth_to_safetensors`] in memory.
///
/// # Errors
/// As [`pth_to_safetensors`].
pub fn pth_to_safetensors_bytes(tensors: &[PthTensor<'_>]) -> Result<Vec<u8>> {
    in_memory(tensors)?.into_bytes()
}

fn in_memory(tensors: &[PthTensor<'_>]) -> Result<InMemory<impl FnOnce(Put<'_>) -> Result<()>>> {
    let output = |tensor: &PthTensor<'_>| checked(&tensor.name, tensor.dtype.to_dtype()?, &tensor.shape, &tensor.data);
    let outputs = tensors.iter().map(output).collect::<Result<Vec<_>>>()?;
    InMemory::safetensors(&outputs, |put| tensors.iter().try_for_each(|tensor| put(&tensor.data)))
}
