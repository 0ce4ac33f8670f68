//! Quantising a model: which tensors, by which encoder, with which options.

mod block_options;
mod bnb_options;
mod group_options;
mod importance;
pub(in crate::scheme) mod joined;
pub(in crate::scheme) mod layers;
pub(in crate::scheme) mod linear;
mod quantiser;

pub use block_options::BlockOptions;
pub use bnb_options::BnbOptions;
pub use group_options::{GroupOptions, GroupSize};
pub use importance::{Importance, InputWeights};
pub(crate) use joined::{BY_LLM_COMPRESSOR, BY_MODELOPT, encode_joined};
pub(crate) use layers::{encode, plan_layers};
pub(crate) use linear::{LEAST, SERVED, USUAL, WITHOUT_ROUTERS};
pub(crate) use quantiser::{Candidate, Decision, Encoding, Override, Packing, QuantisedModel, Quantiser, Task};
pub use quantiser::{Keeping, QuantiseOptions};
