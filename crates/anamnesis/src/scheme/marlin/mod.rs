//! Marlin: four bits around zero, in the tiles that one kind of machine multiplies by.
//!
//! | stored by AutoGPTQ | by AutoAWQ | type | shape |
//! |---|---|---|---|
//! | `X.B` | `X.qweight` | I32 | `[in / 16, 2 · out]`: tiles of 16 inputs by 64 outputs, 128 words each |
//! | `X.s` | `X.scales` | F16 | `[groups, out]`, the outputs of a row in an order of their own |
//!
//! `value = (code - 8) * scale`. Scales of several groups are permuted in runs of 64 outputs, those of one group in runs of 32.
//! The sparse form (`B_24`) packs differently and is refused by name.

mod claim;
mod decoder;
mod parts;
mod weight;

pub(crate) use claim::Marlin;
