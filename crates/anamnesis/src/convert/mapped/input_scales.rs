//! What NVFP4 checkpoints tell of the inputs of their layers: the scale by which they are quantised while the model runs, and
//! the layers whose inputs are not.

use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::{Mapped, tree::Tree};
use crate::catalog::{Dtype, Extent, MetadataArray};
use crate::checkpoint::Checkpoint;
use crate::convert::inputs::InputTensor;
use crate::error::{AnamnesisError, Result};
use crate::scheme::{INPUT_SCALES, ScaleOp};

/// The algorithm of ModelOpt that quantises weights alone.
const WEIGHTS_ALONE: &str = "W4A16_NVFP4";

/// The inputs of layers, as far as anything is stored of them.
#[derive(Clone, Copy)]
pub(super) struct InputScales<'a> {
    pub checkpoint: &'a Checkpoint,
    pub tensors: &'a [InputTensor],
}

impl InputScales<'_> {
    /// The scales of the inputs of a tensor's layers, as a tensor beside it; `None` where all are 1 or nobody tells them.
    pub(super) fn of(&self, mapped: &Mapped) -> Result<Option<Mapped>> {
        let tensors = mapped.tree.tensors();
        let scales = tensors.iter().map(|&index| self.scale(&self.tensors[index].name));
        let scales = scales.collect::<Result<Vec<f32>>>()?;
        Ok(beside(mapped, "input_scale", scales))
    }

    /// The scale of one layer's inputs, 1 where it has none.
    fn scale(&self, weight: &str) -> Result<f32> {
        let module = weight.strip_suffix(".weight").unwrap_or(weight);
        for (end, op) in INPUT_SCALES {
            let Some(id) = self.checkpoint.catalog.find(&format!("{module}{end}")) else { continue };
            let tensor = self.checkpoint.catalog.get(id);
            if tensor.dtype != Dtype::F32 || tensor.elements() != 1 {
                let why = format!("a scale of inputs of type {} with {} values", tensor.dtype, tensor.elements());
                return Err(AnamnesisError::unsupported("NVFP4", why).in_tensor(&tensor.name));
            }
            return read_scale(self.checkpoint, tensor.extent, op);
        }
        Ok(1.0)
    }

    /// The name of the layer of a tensor; experts that are stacked share one.
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

    /// Tells which of the weights of four bits meet inputs of more.
    pub(super) fn tell<'m>(&self, weights: impl Iterator<Item = &'m Mapped>, told: &mut MetadataBuilder) {
        let config = self.checkpoint.quant_config();
        let is_alone = |layer: String| config.algorithm(&layer) == Some(WEIGHTS_ALONE);
        let alone = weights.filter(|mapped| self.layer(mapped).is_some_and(is_alone));
        let mut names: Vec<String> = alone.map(|mapped| mapped.name.clone()).collect();
        names.sort_unstable();
        let values = vec![false; names.len()];
        told.array("general.tensor_extra.name", MetadataArray::String(names));
        told.array("general.tensor_extra.prec_a4", MetadataArray::Bool(values));
    }
}

/// An F32 that weights or inputs are multiplied by.
pub(super) fn read_scale(checkpoint: &Checkpoint, extent: Extent, op: ScaleOp) -> Result<f32> {
    let mut bytes = [0; 4];
    checkpoint.sources[extent.file as usize].read_at(extent.offset, &mut bytes)?;
    let scale = f32::from_le_bytes(bytes);
    Ok(if op == ScaleOp::Divide { 1.0 / scale } else { scale })
}

/// Scales as a tensor beside another; `None` where all are 1.
pub(super) fn beside(mapped: &Mapped, end: &str, scales: Vec<f32>) -> Option<Mapped> {
    scales.iter().any(|scale| *scale != 1.0).then(|| Mapped {
        name: format!("{}.{end}", mapped.name.trim_end_matches(".weight")),
        shape: vec![scales.len()],
        tree: Tree::Constant(scales),
    })
}
