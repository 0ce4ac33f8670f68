//! Activation scales of NVFP4 checkpoints (`input_scale`), and the layers whose activations are not quantised.

use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::{Mapped, tree::Tree};
use crate::catalog::{Dtype, Extent, MetadataArray};
use crate::checkpoint::Checkpoint;
use crate::convert::inputs::InputTensor;
use crate::error::{AnamnesisError, Result};
use crate::scheme::{INPUT_SCALES, ScaleOp};

/// The algorithm name of ModelOpt for weight-only quantisation.
const WEIGHT_ONLY: &str = "W4A16_NVFP4";

/// The stored activation scales of a checkpoint.
#[derive(Clone, Copy)]
pub(super) struct InputScales<'a> {
    pub checkpoint: &'a Checkpoint,
    pub tensors: &'a [InputTensor],
}

impl InputScales<'_> {
    /// The activation scales of a tensor's layers, as a tensor of their own; `None` if all are 1 or missing.
    pub(super) fn of(&self, mapped: &Mapped) -> Result<Option<Mapped>> {
        let tensors = mapped.tree.tensors();
        let scales = tensors.iter().map(|&index| self.scale(&self.tensors[index].name));
        let scales = scales.collect::<Result<Vec<f32>>>()?;
        Ok(scale_tensor(mapped, "input_scale", scales))
    }

    /// The activation scale of one layer, 1 if it has none.
    fn scale(&self, weight: &str) -> Result<f32> {
        let module = weight.strip_suffix(".weight").unwrap_or(weight);
        for (end, op) in INPUT_SCALES {
            let Some(id) = self.checkpoint.catalog.find(&format!("{module}{end}")) else { continue };
            let tensor = self.checkpoint.catalog.get(id);
            if tensor.dtype != Dtype::F32 || tensor.elements() != 1 {
                let why = format!(
                    "an input scale of type {} with {} values; one F32 value is needed",
                    tensor.dtype,
                    tensor.elements()
                );
                return Err(AnamnesisError::unsupported("NVFP4", why).in_tensor(&tensor.name));
            }
            return read_scale(self.checkpoint, tensor.extent, op);
        }
        Ok(1.0)
    }

    /// The name of a tensor's layer; stacked experts share one.
    fn layer(&self, mapped: &Mapped) -> Option<String> {
        let tensors = mapped.tree.tensors();
        let name = &self.tensors[*tensors.first()?].name;
        let name = name.strip_suffix(".weight").unwrap_or(name);
        if tensors.len() == 1 {
            return Some(name.to_owned());
        }
        let (front, rest) = name.split_once(".experts.")?;
        let (_, part) = rest.split_once('.')?;
        Some(format!("{front}.experts.{part}"))
    }

    /// Lists the four-bit weights whose activations are not quantised (`general.tensor_extra.*`).
    pub(super) fn write_unquantised<'m>(
        &self,
        weights: impl Iterator<Item = &'m Mapped>,
        metadata: &mut MetadataBuilder,
    ) {
        let config = self.checkpoint.quant_config();
        let is_weight_only = |layer: String| config.algorithm(&layer) == Some(WEIGHT_ONLY);
        let weight_only = weights.filter(|mapped| self.layer(mapped).is_some_and(is_weight_only));
        let mut names: Vec<String> = weight_only.map(|mapped| mapped.name.clone()).collect();
        names.sort_unstable();
        let values = vec![false; names.len()];
        metadata.array("general.tensor_extra.name", MetadataArray::String(names));
        metadata.array("general.tensor_extra.prec_a4", MetadataArray::Bool(values));
    }
}

/// Reads an F32 scale, inverted if it is stored as a divisor.
pub(super) fn read_scale(checkpoint: &Checkpoint, extent: Extent, op: ScaleOp) -> Result<f32> {
    let mut bytes = [0; 4];
    checkpoint.sources[extent.file as usize].read_at(extent.offset, &mut bytes)?;
    let scale = f32::from_le_bytes(bytes);
    Ok(if op == ScaleOp::Divide { 1.0 / scale } else { scale })
}

/// Scales as a companion tensor named after another tensor; `None` if all are 1.
pub(super) fn scale_tensor(mapped: &Mapped, end: &str, scales: Vec<f32>) -> Option<Mapped> {
    scales.iter().any(|scale| *scale != 1.0).then(|| Mapped {
        name: format!("{}.{end}", mapped.name.trim_end_matches(".weight")),
        shape: vec![scales.len()],
        tree: Tree::Constant(scales),
    })
}
