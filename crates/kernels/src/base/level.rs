//! CPU levels: which instructions a kernel may use, decided once at run time.
//!
//! | level | where | instructions |
//! |---|---|---|
//! | portable | everywhere | the target's baseline (SSE2 on x86-64, NEON on AArch64) |
//! | v3 | x86-64 | AVX2, F16C, FMA, BMI1, BMI2, LZCNT, MOVBE, POPCNT |
//! | v4 | x86-64 | v3 and AVX-512 F, BW, CD, DQ, VL |
//!
//! A debug build without the feature `levels` has the portable level alone.
//!
//! A [`Level`] is created only here, after CPU detection. Holding one is therefore the proof that the instructions
//! exist, which every dispatched call relies on.

use std::fmt;
use std::sync::OnceLock;

use crate::base::simd::Portable;
#[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
use crate::base::simd::{V3, V4};

/// A set of CPU instructions that this machine has.
///
/// ```
/// use anamnesis_kernels::Level;
///
/// assert_eq!(Level::portable().to_string(), "portable");
/// assert!(Level::available().any(|level| level == Level::detect()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Level(pub(crate) Kind);

/// The level with the token that proves it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Portable(Portable),
    #[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
    V3(V3),
    #[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
    V4(V4),
}

impl Level {
    /// The names of all levels, on any CPU.
    pub const NAMES: [&'static str; 3] = ["portable", "v3", "v4"];

    /// The best level of this CPU, detected once.
    pub fn detect() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().unwrap_or(Self::portable()))
    }

    /// The level that every CPU of this target has.
    pub const fn portable() -> Self {
        Self(Kind::Portable(Portable))
    }

    /// All levels this CPU can run, portable first, best last.
    pub fn available() -> impl Iterator<Item = Self> {
        #[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
        let detected = [V3::detect().map(Kind::V3), V4::detect().map(Kind::V4)];
        #[cfg(not(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions)))))]
        let detected: [Option<Kind>; 0] = [];
        std::iter::once(Self::portable()).chain(detected.into_iter().flatten().map(Self))
    }

    /// Its name, one of [`NAMES`](Self::NAMES).
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable(_) => "portable",
            #[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
            Kind::V3(_) => "v3",
            #[cfg(all(target_arch = "x86_64", any(feature = "levels", not(debug_assertions))))]
            Kind::V4(_) => "v4",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_portable_first_and_best_last() {
        let all: Vec<_> = Level::available().collect();
        assert_eq!(all.first(), Some(&Level::portable()));
        assert_eq!(all.last(), Some(&Level::detect()));
    }

    #[test]
    fn names_are_distinct_and_known_in_the_order_of_levels() {
        let names: Vec<_> = Level::available().map(Level::name).collect();
        assert_eq!(names, Level::NAMES[..names.len()]);
    }
}
