//! Planning the output tensors: which are kept, decoded, cast or encoded.
//!
//! Without an architecture, every output tensor is one of the input ([`plan_outputs`]). With one (`mapped`), an output
//! tensor may be made from several; the rest is the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::draft::{Content, Draft, DraftValues};
use super::drafts::Drafts;
use super::finished::Outputs;
use super::inputs::{ClaimedCatalog, InputTensor, SelectedTensors};
use super::output_tensor::output;
use super::quantise::Quantise;
use super::types::{TypedValues, Types, ValueTypes};
use crate::architecture::Mapped;
use crate::architecture::reshape::{Built, Leaf, as_blocks, as_values};
use crate::architecture::tree::{Step, Tree};
use crate::catalog::{BlockType, Dtype, Extent, Selection, TargetDtype, TensorId};
use crate::container::Container;
use crate::error::{AnamnesisError, Result};
use crate::pipeline::{Checks, Origin, Values};
use crate::scheme::ggml::BlockEncoder;
use crate::scheme::{PlainDecoder, Reciprocals, ScaleOp, TileDecoder};

/// How the tensors of an output are derived from those of the input, if no architecture is involved.
pub(crate) struct OutputRequest<'a> {
    /// The type that quantised weights are decoded to.
    pub dtype: TargetDtype,
    /// The container that may keep blocks as they are stored; `None` if everything is decoded.
    pub keeps_blocks: Option<&'a dyn Container>,
    /// Whether plain floats are cast to `dtype` too.
    pub cast_all: bool,
    /// Whether blocks that are quantised again are decoded to F32 first.
    pub exact_blocks: bool,
    pub selection: &'a Selection,
    pub quantise: Option<Quantise<'a>>,
}

impl<'a> OutputRequest<'a> {
    /// Decodes quantised weights and keeps everything else.
    pub(crate) fn decode(dtype: TargetDtype, selection: &'a Selection) -> Self {
        Self { dtype, keeps_blocks: None, cast_all: false, exact_blocks: false, selection, quantise: None }
    }
}

/// Plans every output tensor of a claimed catalog. Weights that cannot be decoded are errors; small companions are
/// read and checked.
pub(crate) fn plan_outputs(input: ClaimedCatalog<'_>, request: &OutputRequest<'_>) -> Result<Outputs> {
    let SelectedTensors { tensors, left_out } = input.select(request.selection, request.quantise.as_ref())?;
    let &OutputRequest { dtype, cast_all, exact_blocks, .. } = request;
    let types = Types::Decoded { dtype, cast_all, exact_blocks };
    let mut planner = Planner::new(input, &tensors, types, request.quantise.as_ref());
    for (index, tensor) in tensors.iter().enumerate() {
        planner.tensor(index, tensor, request)?;
    }
    let drafts = planner.drafts;
    // There can be hundreds of thousands, and the drafts have all of it.
    drop(tensors);
    drafts.finish(left_out)
}

/// Plans output tensors one by one.
pub(super) struct Planner<'a, 't> {
    input: ClaimedCatalog<'a>,
    tensors: &'t [InputTensor],
    types: Types,
    quantise: Option<&'a Quantise<'a>>,
    drafts: Drafts<'a>,
}

impl<'a, 't> Planner<'a, 't> {
    pub(super) fn new(
        input: ClaimedCatalog<'a>,
        tensors: &'t [InputTensor],
        types: Types,
        quantise: Option<&'a Quantise<'a>>,
    ) -> Self {
        Self { input, tensors, types, quantise, drafts: Drafts::new(input.catalog, quantise, tensors.len()) }
    }

    /// Asks the quantiser for its decisions and turns every draft into planned work.
    pub(super) fn finish(self, left_out: usize) -> Result<Outputs> {
        self.drafts.finish(left_out)
    }

