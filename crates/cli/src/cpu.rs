//! The CPU level: the best available, or the one that the environment selects.

use anamnesis::CpuLevel;

use crate::exit::Failure;

/// Selects a level, for example to diagnose a fault of one.
const VARIABLE: &str = "AMN_CPU";

/// The level that the environment selects.
pub(crate) fn from_environment() -> Result<Option<CpuLevel>, Failure> {
    let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let level = name.map(|name| name.to_string_lossy().parse()).transpose();
    level.map_err(|error| Failure::Usage(format!("{VARIABLE}: {error}")))
}
