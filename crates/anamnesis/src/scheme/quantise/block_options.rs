//! Options of quantising to ggml blocks.

use std::sync::Arc;

use super::importance::Importance;
use crate::catalog::Dtype;

/// Options of quantising to ggml blocks.
///
/// ```
/// use anamnesis::{BlockType, BlockOptions};
/// let options = BlockOptions::new().with_pure(true).with_output_type(BlockType::Q8_0);
/// assert_eq!(options.output_type, Some(BlockType::Q8_0.into()));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct BlockOptions {
    /// Use one block type for every matrix instead of a mix.
    pub pure: bool,
    /// Keep the output matrix unquantised.
    pub keep_output: bool,
    /// The type of the output matrix: blocks, F16, BF16 or F32. A model whose output is tied to the token embedding
    /// uses it for the embedding.
    pub output_type: Option<Dtype>,
    /// The type of the token embedding.
    pub embedding_type: Option<Dtype>,
    /// Types of tensors by regular expression. An expression matches anywhere in the output name, regardless of case;
    /// the first match counts. An expression that matches no tensor is refused.
    pub tensor_types: Vec<(String, Dtype)>,
    /// The importance matrix.
    pub importance: Option<Arc<Importance>>,
}

impl BlockOptions {
    /// The defaults: every type is chosen by the mix.
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

    /// Uses one block type for every matrix, or the mix.
    #[must_use]
    pub const fn with_pure(mut self, pure: bool) -> Self {
        self.pure = pure;
        self
    }

    /// Keeps the output matrix unquantised, or not.
    #[must_use]
    pub const fn with_keep_output(mut self, keep: bool) -> Self {
        self.keep_output = keep;
        self
    }

    /// Sets the type of the output matrix.
    #[must_use]
    pub fn with_output_type(mut self, dtype: impl Into<Dtype>) -> Self {
        self.output_type = Some(dtype.into());
        self
    }

    /// Sets the type of the token embedding.
    #[must_use]
    pub fn with_embedding_type(mut self, dtype: impl Into<Dtype>) -> Self {
        self.embedding_type = Some(dtype.into());
        self
    }

    /// Sets the type of tensors by a regular expression over their names.
    #[must_use]
    pub fn with_tensor_type(mut self, expression: impl Into<String>, dtype: impl Into<Dtype>) -> Self {
        self.tensor_types.push((expression.into(), dtype.into()));
        self
    }

    /// Sets the importance matrix.
    #[must_use]
    pub fn with_importance(mut self, importance: Arc<Importance>) -> Self {
        self.importance = Some(importance);
        self
    }
}