    /// Plans an output tensor that is one of the input.
    fn tensor(&mut self, index: usize, tensor: &InputTensor, request: &OutputRequest<'_>) -> Result<()> {
        let keeps = request.keeps_blocks.filter(|_| tensor.stored.is_none());
        if tensor.decoder.is_none() || keeps.is_some_and(|container| self.holds(container, tensor)) {
            return self.bytes(tensor, request.selection);
        }
        let mut mapped =
            Mapped { name: tensor.new_name.clone(), shape: tensor.shape.clone(), tree: Tree::Tensor(index) };
        if let Some(container) = keeps
            && let Some((block, built)) = self.unchanged_blocks(tensor, &mut mapped, container)?
        {
            self.global_scale(tensor, block, request.selection)?;
            let sources = tensor.parts.iter().take(2).copied().collect();
            return self.blocks(&mapped, block, built, sources);
        }
        self.values(&mapped, false)
    }

    /// Whether a container can hold a weight as it is stored: blocks lose nothing by staying blocks.
    fn holds(&self, container: &dyn Container, tensor: &InputTensor) -> bool {
        let stored = |id: &TensorId| self.input.catalog.get(*id);
        let is_block = tensor.parts.first().is_some_and(|id| matches!(stored(id).dtype, Dtype::Block(_)));
        is_block && tensor.parts.iter().all(|id| container.holds(stored(id).dtype, &stored(id).shape))
    }

    /// Plans copies of a stored tensor and its companions.
    fn bytes(&mut self, tensor: &InputTensor, selection: &Selection) -> Result<()> {
        for (place, &id) in tensor.parts.iter().enumerate() {
            let stored = self.input.catalog.get(id);
            let output_name = self.drafts.name(selection.renamed(&stored.name), &stored.name)?;
            let (name, shape, content) = (stored.name.clone(), stored.shape.clone(), Content::Bytes(id));
            self.drafts.push(Draft { name, output_name, shape, content, is_companion: place > 0 });
        }
        Ok(())
    }

    /// Plans the unchanged blocks of a weight, if the container holds them. Blocks stored transposed stay transposed.
    fn unchanged_blocks(
        &self,
        tensor: &InputTensor,
        mapped: &mut Mapped,
        container: &dyn Container,
    ) -> Result<Option<(BlockType, Built)>> {
        let blocked = tensor.decoder.as_ref().and_then(|decoder| decoder.codes().blocks());
        let Some(blocked) = blocked else { return Ok(None) };
        let mut shape = tensor.shape.clone();
        let mut tree = mapped.tree.clone();
        if let ([.., rows, cols], true) = (&mut shape[..], blocked.is_transposed) {
            tree = tree.after(Step::Transpose { rows: *rows as u64, cols: *cols as u64 });
            std::mem::swap(rows, cols);
        }
        if !container.holds(Dtype::Block(blocked.block), &shape) {
            return Ok(None);
        }
        let leaf = tensor.leaf(self.input.catalog)?;
        let built = as_blocks(&tree, &|_| leaf.clone());
        if built.is_some() {
            mapped.shape = shape;
        }
        Ok(built)
    }

    /// Plans the global scale of a weight that keeps its blocks, as a tensor of its own.
    fn global_scale(&mut self, tensor: &InputTensor, block: BlockType, selection: &Selection) -> Result<()> {
        let scale = tensor.decoder.as_ref().and_then(|decoder| decoder.codes().blocks()?.global);
        let Some((id, op)) = scale.and_then(|(part, op)| Some((*tensor.parts.get(part)?, op))) else { return Ok(()) };
        let stored = self.input.catalog.get(id);
        let decoder: Arc<dyn TileDecoder> = match op {
            ScaleOp::Multiply => Arc::new(PlainDecoder::of(stored.dtype).ok_or_else(|| {
                AnamnesisError::unsupported(block.name(), format!("a global scale of type {}", stored.dtype))
            })?),
            ScaleOp::Divide => Arc::new(Reciprocals),
        };
        let wanted = format!("{}.scale", tensor.name.trim_end_matches(".weight"));
        let output_name = self.drafts.name(selection.renamed(&wanted), &wanted)?;
        let made = output(output_name.clone(), Dtype::F32, stored.shape.clone())?;
        let (parts, sources, elements) = (vec![stored.extent], vec![id], stored.elements());
        let values = Values { decoder, parts, sources, dtype: TargetDtype::F32, elements, origin: Origin::Plain };
        let (name, shape, content) = (stored.name.clone(), stored.shape.clone(), Content::Repacked(made, values));
        self.drafts.push(Draft { name, output_name, shape, content, is_companion: true });
        Ok(())
    }

