//! What NVFP4 checkpoints tell of the inputs of their layers: the scale by which they are quantised while the model runs, and
//! the layers whose inputs are not.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::sources::Source;
use crate::architecture::beside::{Directory, SidecarFiles};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::{Mapped, tree::Tree};
use crate::catalog::{Dtype, MetadataArray};
use crate::checkpoint::Checkpoint;
use crate::error::{AnamnesisError, Result};
use crate::json;
use crate::scheme::{OF_INPUTS, ScaleOp};

/// The algorithm of ModelOpt that quantises weights alone.
const WEIGHTS_ALONE: &str = "W4A16_NVFP4";

/// The inputs of layers, as far as anything is stored of them.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub checkpoint: &'a Checkpoint,
    pub sources: &'a [Source],
}

impl Inputs<'_> {
    /// The scales of the inputs of a tensor's layers, as a tensor beside it; `None` where all are 1 or nobody tells them.
    pub(super) fn scales(&self, mapped: &Mapped) -> Result<Option<Mapped>> {
        let tensors = mapped.tree.tensors();
        let scales = tensors.iter().map(|&index| self.scale(&self.sources[index].stored_name));
        let scales = scales.collect::<Result<Vec<f32>>>()?;
        Ok(beside(mapped, "input_scale", scales))
    }

    /// The scale of one layer's inputs, 1 where it has none.
    fn scale(&self, weight: &str) -> Result<f32> {
        let module = weight.strip_suffix(".weight").unwrap_or(weight);
        for (end, takes) in OF_INPUTS {
            let Some(id) = self.checkpoint.catalog.find(&format!("{module}{end}")) else { continue };
            let tensor = self.checkpoint.catalog.get(id);
            if tensor.dtype != Dtype::F32 || tensor.elements() != 1 {
                let why = format!("a scale of inputs of type {} with {} values", tensor.dtype, tensor.elements());
                return Err(AnamnesisError::unsupported("NVFP4", why).in_tensor(&tensor.name));
            }
            let mut bytes = [0; 4];
            self.checkpoint.sources[tensor.extent.file as usize].read_at(tensor.extent.offset, &mut bytes)?;
            let scale = f32::from_le_bytes(bytes);
            return Ok(if takes == ScaleOp::Divide { 1.0 / scale } else { scale });
        }
        Ok(1.0)
    }

    /// The name of the layer of a tensor; experts that are stacked share one.
    fn layer(&self, mapped: &Mapped) -> Option<String> {
        let tensors = mapped.tree.tensors();
        let name = &self.sources[*tensors.first()?].stored_name;
        let name = name.strip_suffix(".weight").unwrap_or(name);
        if tensors.len() == 1 {
            return Some(name.to_owned());
        }
        let (front, rest) = name.split_once(".experts.")?;
        let (_, part) = rest.split_once('.')?;
        Some(format!("{front}.experts.{part}"))
    }

    /// Tells which of the weights of four bits meet inputs of more.
    pub(super) fn tell<'m>(
        &self,
        algorithms: &Algorithms,
        weights: impl Iterator<Item = &'m Mapped>,
        told: &mut MetadataBuilder,
    ) {
        let alone = weights.filter(|mapped| self.layer(mapped).is_some_and(|layer| algorithms.is_alone(&layer)));
        let mut names: Vec<String> = alone.map(|mapped| mapped.name.clone()).collect();
        names.sort_unstable();
        let values = vec![false; names.len()];
        told.array("general.tensor_extra.name", MetadataArray::String(names));
        told.array("general.tensor_extra.prec_a4", MetadataArray::Bool(values));
    }
}

/// Scales as a tensor beside another; `None` where all are 1.
pub(super) fn beside(mapped: &Mapped, end: &str, scales: Vec<f32>) -> Option<Mapped> {
    scales.iter().any(|scale| *scale != 1.0).then(|| Mapped {
        name: format!("{}.{end}", mapped.name.trim_end_matches(".weight")),
        shape: vec![scales.len()],
        tree: Tree::Constant(scales),
    })
}

/// The algorithms of ModelOpt by layer, and that of all others.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Algorithms {
    usual: Option<String>,
    layers: BTreeMap<String, String>,
}

impl Algorithms {
    /// What `config.json` tells, or the file that ModelOpt writes beside it.
    pub(super) fn read(config: &Map<String, Value>, files: &Directory) -> Result<Self> {
        let told = config.get("quantization_config").map(Self::of).unwrap_or_default();
        if told.usual.is_some() && !told.layers.is_empty() {
            return Ok(told);
        }
        let text = files.read("hf_quant_config.json")?;
        let document: Option<Value> = text.and_then(|text| json::from_slice(&text).ok());
        let Some(own) = document.as_ref().and_then(|document| document.get("quantization")).map(Self::of) else {
            return Ok(told);
        };
        let layers = if own.layers.is_empty() { told.layers } else { own.layers };
        Ok(Self { usual: own.usual.or(told.usual), layers })
    }

    fn of(told: &Value) -> Self {
        let algorithm = |value: &Value| value.get("quant_algo").and_then(Value::as_str).map(str::to_owned);
        let layers = told.get("quantized_layers").and_then(Value::as_object).into_iter().flatten();
        let layers = layers.filter_map(|(name, value)| Some((name.clone(), algorithm(value)?))).collect();
        Self { usual: algorithm(told), layers }
    }

    /// Whether a layer's weights are quantised and its inputs are not: what is told of the innermost module around it counts.
    fn is_alone(&self, layer: &str) -> bool {
        let modules = std::iter::successors(Some(layer), |name| Some(name.rsplit_once('.')?.0));
        let told = modules.into_iter().find_map(|name| self.layers.get(name)).or(self.usual.as_ref());
        told.is_some_and(|algorithm| algorithm == WEIGHTS_ALONE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_innermost_module_that_is_told_decides() {
        let told = Algorithms::of(&json!({
            "quant_algo": "NVFP4",
            "quantized_layers": { "a.b": { "quant_algo": "W4A16_NVFP4" }, "a.b.c": { "quant_algo": "FP8" } },
        }));
        assert!(told.is_alone("a.b") && told.is_alone("a.b.d.e") && !told.is_alone("a.b.c") && !told.is_alone("a"));
    }
}
