//! How a model is quantised to blocks, where the mix leaves a choice.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::BlockType;

/// How a model is quantised to the blocks of ggml.
///
/// ```
/// use anamnesis::{BlockType, BlockOptions};
/// let options = BlockOptions::new().with_pure(true).with_output_type(BlockType::Q8_0);
/// assert_eq!(options.output_type, Some(BlockType::Q8_0));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct BlockOptions {
    /// One type for every matrix.
    pub pure: bool,
    /// Leave the output as it is.
    pub keep_output: bool,
    /// The type of the output.
    pub output_type: Option<BlockType>,
    /// The type of the token embedding.
    pub embedding_type: Option<BlockType>,
    /// Types of tensors by parts of their names, or by glob patterns; the first that fits counts.
    pub tensor_types: Vec<(String, BlockType)>,
    /// How important values are.
    pub importance: Option<Arc<Importance>>,
}

/// How important the inputs of each weight are.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Importance {
    /// By the name of the weight: a number for each input, for every matrix of a stack or for all.
    pub weights: BTreeMap<String, Arc<[f32]>>,
    /// The file it was read from, as it is told in the output.
    pub file: String,
    /// The text it was made with, where the file says it.
    pub dataset: Option<String>,
    /// Pieces of that text.
    pub chunks: Option<u32>,
}

impl BlockOptions {
    /// The defaults: what the mix says.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pure: false,
            keep_output: false,
            output_type: None,
            embedding_type: None,
            tensor_types: Vec::new(),
            importance: None,
        }
    }

    /// Takes one type for every matrix, or the mix.
    #[must_use]
    pub const fn with_pure(mut self, pure: bool) -> Self {
        self.pure = pure;
        self
    }

    /// Leaves the output as it is, or not.
    #[must_use]
    pub const fn with_keep_output(mut self, keep: bool) -> Self {
        self.keep_output = keep;
        self
    }

    /// Sets the type of the output.
    #[must_use]
    pub const fn with_output_type(mut self, block: BlockType) -> Self {
        self.output_type = Some(block);
        self
    }

    /// Sets the type of the token embedding.
    #[must_use]
    pub const fn with_embedding_type(mut self, block: BlockType) -> Self {
        self.embedding_type = Some(block);
        self
    }

    /// Sets the type of tensors by a part of their names.
    #[must_use]
    pub fn with_tensor_type(mut self, part: impl Into<String>, block: BlockType) -> Self {
        self.tensor_types.push((part.into(), block));
        self
    }

    /// Says how important values are.
    #[must_use]
    pub fn with_importance(mut self, importance: Arc<Importance>) -> Self {
        self.importance = Some(importance);
        self
    }
}
