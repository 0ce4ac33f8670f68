//! The result of a scan, as plain data.

use std::fmt;

/// What was found in a file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ScanReport {
    /// What the file is, in words.
    pub kind: String,
    /// Its pickles, in the order they stand in it.
    pub pickles: Vec<ScannedPickle>,
    /// What is wrong with the file around its pickles.
    pub problems: Vec<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// Why a conversion refuses a file whose pickles are safe: it holds data, and none that is converted.
    pub refusal: Option<String>,
}

/// A pickle and what it refers to.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ScannedPickle {
    /// The entry of the archive; empty where the file is no archive.
    pub name: String,
    /// Where it begins in the file or entry.
    pub offset: u64,
    /// Bytes up to and with its end, or up to where it stops making sense.
    pub bytes: u64,
    /// Every name it refers to, each once, in the order they are reached.
    pub globals: Vec<ScannedGlobal>,
    /// The first thing that is wrong with it.
    pub problem: Option<String>,
    /// Whether it is a part of what a conversion, or PyTorch, loads from the file. Another entry of an archive is not.
    pub loaded: bool,
}

/// A name that a pickle refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScannedGlobal {
    /// The module.
    pub module: String,
    /// The name in it.
    pub name: String,
    /// The first byte of the pickle where it is reached.
    pub position: u64,
    /// How often it is reached.
    pub uses: u64,
    /// Whether a conversion accepts it.
    pub allowed: bool,
    /// What it is known to be.
    pub grade: Grade,
}

/// What a name is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Grade {
    /// Plain data, which a conversion accepts.
    Data,
    /// Nothing is known of it, so that a conversion refuses it.
    Unknown,
    /// It runs commands or code, or gets hold of what does.
    RunsCode,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Unknown => "unknown",
            Self::RunsCode => "runs code",
        })
    }
}

/// The result of a scan in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanVerdict {
    /// There are no pickles.
    HoldsNoCode,
    /// Everything that is referred to is on the list.
    Safe,
    /// Something is referred to that is not.
    RefersToCode,
    /// Something is, but only by pickles that are not [loaded](ScannedPickle::loaded): a conversion does not read them, and
    /// another program may.
    RefersToCodeUnloaded,
    /// Nothing of that kind was found, but not everything could be read.
    Malformed,
}

impl fmt::Display for ScanVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HoldsNoCode => "holds no code",
            Self::Safe => "safe to convert",
            Self::RefersToCode => "refers to code",
            Self::RefersToCodeUnloaded => "refers to code in pickles that are not loaded",
            Self::Malformed => "malformed",
        })
    }
}

impl ScanReport {
    /// All of it in a word.
    #[must_use]
    pub fn verdict(&self) -> ScanVerdict {
        let has_problem = !self.problems.is_empty() || self.pickles.iter().any(|pickle| pickle.problem.is_some());
        if self.refused().any(|(pickle, _)| pickle.loaded) {
            ScanVerdict::RefersToCode
        } else if self.refused().next().is_some() {
            ScanVerdict::RefersToCodeUnloaded
        } else if has_problem {
            ScanVerdict::Malformed
        } else if self.pickles.is_empty() {
            ScanVerdict::HoldsNoCode
        } else {
            ScanVerdict::Safe
        }
    }

    /// Whether there is nothing to fear.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        matches!(self.verdict(), ScanVerdict::HoldsNoCode | ScanVerdict::Safe)
    }

    /// The names that a conversion does not accept, with their pickles.
    pub fn refused(&self) -> impl Iterator<Item = (&ScannedPickle, &ScannedGlobal)> {
        let all = self.pickles.iter().flat_map(|pickle| pickle.globals.iter().map(move |global| (pickle, global)));
        all.filter(|(_, global)| !global.allowed)
    }
}
