//! The plan: every output tensor with its name, type, size and place, before any value is known.

use crate::catalog::{Catalog, Dtype, Extent, Metadata, TargetDtype, TensorId};
use crate::container::{Container, Layout, OutputTensor, Seal};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::Source;
use crate::scheme::{Claimed, Prepared, Recipe, TensorRole, TileDecoder};

/// An output file, planned to the byte.
pub(crate) struct Plan {
    pub(crate) tensors: Vec<PlannedTensor>,
    pub(crate) target: TargetDtype,
    /// What is not a tensor, with its place in the file.
    pub(crate) pieces: Vec<(u64, Vec<u8>)>,
    pub(crate) total_bytes: u64,
    /// The last step, where the file carries checksums.
    pub(crate) seal: Option<Box<dyn Seal>>,
}

/// One tensor of the output.
pub(crate) struct PlannedTensor {
    pub(crate) output: OutputTensor,
    /// Its place in the order in which the container was given the tensors.
    pub(crate) index: usize,
    /// Absolute offset in the output.
    pub(crate) offset: u64,
    pub(crate) work: Work,
}

/// How an output tensor comes about.
pub(crate) enum Work {
    /// Bytes are copied as they are.
    Copy(Extent),
    /// Values are decoded from these parts.
    Decode { decoder: Box<dyn TileDecoder>, parts: Vec<Extent>, sources: Vec<TensorId> },
}

/// An output tensor that has no place in a file yet.
pub(crate) struct Planned {
    pub(crate) output: OutputTensor,
    pub(crate) work: Work,
}

impl Planned {
    /// Where the bytes it is made of begin: planning in this order reads the input from front to back.
    pub(crate) fn source(&self) -> (u32, u64) {
        self.work.parts().first().map_or((0, 0), |extent| (extent.file, extent.offset))
    }
}

impl Work {
    /// The stored bytes it is made of, the most telling first.
    pub(crate) fn parts(&self) -> &[Extent] {
        match self {
            Self::Copy(extent) => std::slice::from_ref(extent),
            Self::Decode { parts, .. } => parts,
        }
    }
}

/// Every output tensor of a claimed catalog. What cannot be decoded is refused here; small companions are read and checked.
pub(crate) fn plan_tensors(
    catalog: &Catalog,
    sources: &[Box<dyn Source>],
    mut claimed: Claimed,
    target: TargetDtype,
) -> Result<Vec<Planned>> {
    if !claimed.problems.is_empty() {
        return Err(claimed.problems.swap_remove(0));
    }
    let mut planned = Vec::with_capacity(catalog.len());
    for weight in claimed.weights {
        let parts: Vec<Extent> = weight.parts.iter().map(|&id| catalog.get(id).extent).collect();
        let Prepared { shape, decoder } = match weight.recipe {
            Recipe::Ready(decoder) => Prepared { shape: weight.shape, decoder },
            Recipe::Deferred(prepare) => prepare.prepare(&|part| read_part(sources, parts[part]))?,
        };
        let output = output(weight.name, target.dtype(), shape)?;
        planned.push(Planned { output, work: Work::Decode { decoder, parts, sources: weight.parts } });
    }
    for ((_, tensor), role) in catalog.iter().zip(&claimed.roles) {
        if *role == TensorRole::Passthrough {
            let output = output(tensor.name.clone(), tensor.dtype, tensor.shape.clone())?;
            planned.push(Planned { output, work: Work::Copy(tensor.extent) });
        }
    }
    Ok(planned)
}

impl Plan {
    /// Lays tensors out in one file of `container`.
    pub(crate) fn new(
        planned: Vec<Planned>,
        target: TargetDtype,
        container: &dyn Container,
        metadata: Option<&Metadata>,
    ) -> Result<Self> {
        let (outputs, work): (Vec<_>, Vec<_>) =
            planned.into_iter().map(|planned| (planned.output, planned.work)).unzip();
        let Layout { pieces, offsets, total_bytes, seal } = container.lay_out(&outputs, metadata)?;
        let mut tensors: Vec<_> = outputs
            .into_iter()
            .zip(offsets)
            .zip(work)
            .enumerate()
            .map(|(index, ((output, offset), work))| PlannedTensor { output, index, offset, work })
            .collect();
        // Written from the front to the back, so that a single worker writes the file in order.
        tensors.sort_by_key(|tensor| tensor.offset);
        Ok(Self { tensors, target, pieces, total_bytes, seal })
    }

    /// Output tensors that are decoded.
    pub(crate) fn decoded(&self) -> usize {
        self.tensors.iter().filter(|tensor| matches!(tensor.work, Work::Decode { .. })).count()
    }
}

/// Longest companion that is read whole, in bytes.
const MAX_PART_BYTES: u64 = 64 << 20;

/// A whole part of a weight.
fn read_part(sources: &[Box<dyn Source>], part: Extent) -> Result<Vec<u8>> {
    if part.bytes > MAX_PART_BYTES {
        let message = format!("a companion of {} bytes, {MAX_PART_BYTES} are allowed", part.bytes);
        return Err(AnamnesisError::limit("MAX_COMPANION_BYTES", message));
    }
    let mut bytes = vec![0; part.bytes as usize];
    sources[part.file as usize].read_at(part.offset, &mut bytes)?;
    Ok(bytes)
}

fn output(name: String, dtype: Dtype, shape: Vec<usize>) -> Result<OutputTensor> {
    let bytes = crate::catalog::dtype::elements(&shape).and_then(|elements| dtype.byte_len(elements));
    match bytes {
        Some(bytes) => Ok(OutputTensor { name, dtype, shape, bytes }),
        None => {
            Err(AnamnesisError::parse(format!("tensor {} of shape {shape:?} is too large as {dtype}", quoted(&name))))
        }
    }
}
