//! Quantising a model: which tensors are quantised, by which encoder, with which options.

mod block_options;
mod bnb_options;
pub(in crate::scheme) mod fused;
mod group_options;
mod importance;
pub(in crate::scheme) mod layers;
pub(in crate::scheme) mod linear;
mod quantiser;

pub use block_options::BlockOptions;
pub use bnb_options::BnbOptions;
pub(crate) use fused::{BY_LLM_COMPRESSOR, BY_MODELOPT, encode_fused};
pub use group_options::{GroupOptions, GroupSize};
pub use importance::{Importance, InputWeights};
pub(crate) use layers::{encode, plan_layers};
pub(crate) use linear::{KEPT_ALWAYS, KEPT_BY_BNB, KEPT_BY_DEFAULT, KEPT_FOR_DIFFUSION, KEPT_FOR_SERVING};
pub(crate) use quantiser::{Candidate, Decision, Encoding, Override, Packing, QuantisedModel, Quantiser, Task};
pub use quantiser::{Keeping, QuantiseOptions};
