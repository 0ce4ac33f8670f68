//! One output tensor on its way into a plan, before the quantiser has decided.

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
    /// Whether it is stored beside a weight that counts for both.
    pub is_companion: bool,
}

pub(super) enum Content {
    /// Bytes that can only be copied.
    Bytes(TensorId),
    /// Codes and scales in another order: what they become.
    Repacked(OutputTensor, Values),
    /// Values of a type of blocks that is not up to the quantiser.
    Encoded(Values, Box<dyn TileEncoder>, Checks),
    Values(Stored),
}

/// Values as they are stored.
pub(super) struct Stored {
    pub decoder: Arc<dyn TileDecoder>,
    pub parts: Vec<Extent>,
    pub sources: Vec<TensorId>,
    pub origin: Origin,
    /// What the values are stored as, or decoded to.
    pub dtype: TargetDtype,
    /// What they are rounded to before they are quantised, where they are.
    pub encoded_from: TargetDtype,
    /// Whether they become another type.
    pub is_cast: bool,
    /// Whether they are blocks under a scale that is stored beside them.
    pub is_folded: bool,
    /// The tensor to copy where the values need no change.
    pub copied: Option<TensorId>,
    /// The tensor to copy where its blocks are what the values shall be.
    pub block: Option<TensorId>,
}

impl Stored {
    /// The file of its first byte, and where it is in that.
    pub(super) fn place(&self) -> Option<(u32, u64)> {
        self.parts.first().map(|extent| (extent.file, extent.offset))
    }
}
