//! Which CPU instructions are used: the best there are, or those of the level that the environment names.

use anamnesis::CpuLevel;

use crate::exit::Failure;

/// Names a level, to tell whether a fault has to do with one.
const VARIABLE: &str = "AMN_CPU";

/// The level that the environment names.
pub(crate) fn named() -> Result<Option<CpuLevel>, Failure> {
    let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let level = name.map(|name| name.to_string_lossy().parse()).transpose();
    level.map_err(|error| Failure::Usage(format!("{VARIABLE}: {error}")))
}
