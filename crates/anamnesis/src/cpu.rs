//! Which CPU instructions decode and encode: a value that can only be had where the CPU has them.

use std::fmt;
use std::str::FromStr;

use anamnesis_kernels::Level;

use crate::error::{AnamnesisError, Request, Result};

/// A set of CPU instructions that this machine has. Every level gives the same bits; better ones give them sooner.
///
/// | name | where | instructions |
/// |---|---|---|
/// | `portable` | everywhere | those that every CPU of the target has |
/// | `v3` | x86-64 | AVX2, F16C, FMA, BMI1, BMI2, LZCNT, MOVBE, POPCNT |
/// | `v4` | x86-64 | `v3` and AVX-512 F, BW, CD, DQ, VL |
///
/// ```
/// use anamnesis::{CpuLevel, RememberOptions};
/// let portable: CpuLevel = "portable".parse()?;
/// assert_eq!(RememberOptions::new().with_cpu_level(portable).cpu, Some(portable));
/// assert_eq!(CpuLevel::available().next(), Some(portable));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CpuLevel(Level);

impl CpuLevel {
    /// The best level of this CPU.
    #[must_use]
    pub fn detect() -> Self {
        Self(Level::detect())
    }

    /// All levels of this CPU, `portable` first and the best last.
    pub fn available() -> impl Iterator<Item = Self> {
        Level::available().map(Self)
    }

    /// The level of this CPU that has this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::available().find(|level| level.name() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// The same for kernels.
    pub(crate) const fn level(self) -> Level {
        self.0
    }
}

/// The best level of this CPU.
impl Default for CpuLevel {
    fn default() -> Self {
        Self::detect()
    }
}

impl fmt::Display for CpuLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What levels are levels of, in errors.
const WHAT: &str = "CPU level";

impl FromStr for CpuLevel {
    type Err = AnamnesisError;

    /// The level of this name.
    ///
    /// # Errors
    /// `Request`: `UnknownName` where no level has the name, `Unavailable` where this CPU does not have the level.
    fn from_str(name: &str) -> Result<Self> {
        Self::named(name).ok_or_else(|| {
            let (what, name) = (WHAT, name.to_owned());
            let available = Self::available().map(|level| level.name().to_owned()).collect();
            let request = match Level::NAMES.contains(&&*name) {
                true => Request::Unavailable { what, name, available },
                false => Request::UnknownName { what, name, known: available },
            };
            request.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_had_by_its_name() {
        for level in CpuLevel::available() {
            assert_eq!(level.name().parse::<CpuLevel>().unwrap(), level);
        }
        assert_eq!(CpuLevel::available().last(), Some(CpuLevel::detect()));
    }

    #[test]
    fn a_name_that_means_nothing_is_another_fault_than_a_level_that_is_not_there() {
        let names: Vec<_> = CpuLevel::available().map(CpuLevel::name).collect();
        let refused = |name: &str| name.parse::<CpuLevel>().unwrap_err();
        assert_eq!(refused("v9").to_string(), format!("\"v9\" is no CPU level; there are {}", names.join(", ")));
        for missing in Level::NAMES.into_iter().filter(|name| !names.contains(name)) {
            assert!(matches!(refused(missing), AnamnesisError::Request(Request::Unavailable { .. })), "{missing}");
        }
        assert!(matches!(refused("V3"), AnamnesisError::Request(Request::UnknownName { what: WHAT, .. })));
    }
}
