//! Builds the decoder of a tree of steps.

use std::sync::Arc;

use super::constant::Constant;
use super::each::Each;
use super::folded::Folded;
use super::interleaved::Interleaved;
use super::linear::Linear;
use super::picked::Picked;
use super::resampled::Resampled;
use super::stacked::Stacked;
use super::unblocked::Unblocked;
use crate::architecture::tree::{Step, Tree};
use crate::catalog::{BlockType, Dtype, Extent};
use crate::scheme::{Inner, PlainDecoder, TileDecoder, Transposed};

/// A tensor of the input.
#[derive(Clone)]
pub(crate) struct Leaf {
    pub decoder: Arc<dyn TileDecoder>,
    pub elements: u64,
    pub parts: Vec<Extent>,
    /// The dtype of a tensor that is stored unquantised.
    pub stored: Option<Dtype>,
}

impl Leaf {
    /// A tensor without values.
    pub(crate) fn nothing() -> Self {
        Self { decoder: Arc::new(Constant { bits: Vec::new() }), elements: 0, parts: Vec::new(), stored: None }
    }
}

/// A decoder, the number of its elements, and the stored bytes it reads.
pub(crate) struct Built {
    pub decoder: Arc<dyn TileDecoder>,
    pub elements: u64,
    pub parts: Vec<Extent>,
}

impl Built {
    fn inner(&self, first_part: usize) -> Inner {
        Inner { decoder: self.decoder.clone(), elements: self.elements, first_part }
    }
}

/// The decoder of a tensor's values.
pub(crate) fn as_values(tree: &Tree, leaves: &dyn Fn(usize) -> Leaf) -> Built {
    Builder { leaves, block: None }.build(tree).unwrap_or(Built {
        decoder: Arc::new(Constant { bits: Vec::new() }),
        elements: 0,
        parts: Vec::new(),
    })
}

/// The bytes of a tensor as ggml blocks, if all its inputs are blocks of one type and every step moves whole blocks.
pub(crate) fn as_blocks(tree: &Tree, leaves: &dyn Fn(usize) -> Leaf) -> Option<(BlockType, Built)> {
    let first = leaves(*tree.tensors().first()?);
    let block = first.decoder.codes().blocks()?.block;
    Some((block, Builder { leaves, block: Some(block) }.build(tree)?))
}

struct Builder<'a> {
    leaves: &'a dyn Fn(usize) -> Leaf,
    /// The type of the blocks to build; `None` for values.
    block: Option<BlockType>,
}

