//! GPTQ: codes of 2 to 8 bits with a scale and a zero point for each output and group of inputs.
//!
//! | tensor | type | shape |
//! |---|---|---|
//! | `X.qweight` | I32 | `[in·bits/32, out]` |
//! | `X.qzeros` | I32 | `[groups, out·bits/32]` |
//! | `X.scales` | F16, BF16, F32 | `[groups, out]` |
//! | `X.g_idx` | I32, may be missing | `[in]` |
//!
//! The first format (`gptq`) stores zero points less one, `gptq_v2` as they are; AutoRound uses either, depending on
//! the name of its packing. If nothing names the format, it is derived from the zero points of symmetric weights; other
//! weights are refused. Codes of 3 bits may span two words. The method `gptq_marlin` has this layout too: its library
//! repacks weights while loading. Weights that are stored repacked are decoded by [`marlin`](super::marlin). BitBLAS
//! and QQQ pack differently and are refused by name.

mod claim;
mod description;
#[cfg(feature = "encode")]
mod quantiser;
mod weight;

pub(crate) use claim::Gptq;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;
