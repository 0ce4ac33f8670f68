//! A watcher that lets everything pass and notes it.

use std::collections::HashMap;

use super::grade::grade;
use super::report::{ScannedGlobal, ScannedPickle};
use crate::container::pth::is_allowed;
use crate::container::pth::pickle::{self, Watcher};
use crate::error::{AnamnesisError, Result, printable};
use crate::limits::{Budget, ParseLimits};

/// Different names that one pickle may refer to.
const MAX_NAMES: usize = 10_000;
/// Longest part of a name in a report, in characters.
const MAX_NAME_CHARS: usize = 1024;

struct Recorder {
    script: bool,
    globals: Vec<ScannedGlobal>,
    /// Names as the report has them: a pickle can have one long text in many names.
    seen: HashMap<(String, String, bool), usize>,
    problem: Option<String>,
}

impl Watcher for Recorder {
    fn global(&mut self, module: &str, name: &str, position: usize) -> Result<()> {
        let (allowed, grade) = (is_allowed(module, name, self.script), grade(module, name, self.script));
        let (module, name) = (printable(module, MAX_NAME_CHARS), printable(name, MAX_NAME_CHARS));
        let key = (module, name, allowed);
        if let Some(&index) = self.seen.get(&key) {
            self.globals[index].uses += 1;
            return Ok(());
        }
        if self.globals.len() == MAX_NAMES {
            return Err(AnamnesisError::limit("scan", format!("the pickle refers to more than {MAX_NAMES} names")));
        }
        let (module, name) = (key.0.clone(), key.1.clone());
        self.seen.insert(key, self.globals.len());
        self.globals.push(ScannedGlobal { module, name, position: position as u64, uses: 1, allowed, grade });
        Ok(())
    }

    fn nonsense(&mut self, error: AnamnesisError) -> Result<()> {
        self.problem.get_or_insert_with(|| error.to_string());
        Ok(())
    }
}

/// Runs the pickle at the start of `bytes`. `script` says that it is one of a TorchScript archive.
pub(super) fn watch(bytes: &[u8], name: &str, offset: u64, script: bool) -> ScannedPickle {
    let mut recorder = Recorder { script, globals: Vec::new(), seen: HashMap::new(), problem: None };
    let mut budget = Budget::new(&ParseLimits::unbounded());
    let taken = match pickle::read(bytes, &mut recorder, &mut budget) {
        Ok(pickle) => pickle.bytes,
        Err(error) => {
            recorder.problem.get_or_insert_with(|| error.to_string());
            bytes.len()
        }
    };
    ScannedPickle {
        name: name.to_owned(),
        offset,
        bytes: taken as u64,
        globals: recorder.globals,
        problem: recorder.problem,
        loaded: true,
    }
}
