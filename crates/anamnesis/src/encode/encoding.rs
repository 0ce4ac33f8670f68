//! Encodings by name.

use crate::catalog::{BlockType, Dtype};
use crate::convert::{ConvertOptions, ConvertPlan, ConvertTarget};
use crate::error::{Request, Result};
use crate::scheme::BlockOptions;

/// The target with which types of single tensors are requested; all targets of blocks are equivalent here.
const BLOCK_TARGET: &str = "q8_0";

/// A target, or one block type for all tensors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoding {
    pub target: ConvertTarget,
    block: Option<BlockType>,
}

impl Encoding {
    /// The encoding of this name. `IQ2_S` is the block type, as it is listed, and `iq2_s` the mix; names of block types
    /// are found in any case where no target has the name.
    pub(super) fn named(name: &str) -> Result<Self> {
        let quantising = || ConvertTarget::all().filter(|target| target.is_quantized());
        let target = quantising().find(|target| target.name() == name);
        let block = BlockType::all().find(|block| block.name().eq_ignore_ascii_case(name));
        if let Some(block) = block.filter(|block| block.name() == name || target.is_none()) {
            return Ok(Self { target: ConvertTarget::parse(BLOCK_TARGET)?, block: Some(block) });
        }
        let target = target.or_else(|| quantising().find(|target| target.names().contains(&name)));
        let unknown = || {
            let known = quantising().map(|target| target.name().to_owned()).collect();
            Request::UnknownName { what: "encoding", name: name.to_owned(), known }
        };
        Ok(Self { target: target.ok_or_else(unknown)?, block: None })
    }

    /// Options with which all tensors get this encoding.
    pub(super) fn configured(self, mut options: ConvertOptions) -> ConvertOptions {
        if let Some(block) = self.block {
            let blocks = std::mem::replace(&mut options.quantise.blocks, BlockOptions::new());
            options.quantise.blocks = blocks.with_pure(true).with_tensor_type(".*", Dtype::Block(block));
        }
        options
    }

    /// Refuses the types that llama.cpp falls back to where rows cannot be cut into blocks.
    pub(super) fn refuse_other_types(self, plan: &ConvertPlan) -> Result<()> {
        let Some(block) = self.block else { return Ok(()) };
        let other = plan.tensors().find(|tensor| tensor.dtype != Dtype::Block(block));
        other.map_or(Ok(()), |tensor| {
            let row = tensor.shape.last().map_or(0, |&length| length as u64);
            let (target, group) = (block.name().to_owned(), block.block_elements());
            Err(Request::Indivisible { target, group, tensors: vec![(tensor.name, row)] }.into())
        })
    }
}
