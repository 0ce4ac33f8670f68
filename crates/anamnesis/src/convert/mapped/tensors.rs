//! What becomes of every tensor that an architecture maps: kept as blocks, copied, decoded, or encoded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::inputs::{Inputs, beside};
use super::sources::Source;
use crate::architecture::reshape::{Built, Leaf, as_blocks, as_values};
use crate::architecture::tree::{Step, Tree};
use crate::architecture::types::{Weights, stays_f32};
use crate::architecture::{Mapped, Mapping};
use crate::catalog::{BlockType, Dtype, TargetDtype, TensorId};
use crate::checkpoint::Checkpoint;
use crate::convert::draft::{Content, Draft, Stored};
use crate::convert::drafts::Drafts;
use crate::convert::options::ConvertOptions;
use crate::convert::output_tensor::output;
use crate::error::{AnamnesisError, Result};
use crate::pipeline::{Checks, Origin, Values};
use crate::scheme::ggml::BlockEncoder;
use crate::scheme::{BlockParts, Blocked, FourBitFloats, ScaleOp};

/// Which types tensors get.
#[derive(Clone, Copy)]
pub(super) enum Types {
    /// As llama.cpp has it.
    Gguf(Weights),
    /// One type.
    All(TargetDtype),
}

/// Bytes of the codes of a block of MXFP4.
const CODE_BYTES: usize = 16;

/// Plans tensors one by one.
pub(super) struct Planner<'a> {
    pub checkpoint: &'a Checkpoint,
    pub sources: &'a [Source],
    pub types: Types,
    pub options: &'a ConvertOptions,
}

/// A tensor that stays what it is, as blocks.
pub(super) struct KeptBlocks<'m> {
    pub mapped: &'m Mapped,
    pub block: BlockType,
    built: Built,
}

