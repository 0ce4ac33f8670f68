//! Which CPU instructions are used: the best there are, or those of the level that the environment names.

use anamnesis::CpuLevel;

use crate::exit::Failure;

/// Names a level, to tell whether a fault has to do with one.
const VARIABLE: &str = "AMN_CPU";

/// The level that conversions run at.
pub(crate) fn level() -> Result<CpuLevel, Failure> {
    match std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        None => Ok(CpuLevel::detect()),
        Some(name) => {
            let level = name.to_string_lossy().parse();
            level.map_err(|error| Failure::Usage(format!("{VARIABLE}: {error}")))
        }
    }
}
