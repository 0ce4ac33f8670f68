//! From claimed tensors to the tensors of an output: what is kept, decoded, cast or encoded.

use std::sync::Arc;

use super::draft::{Content, Draft, Stored};
use super::drafts::{Drafts, Outputs, Quantise};
use super::output_tensor::output;
use crate::catalog::{Catalog, Dtype, Extent, Selection, StoredTensor, TargetDtype, TensorId};
use crate::checkpoint::prepare;
use crate::container::{Container, OutputTensor};
use crate::error::{AnamnesisError, Request, Result};
use crate::io::Source;
use crate::pipeline::{Origin, Values};
use crate::scheme::{Blocked, Claimed, PlainDecoder, Prepared, Reciprocals, ScaleOp, TensorRole, TileDecoder, Weight};

/// What is asked of the output.
pub(crate) struct Asked<'a> {
    /// What quantised weights are decoded to.
    pub dtype: TargetDtype,
    /// The container that may keep blocks as they are stored; `None` where everything is decoded.
    pub keeps_blocks: Option<&'a dyn Container>,
    /// Whether plain floats become `dtype` too.
    pub cast_all: bool,
    pub selection: &'a Selection,
    pub quantise: Option<Quantise<'a>>,
}

impl<'a> Asked<'a> {
    /// Decodes what is quantised and keeps everything else.
    pub(crate) fn decode(dtype: TargetDtype, selection: &'a Selection) -> Self {
        Self { dtype, keeps_blocks: None, cast_all: false, selection, quantise: None }
    }
}

/// Every output tensor of a claimed catalog. What cannot be decoded is refused here; small companions are read and checked.
pub(crate) fn plan_outputs(
    catalog: &Catalog,
    sources: &[Box<dyn Source>],
    claimed: &Claimed,
    asked: &Asked<'_>,
) -> Result<Outputs> {
    if let Some(problem) = claimed.problems.first() {
        return Err(problem.again());
    }
    let plain = catalog.iter().zip(&claimed.roles).filter(|(_, role)| **role == TensorRole::Passthrough);
    let plain: Vec<_> = plain.map(|((id, tensor), _)| (id, tensor)).collect();
    let names = claimed.weights.iter().map(|weight| weight.name.as_str());
    let names: Vec<&str> = names.chain(plain.iter().map(|(_, tensor)| tensor.name.as_str())).collect();
    asked.selection.check_used(&names)?;
    if let Some(quantise) = &asked.quantise {
        quantise.chosen.check_used(&names)?;
    }
    let mut planner = Planner { catalog, sources, asked, outputs: Drafts::new(catalog, asked.quantise.as_ref()) };
    for weight in claimed.weights.iter().filter(|weight| asked.selection.takes(&weight.name)) {
        planner.weight(weight)?;
    }
    for (id, tensor) in plain.into_iter().filter(|(_, tensor)| asked.selection.takes(&tensor.name)) {
        planner.plain(id, tensor)?;
    }
    let mut outputs = planner.outputs;
    if outputs.is_empty() && catalog.len() > 0 {
        return Err(Request::NothingSelected.into());
    }
    outputs.stats.left_out = names.iter().filter(|name| !asked.selection.takes(name)).count();
    outputs.finish()
}

struct Planner<'a> {
    catalog: &'a Catalog,
    sources: &'a [Box<dyn Source>],
    asked: &'a Asked<'a>,
    outputs: Drafts<'a>,
}

