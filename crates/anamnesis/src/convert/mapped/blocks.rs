//! Weights that are stored as ggml blocks, or as the same codes and scales, on one side of a mapping: they keep
//! them on the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::input_scales::{InputScales, read_scale, scale_tensor};
use crate::architecture::reshape::{Built, as_blocks};
use crate::architecture::tree::{Step, Tree};
use crate::architecture::{Mapped, Mapping};
use crate::catalog::{BlockType, Dtype};
use crate::checkpoint::Checkpoint;
use crate::convert::inputs::InputTensor;
use crate::convert::outputs::{Planner, find};
use crate::error::{AnamnesisError, Result};
use crate::scheme::{BlockParts, FourBitFloats, GgmlBlocks};

/// The prefix of tensors in layers.
const BLOCKS: &str = "blk.";

/// Bytes of the codes in one MXFP4 block.
const CODE_BYTES: usize = 16;

/// The input tensors of a mapping that can stay blocks.
#[derive(Clone, Copy)]
pub(super) struct MappedBlocks<'a> {
    pub checkpoint: &'a Checkpoint,
    pub tensors: &'a [InputTensor],
}

/// A tensor that stays quantised, as blocks.
pub(super) struct KeptBlocks<'m> {
    pub mapped: &'m Mapped,
    pub block: BlockType,
    built: Built,
}

impl KeptBlocks<'_> {
    /// The layer it is in.
    pub(super) fn layer(&self) -> Option<u64> {
        self.mapped.name.strip_prefix(BLOCKS)?.split_once('.')?.0.parse().ok()
    }
}

impl MappedBlocks<'_> {
    /// The tensors whose codes and scales can be written as blocks by reordering bytes.
    pub(super) fn kept<'m>(&self, mapping: &'m Mapping) -> Vec<KeptBlocks<'m>> {
        let mut kept = Vec::new();
        for mapped in &mapping.tensors {
            if mapped.tree.tensors().iter().any(|&index| self.tensors[index].stored.is_some()) {
                continue;
            }
            if let Some((block, built)) = self.as_blocks(&mapped.tree) {
                kept.push(KeptBlocks { mapped, block, built });
            }
        }
        kept
    }

    /// Plans a tensor of blocks, together with its global scale and the scale of its inputs.
    pub(super) fn plan(&self, kept: KeptBlocks<'_>, planner: &mut Planner<'_, '_>) -> Result<()> {
        let KeptBlocks { mapped, block, built } = kept;
        planner.blocks(mapped, block, built, planner.ids(mapped))?;
        if block != BlockType::NVFP4 {
            return Ok(());
        }
        let scales = scale_tensor(mapped, "scale", self.global_scales(mapped)?);
        for scale in scales.into_iter().chain(self.input_scales().of(mapped)?) {
            planner.values(&scale, true)?;
        }
        Ok(())
    }

    /// The stored activation scales.
    pub(super) const fn input_scales(&self) -> InputScales<'_> {
        InputScales { checkpoint: self.checkpoint, tensors: self.tensors }
    }

    /// The experts stored as MXFP4 blocks, by name, if all experts are: these are the tensors that the
    /// mapping transposes.
    pub(super) fn packed_experts<'m>(&self, tensors: &'m [Mapped]) -> Option<HashMap<&'m str, Built>> {
        let mut packed = HashMap::new();
        for mapped in tensors {
            let Tree::After(tree, Step::Transpose { .. }) = &mapped.tree else { continue };
            let (block, built) = self.as_blocks(tree)?;
            if block != BlockType::MXFP4 {
                return None;
            }
            packed.insert(mapped.name.as_str(), built);
        }
        Some(packed).filter(|packed| !packed.is_empty())
    }

    /// The blocks of a tensor, if everything it is made of has them.
    fn as_blocks(&self, tree: &Tree) -> Option<(BlockType, Built)> {
        let catalog = &self.checkpoint.catalog;
        let indices = tree.tensors().into_iter();
        let leaves = indices.map(|index| Some((index, self.tensors[index].leaf(catalog).ok()?)));
        let leaves: BTreeMap<usize, _> = leaves.collect::<Option<_>>()?;
        as_blocks(tree, &|index| find(&leaves, index))
    }

    /// The global scales of a tensor of blocks, one for each tensor it is made of.
    fn global_scales(&self, mapped: &Mapped) -> Result<Vec<f32>> {
        let mut scales = Vec::new();
        for index in mapped.tree.tensors() {
            let tensor = &self.tensors[index];
            let leaf = tensor.leaf(&self.checkpoint.catalog)?;
            let Some(GgmlBlocks { global: Some((part, op)), .. }) = leaf.decoder.codes().blocks() else { continue };
            let Some(&extent) = leaf.parts.get(part).filter(|extent| extent.bytes == 4) else {
                let why = "a global scale that is not a single F32 value";
                return Err(AnamnesisError::unsupported("NVFP4", why).in_tensor(&tensor.name));
            };
            scales.push(read_scale(self.checkpoint, extent, op)?);
        }
        Ok(scales)
    }
}

/// Plans experts in the layout of gpt-oss: codes and scales in two tensors, not transposed.
pub(super) fn plan_packed(mapped: &Mapped, blocks: Built, planner: &mut Planner<'_, '_>) -> Result<()> {
    let [experts, inputs, outputs] = mapped.shape[..] else {
        let why = format!("experts of shape {:?}; three dimensions are needed", mapped.shape);
        return Err(AnamnesisError::parse(why));
    };
    let groups = inputs / BlockType::MXFP4.block_elements() as usize;
    let [codes, scales] = BlockParts::both(&blocks.decoder, FourBitFloats::Mxfp4);
    let codes_shape = vec![experts, outputs, groups, CODE_BYTES];
    planner.part(mapped, ("blocks", Dtype::U8, codes_shape), (Arc::new(codes), blocks.parts.clone()), false)?;
    let scales_shape = vec![experts, outputs, groups];
    planner.part(mapped, ("scales", Dtype::U8, scales_shape), (Arc::new(scales), blocks.parts), true)
}