impl Builder<'_> {
    /// `None` only if blocks cannot be built.
    fn build(&self, tree: &Tree) -> Option<Built> {
        match tree {
            Tree::Tensor(index) => self.leaf(*index),
            Tree::Constant(values) => match self.block {
                Some(_) => None,
                None => {
                    let bits: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
                    let elements = bits.len() as u64;
                    Some(Built { decoder: Arc::new(Constant { bits }), elements, parts: Vec::new() })
                }
            },
            Tree::Zeros(elements) => {
                let decoder = Arc::new(Constant { bits: vec![0] });
                self.block.is_none().then(|| Built { decoder, elements: *elements, parts: Vec::new() })
            }
            Tree::Stacked(trees) => {
                let (inner, parts) = self.several(trees.iter())?;
                let elements = inner.iter().map(|inner| inner.elements).sum();
                Some(Built { decoder: Arc::new(Stacked { inner }), elements, parts })
            }
            Tree::Interleaved(trees) => {
                let (inner, parts) = self.several(trees.iter().map(|(tree, _)| tree))?;
                let elements = inner.iter().map(|inner| inner.elements).sum();
                let each = trees.iter().map(|(_, each)| self.scaled(*each)).collect::<Option<Vec<_>>>()?;
                let inner = inner.into_iter().zip(each).collect();
                Some(Built { decoder: Arc::new(Interleaved { inner }), elements, parts })
            }
            Tree::After(tree, step) => self.step(tree, step),
            Tree::Linear(layer) => {
                self.block.is_none().then_some(())?;
                let (inner, parts) = self.several([&layer.rows, &layer.matrix, &layer.bias].into_iter())?;
                let [rows, matrix, bias] = <[Inner; 3]>::try_from(inner).ok()?;
                let linear = Linear { rows, matrix, bias, inputs: layer.inputs, outputs: layer.outputs };
                let elements = linear.elements();
                Some(Built { decoder: Arc::new(linear), elements, parts })
            }
        }
    }

    fn several<'t>(&self, trees: impl Iterator<Item = &'t Tree>) -> Option<(Vec<Inner>, Vec<Extent>)> {
        let (mut inner, mut parts) = (Vec::new(), Vec::new());
        for tree in trees {
            let built = self.build(tree)?;
            inner.push(built.inner(parts.len()));
            parts.extend(built.parts);
        }
        Some((inner, parts))
    }

    /// The elements for a number of values: the values themselves, or the bytes of their blocks.
    fn scaled(&self, values: u64) -> Option<u64> {
        match self.block {
            None => Some(values),
            Some(block) => {
                let is_whole = values.is_multiple_of(block.block_elements());
                is_whole.then(|| values / block.block_elements() * block.block_bytes())
            }
        }
    }

    fn leaf(&self, index: usize) -> Option<Built> {
        let Leaf { decoder, elements, parts, .. } = (self.leaves)(index);
        let Some(block) = self.block else { return Some(Built { decoder, elements, parts }) };
        let blocked = decoder.codes().blocks().filter(|blocked| blocked.block == block && !blocked.is_transposed)?;
        let parts = parts.into_iter().take(2).collect();
        Some(Built { decoder: blocked.bytes, elements: self.scaled(elements)?, parts })
    }

    fn step(&self, tree: &Tree, step: &Step) -> Option<Built> {
        if let (Step::Transpose { rows, cols }, Tree::Tensor(index)) = (step, tree) {
            return self.transposed_leaf(*index, *rows, *cols);
        }
        let built = self.build(tree)?;
        let (elements, inner) = (built.elements, built.inner(0));
        let stored = self.stored(tree);
        let (decoder, elements): (Arc<dyn TileDecoder>, u64) = match step {
            Step::Transpose { rows, cols } => {
                let (rows, cols) = (*rows, *cols);
                self.block.is_none().then_some(())?;
                (Arc::new(Transposed { inner, rows, cols, stored: None }), elements)
            }
            Step::Each(formula) => {
                self.block.is_none().then_some(())?;
                (Arc::new(Each { inner, formula: formula.clone(), stored }), elements)
            }
            &Step::Fold { row, count, fold } => {
                self.block.is_none().then_some(())?;
                let is_half = stored == Some(Dtype::F16);
                let folded = Folded { inner, row, count, fold, is_half };
                let elements = folded.elements();
                (Arc::new(folded), elements)
            }
            &Step::Resample { row, from, to } => {
                self.block.is_none().then_some(())?;
                let resampled = Resampled { inner, row, from, to };
                let elements = resampled.elements();
                (Arc::new(resampled), elements)
            }
            _ => {
                let picked = Picked::of(inner, step, |row| self.scaled(row))?;
                let elements = picked.elements();
                (Arc::new(picked), elements)
            }
        };
        Some(Built { decoder, elements, parts: built.parts })
    }

    /// A transposed tensor: read by columns, or as it is if its blocks are stored transposed.
    fn transposed_leaf(&self, index: usize, rows: u64, cols: u64) -> Option<Built> {
        let leaf = (self.leaves)(index);
        let elements = leaf.elements;
        if let Some(blocked) = leaf.decoder.codes().blocks().filter(|blocked| blocked.is_transposed) {
            let bytes = elements / blocked.block.block_elements() * blocked.block.block_bytes();
            let parts = leaf.parts.into_iter().take(2).collect();
            return match self.block {
                Some(block) if block == blocked.block => Some(Built { decoder: blocked.bytes, elements: bytes, parts }),
                Some(_) => None,
                None => {
                    let decoder = Arc::new(Unblocked::new(blocked.bytes, bytes, blocked.block));
                    Some(Built { decoder, elements, parts })
                }
            };
        }
        self.block.is_none().then_some(())?;
        let stored = leaf.stored.and_then(|dtype| Some((dtype, PlainDecoder::of(dtype)?)));
        let inner = Inner { decoder: leaf.decoder, elements, first_part: 0 };
        Some(Built { decoder: Arc::new(Transposed { inner, rows, cols, stored }), elements, parts: leaf.parts })
    }

    /// The type that all inputs of a tensor are stored in.
    fn stored(&self, tree: &Tree) -> Option<Dtype> {
        let tensors = tree.tensors();
        let first = (self.leaves)(*tensors.first()?).stored?;
        tensors.iter().all(|index| (self.leaves)(*index).stored == Some(first)).then_some(first)
    }
}