    /// Plans a tensor of blocks: the same codes and scales in the order of the output.
    pub(super) fn blocks(
        &mut self,
        mapped: &Mapped,
        block: BlockType,
        built: Built,
        sources: Vec<TensorId>,
    ) -> Result<()> {
        let output_name = self.drafts.name(mapped.name.clone(), &self.name(mapped))?;
        let made = (output_name, Dtype::Block(block), mapped.shape.clone());
        self.rearranged(mapped, made, (built.decoder, built.parts), sources, false)
    }

    /// Plans a table of integers.
    pub(super) fn table(
        &mut self,
        mapped: &Mapped,
        dtype: Dtype,
        bytes: (Arc<dyn TileDecoder>, Vec<Extent>),
        sources: Vec<TensorId>,
    ) -> Result<()> {
        let output_name = self.drafts.name(mapped.name.clone(), &self.name(mapped))?;
        self.rearranged(mapped, (output_name, dtype, mapped.shape.clone()), bytes, sources, false)
    }

    /// Plans one of the tensors that a quantised weight is split into; its bytes are those of the weight
    /// in another order.
    pub(super) fn part(
        &mut self,
        mapped: &Mapped,
        (end, dtype, shape): (&str, Dtype, Vec<usize>),
        bytes: (Arc<dyn TileDecoder>, Vec<Extent>),
        is_companion: bool,
    ) -> Result<()> {
        let output_name = self.drafts.name(format!("{}_{end}", mapped.name), &self.name(mapped))?;
        self.rearranged(mapped, (output_name, dtype, shape), bytes, self.ids(mapped), is_companion)
    }

    fn rearranged(
        &mut self,
        mapped: &Mapped,
        (output_name, dtype, shape): (String, Dtype, Vec<usize>),
        (decoder, parts): (Arc<dyn TileDecoder>, Vec<Extent>),
        sources: Vec<TensorId>,
        is_companion: bool,
    ) -> Result<()> {
        let made = output(output_name.clone(), dtype, shape.clone())?;
        let (dtype, elements, origin) = (TargetDtype::F32, made.bytes, Origin::Repacked);
        let values = Values { decoder, parts, sources, dtype, elements, origin };
        let (name, content) = (self.name(mapped), Content::Repacked(made, values));
        self.drafts.push(Draft { name, output_name, shape, content, is_companion });
        Ok(())
    }

