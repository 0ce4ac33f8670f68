//! A watcher that records all globals.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::grade::grade;
use super::report::{ScannedGlobal, ScannedLanguage, ScannedPickle};
use crate::container::pth::is_allowed;
use crate::container::pth::pickle::caps::MAX_PICKLE_WORKING_SET;
use crate::container::pth::pickle::{self, Watcher};
use crate::error::{AnamnesisError, Result, printable};
use crate::limits::{Budget, ParseLimits};

/// Maximum number of distinct globals of one pickle.
const MAX_NAMES: usize = 10_000;
/// Maximum characters of a name in a report.
const MAX_NAME_CHARS: usize = 1024;

/// Maximum bytes of all names in a report.
const MAX_REPORT_BYTES: usize = 8 << 20;

/// Scans the pickles of one file.
pub(super) struct PickleScanner {
    /// Bytes of names left for the report.
    left: usize,
    limits: ParseLimits,
}

struct Recorder<'w> {
    scanner: &'w mut PickleScanner,
    script: bool,
    globals: Vec<ScannedGlobal>,
    /// Indices of globals by hash.
    seen: HashMap<u64, Vec<u32>>,
    hasher: RandomState,
    problem: Option<String>,
}

impl Watcher for Recorder<'_> {
    fn global(&mut self, module: &str, name: &str, position: usize) -> Result<()> {
        let (allowed, grade) = (is_allowed(module, name, self.script), grade(module, name, self.script));
        // A pickle can repeat a long text in many names.
        let (module, name) = (printable(module, MAX_NAME_CHARS), printable(name, MAX_NAME_CHARS));
        let alike = self.seen.entry(self.hasher.hash_one((&module, &name, allowed))).or_default();
        let is_it = |known: &ScannedGlobal| known.module == module && known.name == name && known.allowed == allowed;
        if let Some(&index) = alike.iter().find(|&&index| is_it(&self.globals[index as usize])) {
            self.globals[index as usize].uses += 1;
            return Ok(());
        }
        if self.globals.len() == MAX_NAMES {
            return Err(AnamnesisError::limit("scan", format!("the pickle refers to more than {MAX_NAMES} names")));
        }
        let left = self.scanner.left.checked_sub(module.len() + name.len());
        self.scanner.left = left.ok_or_else(|| {
            AnamnesisError::limit("scan", format!("the names take more than {MAX_REPORT_BYTES} bytes"))
        })?;
        alike.push(self.globals.len() as u32);
        self.globals.push(ScannedGlobal { module, name, position: position as u64, uses: 1, allowed, grade });
        Ok(())
    }

    fn malformed(&mut self, error: AnamnesisError) -> Result<()> {
        self.problem.get_or_insert_with(|| error.to_string());
        Ok(())
    }
}

impl PickleScanner {
    pub(super) fn new(limits: &ParseLimits) -> Self {
        Self { left: MAX_REPORT_BYTES, limits: limits.clone() }
    }

    /// Scans the pickle at the start of `bytes`. `script` means that it belongs to a TorchScript archive.
    pub(super) fn pickle(&mut self, bytes: &[u8], name: &str, offset: u64, script: bool) -> ScannedPickle {
        self.pickle_within(bytes, MAX_PICKLE_WORKING_SET, name, offset, script)
    }

    /// [`pickle`](Self::pickle) with a memory limit for its values.
    pub(super) fn pickle_within(
        &mut self,
        bytes: &[u8],
        max_value_bytes: u64,
        name: &str,
        offset: u64,
        script: bool,
    ) -> ScannedPickle {
        let mut budget = Budget::new(&self.limits);
        let (globals, seen, hasher) = (Vec::new(), HashMap::new(), RandomState::new());
        let mut recorder = Recorder { scanner: self, script, globals, seen, hasher, problem: None };
        let taken = match pickle::read_within(bytes, max_value_bytes, &mut recorder, &mut budget) {
            Ok(pickle) => pickle.bytes,
            Err(error) => {
                recorder.problem.get_or_insert_with(|| error.to_string());
                bytes.len()
            }
        };
        ScannedPickle {
            language: ScannedLanguage::Pickle,
            name: name.to_owned(),
            offset,
            bytes: taken as u64,
            globals: recorder.globals,
            problem: recorder.problem,
            loaded: true,
        }
    }
}
