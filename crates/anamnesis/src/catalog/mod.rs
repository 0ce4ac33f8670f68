//! Types that all modules share: dtypes, stored tensors, the catalog of a checkpoint.

mod block;
pub(crate) mod dtype;
mod facts;
mod metadata;
mod operations;
mod selection;
mod target;
mod tensors;

pub use block::BlockType;
pub use dtype::Dtype;
pub use facts::{Fact, Facts, Note, Subject};
pub use metadata::{MetadataArray, MetadataValue};
pub(crate) use operations::{Operand, Operation};
pub use selection::Selection;
pub(crate) use selection::{Glob, NamePatterns, expression};
pub use target::{Rounding, TargetDtype};
pub(crate) use tensors::{Catalog, Extent, Metadata, ScaledCodes, SplitPart, StoredTensor, TensorId, Unreadable};
