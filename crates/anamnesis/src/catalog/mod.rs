//! The nouns every room shares: element types, stored tensors, the catalog of a checkpoint.

mod block;
pub(crate) mod dtype;
mod metadata;
mod selection;
mod target;
mod tensors;

pub use block::BlockType;
pub use dtype::Dtype;
pub use metadata::{MetadataArray, MetadataValue};
pub use selection::Selection;
pub(crate) use selection::{Glob, NamePatterns};
pub use target::TargetDtype;
pub use tensors::Facts;
pub(crate) use tensors::{Catalog, Extent, Metadata, Part, StoredTensor, TensorId, Unreadable};
