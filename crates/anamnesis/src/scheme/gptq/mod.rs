//! GPTQ: 2, 3, 4 or 8 bits with a scale and a zero point per group of inputs and output.
//!
//! | tensor | type | shape |
//! |---|---|---|
//! | `X.qweight` | I32 | `[in·bits/32, out]` |
//! | `X.qzeros` | I32 | `[groups, out·bits/32]` |
//! | `X.scales` | F16, BF16, F32 | `[groups, out]` |
//! | `X.g_idx` | I32, may be missing | `[in]` |
//!
//! The first format stores zero points less one, `gptq_v2` as they are; AutoRound does either, by the name of its packing.
//! Where nothing says which, symmetric weights tell it by their values and others are refused. Fields of 3 bits straddle
//! words. A method `gptq_marlin` means this layout, which a kernel packs anew; what is stored as the kernel has it is `marlin`'s.
//! BitBLAS and QQQ pack differently and are refused by name.

mod claim;
mod evidence;
mod quantiser;
mod weight;

pub(crate) use claim::Gptq;
pub(crate) use quantiser::ENCODINGS;