    /// Plans a tensor of values, with the type it gets.
    pub(super) fn values(&mut self, mapped: &Mapped, is_companion: bool) -> Result<()> {
        let leaves = self.leaves(&mapped.tree.tensors())?;
        let Built { decoder, elements, parts } = as_values(&mapped.tree, &|index| find(&leaves, index));
        let (name, sources, shape) = (self.name(mapped), self.ids(mapped), mapped.shape.clone());
        let output_name = self.drafts.name(mapped.name.clone(), &name)?;
        if mapped.tree.has_products() && leaves.values().any(|leaf| leaf.stored == Some(Dtype::F16)) {
            let why = "it is a product of tensors stored as F16, which the converter rounds in an order of its own";
            return Err(AnamnesisError::unsupported("F16", why));
        }
        let is_plain = leaves.values().all(|leaf| leaf.stored.is_some());
        let origin = if is_plain { Origin::Plain } else { Origin::Quantised };
        let first = leaves.values().next().and_then(|leaf| leaf.stored);
        let stored = first.filter(|first| leaves.values().all(|leaf| leaf.stored == Some(*first)));
        let is_block = |id: &TensorId| matches!(self.input.catalog.get(*id).dtype, Dtype::Block(_));
        let values = TypedValues {
            output_name: &output_name,
            shape: &shape,
            is_quantised: !is_plain,
            is_block: sources.first().is_some_and(is_block),
            is_fp8: !is_plain && mapped.tree.tensors().iter().all(|&index| self.is_fp8(index)),
            stored,
        };
        let is_folded = values.is_block && sources.len() > leaves.len();
        let content = match (self.types.of(&values), self.types) {
            (Some(ValueTypes { output, dtype, encoded_from }), _) => {
                // A tensor with the same values under another name or shape is copied.
                let is_whole = matches!(mapped.tree, Tree::Tensor(_));
                let copied = sources.first().copied().filter(|_| is_whole && stored == Some(output));
                let (is_cast, block) = (stored != Some(output), self.block(&sources).filter(|_| is_whole));
                match copied {
                    Some(id) if self.quantise.is_none() => Content::Bytes(id),
                    _ => Content::Values(DraftValues {
                        decoder,
                        parts,
                        sources,
                        origin,
                        dtype,
                        encoded_from,
                        is_cast,
                        is_folded,
                        copied,
                        block,
                    }),
                }
            }
            (None, types) => {
                let encoder = Box::new(BlockEncoder::new(&output_name, &shape, BlockType::Q8_0, None)?);
                let values = Values { decoder, parts, sources, dtype: TargetDtype::F32, elements, origin };
                let allow_nonfinite = matches!(types, Types::LlamaCpp { allow_nonfinite: true, .. });
                let checks = Checks { allow_nonfinite, measure: false, loaded_as: TargetDtype::F32 };
                Content::Encoded(values, encoder, checks)
            }
        };
        self.drafts.push(Draft { name, output_name, shape, content, is_companion });
        Ok(())
    }

    /// Whether an input tensor is stored as FP8, with scales.
    fn is_fp8(&self, index: usize) -> bool {
        let codes = self.tensors[index].parts.first().map(|id| self.input.catalog.get(*id).dtype);
        self.tensors[index].stored.is_none() && matches!(codes, Some(Dtype::F8E4M3 | Dtype::F8E5M2))
    }

    /// The stored tensor of a weight, if it consists of blocks that the output can hold.
    fn block(&self, parts: &[TensorId]) -> Option<TensorId> {
        let container = self.quantise?.container;
        let &[id] = parts else { return None };
        let tensor = self.input.catalog.get(id);
        let is_held = matches!(tensor.dtype, Dtype::Block(_)) && container.holds(tensor.dtype, &tensor.shape);
        is_held.then_some(id)
    }

    fn leaves(&self, tensors: &[usize]) -> Result<BTreeMap<usize, Leaf>> {
        tensors.iter().map(|&index| Ok((index, self.tensors[index].leaf(self.input.catalog)?))).collect()
    }

    /// The name of the first input tensor it is made of.
    fn name(&self, mapped: &Mapped) -> String {
        let first = mapped.tree.tensors().first().map(|&index| self.tensors[index].name.clone());
        first.unwrap_or_else(|| mapped.name.clone())
    }

    /// The stored tensors it is made of.
    pub(super) fn ids(&self, mapped: &Mapped) -> Vec<TensorId> {
        mapped.tree.tensors().iter().flat_map(|&index| self.tensors[index].parts.iter().copied()).collect()
    }
}

/// The leaf of an input tensor.
pub(super) fn find(leaves: &BTreeMap<usize, Leaf>, index: usize) -> Leaf {
    leaves.get(&index).map_or_else(Leaf::nothing, Leaf::clone)
}