impl Planner<'_> {
    /// The tensors whose codes and scales are blocks already, but for their order.
    pub(super) fn kept_blocks<'m>(&self, mapping: &'m Mapping) -> Vec<KeptBlocks<'m>> {
        let mut kept = Vec::new();
        for mapped in &mapping.tensors {
            let tensors = mapped.tree.tensors();
            let is_quantised = |index: &usize| self.sources[*index].stored.is_none();
            if tensors.is_empty() || !tensors.iter().all(is_quantised) {
                continue;
            }
            let Ok(leaves) = self.leaves(&tensors) else { continue };
            if let Some((block, built)) = as_blocks(&mapped.tree, &|index| find(&leaves, index)) {
                kept.push(KeptBlocks { mapped, block, built });
            }
        }
        kept
    }

    /// A tensor of blocks, with its scale of scales beside it.
    pub(super) fn block(&self, kept: KeptBlocks<'_>, drafts: &mut Drafts<'_>) -> Result<()> {
        let KeptBlocks { mapped, block, built: Built { decoder, parts, .. } } = kept;
        let (name, sources) = (self.name(mapped), self.ids(mapped));
        let output_name = drafts.name(mapped.name.clone(), &name)?;
        let made = output(output_name.clone(), Dtype::Block(block), mapped.shape.clone())?;
        let values =
            Values { decoder, parts, sources, dtype: TargetDtype::F32, elements: made.bytes, origin: Origin::Repacked };
        let shape = mapped.shape.clone();
        drafts.stats.tensors += 1;
        drafts.stats.repacked += 1;
        drafts.push(Draft { name: name.clone(), output_name, shape, content: Content::Repacked(made, values) });
        if block != BlockType::NVFP4 {
            return Ok(());
        }
        let scales = beside(mapped, "scale", self.scales(mapped)?);
        // Companions of the weight, which count with it.
        for scale in scales.into_iter().chain(self.inputs().scales(mapped)?) {
            self.values(&scale, drafts)?;
        }
        Ok(())
    }

    /// What is stored of the inputs of layers.
    pub(super) const fn inputs(&self) -> Inputs<'_> {
        Inputs { checkpoint: self.checkpoint, sources: self.sources }
    }

    /// The experts that are four-bit floats in blocks, by name, where all experts are: those are the tensors that are turned.
    pub(super) fn packed_experts<'m>(&self, tensors: &'m [Mapped]) -> Option<HashMap<&'m str, Built>> {
        let mut packed = HashMap::new();
        for mapped in tensors {
            let Tree::After(tree, Step::Turn { .. }) = &mapped.tree else { continue };
            let leaves = self.leaves(&tree.tensors()).ok()?;
            let (block, built) = as_blocks(tree, &|index| find(&leaves, index))?;
            if block != BlockType::MXFP4 {
                return None;
            }
            packed.insert(mapped.name.as_str(), built);
        }
        Some(packed).filter(|packed| !packed.is_empty())
    }

    /// Experts as their own library has them: codes and scales, not turned.
    pub(super) fn packed(&self, mapped: &Mapped, blocks: Built, drafts: &mut Drafts<'_>) -> Result<()> {
        let [experts, inputs, outputs] = mapped.shape[..] else {
            return Err(AnamnesisError::parse(format!(
                "experts of shape {:?}; three dimensions are needed",
                mapped.shape
            )));
        };
        let (name, sources) = (self.name(mapped), self.ids(mapped));
        let groups = inputs / BlockType::MXFP4.block_elements() as usize;
        let shapes = [vec![experts, outputs, groups, CODE_BYTES], vec![experts, outputs, groups]];
        drafts.stats.tensors += 1;
        drafts.stats.repacked += 1;
        let apart = BlockParts::both(&blocks.decoder, FourBitFloats::Mxfp4).into_iter();
        for ((decoder, shape), end) in apart.zip(shapes).zip(["blocks", "scales"]) {
            let output_name = drafts.name(format!("{}_{end}", mapped.name), &name)?;
            let made = output(output_name.clone(), Dtype::U8, shape.clone())?;
            let values = Values {
                decoder: Arc::new(decoder),
                parts: blocks.parts.clone(),
                sources: sources.clone(),
                dtype: TargetDtype::F32,
                elements: made.bytes,
                origin: Origin::Repacked,
            };
            drafts.push(Draft { name: name.clone(), output_name, shape, content: Content::Repacked(made, values) });
        }
        Ok(())
    }

    /// The scales of scales of a tensor of blocks, one for each tensor it is made of.
    fn scales(&self, mapped: &Mapped) -> Result<Vec<f32>> {
        let mut scales = Vec::new();
        for index in mapped.tree.tensors() {
            let source = &self.sources[index];
            let leaf = source.leaf(&self.checkpoint.catalog)?;
            let Some(Blocked { whole: Some((part, takes)), .. }) = leaf.decoder.as_blocks() else { continue };
            let Some(extent) = leaf.parts.get(part).filter(|extent| extent.bytes == 4) else {
                let why = "a scale of scales that is no single F32 value";
                return Err(AnamnesisError::unsupported("NVFP4", why).in_tensor(&source.stored_name));
            };
            let mut bytes = [0; 4];
            self.checkpoint.sources[extent.file as usize].read_at(extent.offset, &mut bytes)?;
            let scale = f32::from_le_bytes(bytes);
            scales.push(if takes == ScaleOp::Divide { 1.0 / scale } else { scale });
        }
        Ok(scales)
    }

    /// A tensor of values, of the type it gets.
    pub(super) fn values(&self, mapped: &Mapped, drafts: &mut Drafts<'_>) -> Result<()> {
        let (name, tensors) = (self.name(mapped), mapped.tree.tensors());
        let leaves = self.leaves(&tensors)?;
        let Built { decoder, elements, parts } = as_values(&mapped.tree, &|index| find(&leaves, index));
        let shape = mapped.shape.clone();
        let output_name = drafts.name(mapped.name.clone(), &name)?;
        let is_plain = leaves.values().all(|leaf| leaf.stored.is_some());
        let origin = if is_plain { Origin::Plain } else { Origin::Quantised };
        drafts.stats.dequantized += usize::from(!is_plain);
        let sources = self.ids(mapped);
        let row = shape.last().map_or(0, |&row| row as u64);
        let dtype = match self.types {
            Types::All(dtype) => dtype,
            Types::Gguf(_) if stays_f32(&mapped.name, shape.len()) => TargetDtype::F32,
            Types::Gguf(Weights::Plain(dtype)) => dtype,
            Types::Gguf(Weights::Q8_0) if row.is_multiple_of(BlockType::Q8_0.block_elements()) => {
                let encoder = Box::new(BlockEncoder::new(&output_name, &shape, BlockType::Q8_0, None)?);
                let values = Values { decoder, parts, sources, dtype: TargetDtype::F32, elements, origin };
                let allow_nonfinite = self.options.allow_nonfinite;
                let checks = Checks { allow_nonfinite, measure: false, loaded_as: TargetDtype::F32 };
                drafts.stats.quantized += 1;
                let content = Content::Encoded(values, encoder, checks);
                drafts.push(Draft { name, output_name, shape, content });
                return Ok(());
            }
            Types::Gguf(Weights::Q8_0) => TargetDtype::F16,
        };
        // A tensor that has another name or shape, and the same values, is copied.
        let copied = match (&mapped.tree, leaves.values().next()) {
            (Tree::Tensor(_), Some(leaf)) if leaf.stored == Some(dtype.dtype()) => sources.first().copied(),
            _ => None,
        };
        let of_one = |dtype| leaves.values().all(|leaf| leaf.stored == Some(dtype)) && !leaves.is_empty();
        // What is changed on the way is of the type it was before it is quantised, as if it had been written in between.
        let encoded_from = match origin {
            Origin::Plain if of_one(Dtype::BF16) => TargetDtype::BF16,
            Origin::Plain if of_one(Dtype::F16) => TargetDtype::F16,
            Origin::Plain => TargetDtype::F32,
            _ if matches!(self.types, Types::Gguf(Weights::Q8_0)) => TargetDtype::F32,
            _ => self.options.target_dtype()?.unwrap_or_default(),
        };
        let is_cast = !of_one(dtype.dtype());
        let stored = Stored { decoder, parts, sources, origin, dtype, encoded_from, is_cast, copied, block: None };
        drafts.push(Draft { name, output_name, shape, content: Content::Values(stored) });
        Ok(())
    }

    fn leaves(&self, tensors: &[usize]) -> Result<BTreeMap<usize, Leaf>> {
        let mut leaves = BTreeMap::new();
        for &index in tensors {
            leaves.insert(index, self.sources[index].leaf(&self.checkpoint.catalog)?);
        }
        Ok(leaves)
    }

    /// The name of the first tensor it is made of.
    fn name(&self, mapped: &Mapped) -> String {
        let first = mapped.tree.tensors().first().map(|&index| self.sources[index].stored_name.clone());
        first.unwrap_or_else(|| mapped.name.clone())
    }

    fn ids(&self, mapped: &Mapped) -> Vec<TensorId> {
        mapped.tree.tensors().iter().flat_map(|&index| self.sources[index].parts.iter().copied()).collect()
    }
}

/// One of the tensors that another is made of.
fn find(leaves: &BTreeMap<usize, Leaf>, index: usize) -> Leaf {
    leaves.get(&index).map_or_else(Leaf::nothing, Leaf::clone)
}
