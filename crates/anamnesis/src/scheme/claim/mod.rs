//! Claiming: which stored tensors are a weight with its companions, which are plain data, and which are refused.

mod claims;
mod companions;
mod leftover;
pub(in crate::scheme) mod leftover_check;
mod model_sizes;
mod part_name;
pub(in crate::scheme) mod refused_layouts;
pub(in crate::scheme) mod refused_methods;
mod role;
mod scheme;

pub(crate) use claims::{Blocks, Claimed, Claims, Weight};
pub use leftover::Leftover;
pub(in crate::scheme) use model_sizes::ModelSizes;
pub(crate) use part_name::{Confidence, PartName};
pub(crate) use role::ClaimedTensor;
pub use role::{QuantScheme, TensorRole};
pub(crate) use scheme::{About, Scheme};
