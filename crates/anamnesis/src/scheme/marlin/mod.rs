//! Marlin: symmetric 4-bit weights, stored in the tile order of the Marlin GPU kernel.
//!
//! | stored by AutoGPTQ | by AutoAWQ | type | shape |
//! |---|---|---|---|
//! | `X.B` | `X.qweight` | I32 | `[in / 16, 2 · out]`: tiles of 16 inputs by 64 outputs, 128 words each |
//! | `X.s` | `X.scales` | F16 | `[groups, out]`, the outputs of each row permuted |
//!
//! `value = (code - 8) * scale`. Scales of several groups are permuted in runs of 64 outputs, those of one group in
//! runs of 32. The 2:4-sparse form (`B_24`) packs differently and is refused by name.

mod claim;
mod decoder;
mod parts;
mod weight;

pub(crate) use claim::Marlin;