impl Planner<'_> {
    fn weight(&mut self, weight: &Weight) -> Result<()> {
        self.outputs.stats.tensors += 1;
        if self.keeps(weight) {
            self.outputs.stats.passthrough += 1;
            for &id in &weight.parts {
                self.bytes(id)?;
            }
            return Ok(());
        }
        let parts: Vec<Extent> = weight.parts.iter().map(|&id| self.catalog.get(id).extent).collect();
        let Prepared { shape, decoder, .. } = prepare(self.catalog, self.sources, weight)?;
        if let Some(container) = self.asked.keeps_blocks
            && let Some(blocked) = decoder.as_blocks()
        {
            let mut of_blocks = shape.clone();
            if let ([.., rows, cols], true) = (&mut of_blocks[..], blocked.is_transposed) {
                std::mem::swap(rows, cols);
            }
            if container.holds(Dtype::Block(blocked.block), &of_blocks) {
                self.outputs.stats.repacked += 1;
                return self.repack(weight, blocked, of_blocks);
            }
        }
        self.outputs.stats.dequantized += 1;
        let is_folded = matches!(self.catalog.get(weight.parts[0]).dtype, Dtype::Block(_)) && weight.parts.len() > 1;
        self.outputs.stats.folded_scales += usize::from(is_folded);
        let sources = weight.parts.clone();
        let (origin, dtype, block) = (Origin::Quantised, self.asked.dtype, self.block(weight));
        let is_block = sources.first().is_some_and(|&id| matches!(self.catalog.get(id).dtype, Dtype::Block(_)));
        // Blocks are decoded to all that they hold where nobody says what to decode them to.
        let is_exact = is_block && self.asked.quantise.as_ref().is_some_and(|quantise| quantise.is_exact);
        let encoded_from = if is_exact { TargetDtype::F32 } else { dtype };
        let stored =
            Stored { decoder, parts, sources, origin, dtype, encoded_from, is_cast: true, copied: None, block };
        let output_name = self.rename(&weight.name)?;
        self.outputs.push(Draft { name: weight.name.clone(), output_name, shape, content: Content::Values(stored) });
        Ok(())
    }

    /// The tensor that a weight is, where it is made of blocks that the output can hold.
    fn block(&self, weight: &Weight) -> Option<TensorId> {
        let container = self.asked.quantise.as_ref()?.container;
        let &[id] = &weight.parts[..] else { return None };
        let tensor = self.catalog.get(id);
        let is_held = matches!(tensor.dtype, Dtype::Block(_)) && container.holds(tensor.dtype, &tensor.shape);
        is_held.then_some(id)
    }

    /// A weight that stays what it is, as blocks, with its scale of scales beside it.
    fn repack(&mut self, weight: &Weight, blocked: Blocked, shape: Vec<usize>) -> Result<()> {
        let Blocked { block, bytes, whole, .. } = blocked;
        let stored =
            |parts: &[TensorId]| -> Vec<Extent> { parts.iter().map(|&id| self.catalog.get(id).extent).collect() };
        let sources = weight.parts.iter().take(2).copied().collect::<Vec<_>>();
        let parts = stored(&sources);
        let draft = |name: String, output: OutputTensor, values: Values| Draft {
            name,
            output_name: output.name.clone(),
            shape: output.shape.clone(),
            content: Content::Repacked(output, values),
        };
        let scale = whole.and_then(|(part, takes)| Some((*weight.parts.get(part)?, takes)));
        let scale = scale.map(|(id, takes)| (id, takes, stored(&[id])));
        let name = self.rename(&weight.name)?;
        let output = output(name, Dtype::Block(block), shape)?;
        let (origin, dtype, elements) = (Origin::Repacked, TargetDtype::F32, output.bytes);
        let values = Values { decoder: bytes, parts, sources, dtype, elements, origin };
        if let Some((id, takes, parts)) = scale {
            let name = self.rename(&format!("{}.scale", weight.name.trim_end_matches(".weight")))?;
            let tensor = self.catalog.get(id);
            let decoder: Arc<dyn TileDecoder> = match takes {
                ScaleOp::Multiply => Arc::new(PlainDecoder::of(tensor.dtype).ok_or_else(|| {
                    AnamnesisError::unsupported(block.name(), format!("a scale of scales of type {}", tensor.dtype))
                })?),
                ScaleOp::Divide => Arc::new(Reciprocals),
            };
            let (sources, origin, dtype) = (vec![id], Origin::Plain, TargetDtype::F32);
            let values = Values { decoder, parts, sources, dtype, elements: tensor.elements(), origin };
            self.outputs.push(draft(
                tensor.name.clone(),
                self::output(name, Dtype::F32, tensor.shape.clone())?,
                values,
            ));
        }
        self.outputs.push(draft(weight.name.clone(), output, values));
        Ok(())
    }

    /// Whether the output can hold a weight as it is stored: blocks lose nothing by staying blocks.
    fn keeps(&self, weight: &Weight) -> bool {
        let is_block = |id: &TensorId| matches!(self.catalog.get(*id).dtype, Dtype::Block(_));
        self.asked.keeps_blocks.is_some_and(|container| {
            weight.parts.first().is_some_and(is_block)
                && weight
                    .parts
                    .iter()
                    .all(|&id| container.holds(self.catalog.get(id).dtype, &self.catalog.get(id).shape))
        })
    }

    fn plain(&mut self, id: TensorId, tensor: &StoredTensor) -> Result<()> {
        self.outputs.stats.tensors += 1;
        let Some(decoder) = PlainDecoder::of(tensor.dtype) else {
            self.outputs.stats.passthrough += 1;
            return self.bytes(id);
        };
        let wanted = if self.asked.cast_all { self.asked.dtype.dtype() } else { tensor.dtype };
        let dtype = match tensor.dtype {
            _ if self.asked.cast_all => self.asked.dtype,
            Dtype::BF16 => TargetDtype::BF16,
            Dtype::F16 => TargetDtype::F16,
            _ => TargetDtype::F32,
        };
        let stored = Stored {
            decoder: Arc::new(decoder),
            parts: vec![tensor.extent],
            sources: vec![id],
            origin: Origin::Plain,
            dtype,
            // Where plain floats are quantised, exactly the stored values; only F64 has values that F32 has not.
            encoded_from: if self.asked.cast_all { dtype } else { TargetDtype::F32 },
            is_cast: wanted != tensor.dtype,
            copied: (wanted == tensor.dtype).then_some(id),
            block: None,
        };
        let (name, output_name) = (tensor.name.clone(), self.rename(&tensor.name)?);
        self.outputs.push(Draft { name, output_name, shape: tensor.shape.clone(), content: Content::Values(stored) });
        Ok(())
    }

    fn bytes(&mut self, id: TensorId) -> Result<()> {
        let tensor = self.catalog.get(id);
        let (name, output_name) = (tensor.name.clone(), self.rename(&tensor.name)?);
        self.outputs.push(Draft { name, output_name, shape: tensor.shape.clone(), content: Content::Bytes(id) });
        Ok(())
    }

    /// The new name of a tensor, which nothing else may have.
    fn rename(&mut self, name: &str) -> Result<String> {
        self.outputs.name(self.asked.selection.renamed(name), name)
    }
}
