//! Claiming: which stored tensors are a weight with its companions, which are plain data, and which are refused.

mod claims;
pub(in crate::scheme) mod foreign;
mod leftover;
pub(in crate::scheme) mod methods;
mod part_name;
mod role;
mod scheme;
pub(in crate::scheme) mod suspicion;

pub(crate) use claims::{Blocks, Claimed, Claims, Weight};
pub use leftover::Leftover;
pub(crate) use part_name::{Confidence, PartName};
pub(crate) use role::ClaimedTensor;
pub use role::{QuantScheme, TensorRole};
pub(crate) use scheme::{About, Scheme};
