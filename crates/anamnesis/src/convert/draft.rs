//! A draft: an output tensor before the quantiser has decided about it.

use std::sync::Arc;

use crate::catalog::{Extent, TargetDtype, TensorId};
use crate::container::OutputTensor;
use crate::pipeline::{Checks, Origin, Values};
use crate::scheme::{TileDecoder, TileEncoder};

/// An output tensor before it is decided whether it is quantised.
pub(super) struct Draft {
    pub name: String,
    pub output_name: String,
    pub shape: Vec<usize>,
    pub content: Content,
    /// Whether it is a companion of a weight, and not counted by itself.
    pub is_companion: bool,
}

pub(super) enum Content {
    /// Data without numeric values: copied.
    Bytes(TensorId),
    /// Codes and scales in another order, and the output tensor they become.
    Repacked(OutputTensor, Values),
    /// Values encoded to ggml blocks independently of the quantiser.
    Encoded(Values, Box<dyn TileEncoder>, Checks),
    Values(DraftValues),
}

/// The numeric values of a tensor.
pub(super) struct DraftValues {
    pub decoder: Arc<dyn TileDecoder>,
    pub parts: Vec<Extent>,
    pub sources: Vec<TensorId>,
    pub origin: Origin,
    /// The type that the values are stored as, or decoded to.
    pub dtype: TargetDtype,
    /// The type that the values are rounded to before they are quantised.
    pub encoded_from: TargetDtype,
    /// Whether the values are cast to another type.
    pub is_cast: bool,
    /// Whether the values are blocks with a global scale stored in a separate tensor.
    pub is_folded: bool,
    /// The stored tensor to copy if the values keep their type.
    pub copied: Option<TensorId>,
    /// The stored tensor to copy if its blocks already have the target type.
    pub block: Option<TensorId>,
}

impl DraftValues {
    /// The file of its first source byte and the offset in that file.
    pub(super) fn place(&self) -> Option<(u32, u64)> {
        self.parts.first().map(|extent| (extent.file, extent.offset))
    }
}
