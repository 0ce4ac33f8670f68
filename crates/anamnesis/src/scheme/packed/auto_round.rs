//! How AutoRound packs its weights, by the name it gives the packing.
//!
//! | `packing_format`, in older files `backend` | zero points |
//! |---|---|
//! | with `awq` | AWQ's GEMM layout |
//! | with `gptq` and not `gptqmodel`, or ending in `_zp`; none | less one, as in the first GPTQ format |
//! | `auto_round`, `auto_round:exllamav2` and others, and with `gptqmodel` | as they are |

use crate::error::{AnamnesisError, Result};
use crate::quant_config::{Args, QuantConfig};

/// How a weight of AutoRound is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AutoRoundPacking {
    /// As GPTQ, zero points less one.
    LessOne,
    /// As GPTQ, zero points as they are.
    AsTheyAre,
    /// As AWQ.
    Awq,
}

/// Widths of activations that are not quantised start here.
const PLAIN_ACTIVATION_BITS: f64 = 16.0;

/// The packing of a configuration that AutoRound wrote, by what it says of a module or of all; `None` for any other.
pub(crate) fn auto_round_packing(config: &QuantConfig, args: &Args<'_>) -> Result<Option<AutoRoundPacking>> {
    let packing = args.text(&["packing_format"])?;
    // Only AutoRound names its packings so, whatever method the configuration names, or none.
    let backend = args.text(&["backend"])?.filter(|backend| *backend != "auto");
    let is_its_own = [packing, backend].into_iter().flatten().any(|name| name.starts_with("auto_round"));
    if !is_its_own && !config.method().is_some_and(|method| method.ends_with("auto-round")) {
        return Ok(None);
    }
    if let Some(bits) = args.number(&["act_bits"])?.filter(|&bits| bits < PLAIN_ACTIVATION_BITS) {
        let detail = "weights that are packed together with scales of their activations are not decoded";
        return Err(AnamnesisError::unsupported(format!("AutoRound with act_bits {bits}"), detail));
    }
    let name = packing.or(backend);
    Ok(Some(match name {
        None | Some("auto") => AutoRoundPacking::LessOne,
        Some(name) if name.contains("awq") => AutoRoundPacking::Awq,
        Some(name) if name.ends_with("_zp") => AutoRoundPacking::LessOne,
        Some(name) if name.contains("gptq") && !name.contains("gptqmodel") => AutoRoundPacking::LessOne,
        Some(name) if name.contains("gptqmodel") || name.starts_with("auto") => AutoRoundPacking::AsTheyAre,
        Some(other) => {
            let detail = "AutoRound's packings are named auto_round, or auto_round: and a name; this one is not known";
            return Err(AnamnesisError::unsupported(other, detail));
        }
    }))
}
