//! CPU levels: instruction sets for decoding and encoding, constructible only if the CPU has them.

use std::fmt;
use std::str::FromStr;

use anamnesis_kernels::Level;

use crate::error::{AnamnesisError, Request, Result};

/// An instruction set of this CPU. All levels give the same bits; higher ones are faster.
///
/// | name | where | instructions |
/// |---|---|---|
/// | `portable` | everywhere | the baseline of the target |
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

    /// The level of this CPU with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::available().find(|level| level.name() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name()
    }

    /// The level for kernels.
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

/// The noun for levels in errors.
const WHAT: &str = "CPU level";

impl FromStr for CpuLevel {
    type Err = AnamnesisError;

    /// The level with this name.
    ///
    /// # Errors
    /// `Request`: `UnknownName` if there is no such level, `Unavailable` if this CPU lacks it.
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
    fn a_level_is_found_by_its_name() {
        for level in CpuLevel::available() {
            assert_eq!(level.name().parse::<CpuLevel>().unwrap(), level);
        }
        assert_eq!(CpuLevel::available().last(), Some(CpuLevel::detect()));
    }

    #[test]
    fn an_unknown_name_and_an_unavailable_level_are_different_errors() {
        let names: Vec<_> = CpuLevel::available().map(CpuLevel::name).collect();
        let refused = |name: &str| name.parse::<CpuLevel>().unwrap_err();
        assert_eq!(
            refused("v9").to_string(),
            format!("\"v9\" is not a known CPU level; known are {}", names.join(", "))
        );
        for missing in Level::NAMES.into_iter().filter(|name| !names.contains(name)) {
            assert!(matches!(refused(missing), AnamnesisError::Request(Request::Unavailable { .. })), "{missing}");
        }
        assert!(matches!(refused("V3"), AnamnesisError::Request(Request::UnknownName { what: WHAT, .. })));
    }
}
