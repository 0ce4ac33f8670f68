//! The result of a scan, as plain data.

use std::fmt;

/// The result of scanning a file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ScanReport {
    /// The kind of file.
    pub kind: String,
    /// Its pickles, in file order, and the descriptions of models and graphs that refer to code.
    pub pickles: Vec<ScannedPickle>,
    /// Problems of the file other than its pickles.
    pub problems: Vec<String>,
    /// Notes.
    pub notes: Vec<String>,
    /// Why a conversion refuses a file with safe pickles, for example because it contains no tensors.
    pub refusal: Option<String>,
}

/// The language of a program in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScannedLanguage {
    /// A pickle.
    #[default]
    Pickle,
    /// The description of a Keras model, whose names are classes and functions.
    KerasModel,
    /// A TensorFlow graph, whose names are operations.
    TensorFlowGraph,
}

impl fmt::Display for ScannedLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pickle => "pickle",
            Self::KerasModel => "Keras model",
            Self::TensorFlowGraph => "TensorFlow graph",
        })
    }
}

/// A pickle and its globals, or another program and the names it refers to.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ScannedPickle {
    /// Its language.
    pub language: ScannedLanguage,
    /// The archive entry; empty if the file is not an archive.
    pub name: String,
    /// Its offset in the file or entry.
    pub offset: u64,
    /// Its length, or that of its well-formed part.
    pub bytes: u64,
    /// Its globals without duplicates, in order of first use.
    pub globals: Vec<ScannedGlobal>,
    /// The first problem.
    pub problem: Option<String>,
    /// Whether a conversion, or PyTorch, loads it. Unrelated entries of an archive are not loaded.
    pub loaded: bool,
}

/// A global of a pickle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScannedGlobal {
    /// The module.
    pub module: String,
    /// The name in it.
    pub name: String,
    /// The offset of its first use in the pickle.
    pub position: u64,
    /// The number of uses.
    pub uses: u64,
    /// Whether a conversion accepts it.
    pub allowed: bool,
    /// Its grade.
    pub grade: Grade,
}

/// The effect of a global.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Grade {
    /// Plain data, accepted by a conversion.
    Data,
    /// Unknown, and therefore refused by a conversion.
    Unknown,
    /// Runs commands or code, or gives access to it.
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

/// The verdict of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScanVerdict {
    /// There are no pickles, and nothing else refers to code.
    HoldsNoCode,
    /// All globals are on the allow list.
    Safe,
    /// Some global is not on the allow list.
    RefersToCode,
    /// Some global is not on the allow list, but only in pickles, models or graphs that are not
    /// [loaded](ScannedPickle::loaded): a conversion does not read them, another program may.
    RefersToCodeUnloaded,
    /// No such global was found, but some pickle could not be parsed.
    Malformed,
}

impl fmt::Display for ScanVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HoldsNoCode => "holds no code",
            Self::Safe => "safe to convert",
            Self::RefersToCode => "refers to code",
            Self::RefersToCodeUnloaded => "refers to code that is not loaded",
            Self::Malformed => "malformed",
        })
    }
}

impl ScanReport {
    /// The verdict.
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

    /// Whether the verdict is safe.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        matches!(self.verdict(), ScanVerdict::HoldsNoCode | ScanVerdict::Safe)
    }

    /// The globals that a conversion refuses, with their pickles.
    pub fn refused(&self) -> impl Iterator<Item = (&ScannedPickle, &ScannedGlobal)> {
        let all = self.pickles.iter().flat_map(|pickle| pickle.globals.iter().map(move |global| (pickle, global)));
        all.filter(|(_, global)| !global.allowed)
    }
}
