//! How a model is quantised to blocks, where the mix leaves a choice.

use std::sync::Arc;

use super::importance::Importance;
use crate::catalog::Dtype;

/// How a model is quantised to the blocks of ggml.
///
/// ```
/// use anamnesis::{BlockType, BlockOptions};
/// let options = BlockOptions::new().with_pure(true).with_output_type(BlockType::Q8_0);
/// assert_eq!(options.output_type, Some(BlockType::Q8_0.into()));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct BlockOptions {
    /// One type for every matrix.
    pub pure: bool,
    /// Leave the output as it is.
    pub keep_output: bool,
    /// The type of the output: blocks, or F16, BF16 or F32. It is that of the embedding where the model has no other output.
    pub output_type: Option<Dtype>,
    /// The type of the token embedding.
    pub embedding_type: Option<Dtype>,
    /// Types of tensors by regular expressions, which are found anywhere in a name of the output, in upper or lower case; the
    /// first that fits counts. One that fits no tensor is refused.
    pub tensor_types: Vec<(String, Dtype)>,
    /// How important values are.
    pub importance: Option<Arc<Importance>>,
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

    /// Sets how important values are.
    #[must_use]
    pub fn with_importance(mut self, importance: Arc<Importance>) -> Self {
        self.importance = Some(importance);
        self
    }
}
