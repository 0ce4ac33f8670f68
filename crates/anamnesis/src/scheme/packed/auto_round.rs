//! The packings of AutoRound, by their names.
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
    /// Like the first GPTQ format: zero points are stored less one.
    GptqV1,
    /// Like `gptq_v2`: zero points are stored as they are.
    GptqV2,
    /// Like AWQ's GEMM layout.
    Awq,
}

/// Activations of this many bits or more are not quantised.
const PLAIN_ACTIVATION_BITS: f64 = 16.0;

/// The packing in a configuration that AutoRound wrote, from the arguments of a module or of all; `None` for other
/// tools.
pub(crate) fn auto_round_packing(config: &QuantConfig, args: &Args<'_>) -> Result<Option<AutoRoundPacking>> {
    let packing = args.text(&["packing_format"])?;
    // Only AutoRound writes these names, whichever method the configuration names.
    let backend = args.text(&["backend"])?.filter(|backend| *backend != "auto");
    let is_named = [packing, backend].into_iter().flatten().any(|name| name.starts_with("auto_round"));
    if !is_named && !config.method().is_some_and(|method| method.ends_with("auto-round")) {
        return Ok(None);
    }
    if let Some(bits) = args.number(&["act_bits"])?.filter(|&bits| bits < PLAIN_ACTIVATION_BITS) {
        let detail = "weights with quantised activations are packed differently and are not decoded";
        return Err(AnamnesisError::unsupported(format!("AutoRound with act_bits {bits}"), detail));
    }
    let name = packing.or(backend);
    Ok(Some(match name {
        None | Some("auto") => AutoRoundPacking::GptqV1,
        Some(name) if name.contains("awq") => AutoRoundPacking::Awq,
        Some(name) if name.ends_with("_zp") => AutoRoundPacking::GptqV1,
        Some(name) if name.contains("gptq") && !name.contains("gptqmodel") => AutoRoundPacking::GptqV1,
        Some(name) if name.contains("gptqmodel") || name.starts_with("auto") => AutoRoundPacking::GptqV2,
        Some(other) => {
            let detail = "AutoRound's packings are named auto_round, or auto_round: and a name; this one is not known";
            return Err(AnamnesisError::unsupported(other, detail));
        }
    }))
}
