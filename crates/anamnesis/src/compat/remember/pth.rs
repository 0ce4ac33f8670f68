//! PyTorch files to safetensors, types kept as they are.

use std::path::Path;

use super::RememberOptions;
use crate::catalog::dtype::elements;
use crate::catalog::{Catalog, Selection, TargetDtype};
use crate::compat::parse::pth::ParsedPth;
use crate::compat::parse::pth_types::PthTensor;
use crate::container::safetensors::Safetensors;
use crate::container::{Container, Layout, OutputTensor};
use crate::convert::{Asked, ClaimedCatalog, Outputs, plan_outputs, to_bytes, write_file};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::output::{Existing, PendingFile};
use crate::pipeline::Plan;
use crate::scheme::Claimed;

impl ParsedPth {
    /// A plan that copies every tensor.
    fn plan(&self) -> Result<Plan> {
        let catalog = Catalog::new(self.stored.clone(), None)?;
        let claimed = Claimed::all_plain(catalog.len());
        let (selection, sources) = (Selection::new(), std::slice::from_ref(&self.source));
        let asked = Asked::decode(TargetDtype::default(), &selection);
        let Outputs { planned, .. } =
            plan_outputs(ClaimedCatalog { catalog: &catalog, sources, claimed: &claimed }, &asked)?;
        Plan::new(planned, &Safetensors, None)
    }

    /// Writes all tensors to a safetensors file, with their names and types. The file appears complete or not at all.
    ///
    /// # Errors
    /// `Parse` where two tensors have one name, `Io` where files cannot be read or written.
    pub fn to_safetensors(&self, output: impl AsRef<Path>) -> Result<()> {
        let sources = std::slice::from_ref(&self.source);
        write_file(&self.plan()?, sources, output.as_ref(), &RememberOptions::new(), &mut |_| {}).map(drop)
    }

    /// The bytes that [`to_safetensors`](Self::to_safetensors) would write.
    ///
    /// # Errors
    /// As [`to_safetensors`](Self::to_safetensors), and `LimitExceeded` where the output passes the limits given at parsing.
    pub fn to_safetensors_bytes(&self) -> Result<Vec<u8>> {
        let sources = std::slice::from_ref(&self.source);
        to_bytes(&self.plan()?, sources, &self.limits, &RememberOptions::new(), &mut |_| {}).map(|(bytes, _)| bytes)
    }
}

/// Writes tensors to a safetensors file. The file appears complete or not at all.
///
/// # Errors
/// `Parse` where two tensors have one name or one has not the bytes its shape needs, `Io` where the file cannot be written.
pub fn pth_to_safetensors(tensors: &[PthTensor<'_>], output: impl AsRef<Path>) -> Result<()> {
    let layout = lay_out(tensors)?;
    let file = PendingFile::create(output.as_ref(), Existing::Replace, layout.total_bytes)?;
    file.write_at(0, layout.front())?;
    for (&offset, tensor) in layout.offsets.iter().zip(tensors) {
        file.write_at(offset, &tensor.data)?;
    }
    file.commit()
}

/// [`pth_to_safetensors`] in memory.
///
/// # Errors
/// As [`pth_to_safetensors`].
pub fn pth_to_safetensors_bytes(tensors: &[PthTensor<'_>]) -> Result<Vec<u8>> {
    let layout = lay_out(tensors)?;
    let total = usize::try_from(layout.total_bytes)
        .map_err(|_| AnamnesisError::limit("available_memory", format!("{} bytes", layout.total_bytes)))?;
    let mut bytes = vec![0; total];
    bytes[..layout.front().len()].copy_from_slice(layout.front());
    for (&offset, tensor) in layout.offsets.iter().zip(tensors) {
        // The layout gives every tensor a place inside the file, which is memory here.
        let offset = offset as usize;
        bytes[offset..offset + tensor.data.len()].copy_from_slice(&tensor.data);
    }
    Ok(bytes)
}

fn lay_out(tensors: &[PthTensor<'_>]) -> Result<Layout> {
    let mut names: Vec<_> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(AnamnesisError::parse(format!("tensor {} occurs twice", quoted(pair[0]))));
    }
    let outputs: Vec<_> = tensors.iter().map(output).collect::<Result<_>>()?;
    Safetensors.lay_out(&outputs, None)
}

fn output(tensor: &PthTensor<'_>) -> Result<OutputTensor> {
    let dtype = tensor.dtype.to_dtype()?;
    let wanted = elements(&tensor.shape).and_then(|elements| dtype.byte_len(elements));
    let bytes = tensor.data.len() as u64;
    if wanted != Some(bytes) {
        let (name, shape) = (quoted(&tensor.name), &tensor.shape);
        return Err(AnamnesisError::parse(format!(
            "tensor {name} of shape {shape:?} and type {dtype} has {bytes} bytes"
        )));
    }
    Ok(OutputTensor { name: tensor.name.clone(), dtype, shape: tensor.shape.clone(), bytes })
}
