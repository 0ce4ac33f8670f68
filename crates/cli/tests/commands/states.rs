//! The files that a command leaves behind: the old state, the new one, or leftovers of a killed process.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::checkpoint::NAME;
use crate::components;
use crate::folder::Folder;

/// The result of a run: every file in the folder by its path, except inputs and printed output.
pub type State = BTreeMap<String, Vec<u8>>;

/// The standard output and the standard error of a run.
pub const PRINTED: &str = "printed";
pub const ERRORS: &str = "errors";
const INPUTS: [&str; 7] = [NAME, components::NAME, "model.safetensors", "plain.safetensors", "inputs", PRINTED, ERRORS];

/// The state of a folder.
pub fn state(folder: &Folder) -> State {
    fn walk(directory: &Path, prefix: &str, state: &mut State) {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
            let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
            if INPUTS.contains(&name.as_str()) {
                continue;
            }
            match entry.file_type().unwrap().is_dir() {
                true => {
                    state.insert(format!("{name}/"), Vec::new());
                    walk(&entry.path(), &format!("{name}/"), state);
                }
                false => drop(state.insert(name, fs::read(entry.path()).unwrap())),
            }
        }
    }
    let mut found = State::new();
    walk(folder.root(), "", &mut found);
    found
}

/// Restores a state of the folder.
pub fn restore(folder: &Folder, wanted: &State) {
    let found = state(folder);
    if found == *wanted {
        return;
    }
    for name in found.keys() {
        let path = folder.path(name.trim_end_matches('/'));
        let _ = if name.ends_with('/') { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    for (name, bytes) in wanted {
        match name.strip_suffix('/') {
            Some(name) => fs::create_dir_all(folder.path(name)).unwrap(),
            None => fs::write(folder.path(name), bytes).unwrap(),
        }
    }
}

/// The difference of two states, without their bytes.
pub fn difference(found: &State, wanted: &State) -> String {
    let mut differences: Vec<_> =
        found.keys().filter(|name| !wanted.contains_key(*name)).map(|name| format!("{name} is there")).collect();
    for (name, bytes) in wanted {
        match found.get(name) {
            None => differences.push(format!("{name} is missing")),
            Some(other) if other != bytes => differences.push(format!("{name} differs")),
            Some(_) => {}
        }
    }
    differences.join(", ")
}

/// The guarantee of a command that fails or is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The old state or the new one.
    AllOrNothing,
    /// The same of a set of files; finished ones may wait in a folder beside it, from which the same command resumes.
    Set,
    /// Or finished files, from which the same command resumes.
    Resumes,
    /// Standard output cannot be undone.
    Stream,
}

/// Whether a name is that of a staged file or of the folder with these.
pub fn is_staged(name: &str) -> bool {
    name.contains(".anamnesis.new/")
}

/// Whether a name is that of a temporary file, or of a file moved aside.
pub fn is_temporary(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.starts_with('.') && (file.ends_with(".partial") || file.ends_with(".old"))
}

/// A state without temporary files.
pub fn without_temporary(state: &State) -> State {
    state.iter().filter(|(name, _)| !is_temporary(name)).map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

/// Checks the state after a process was killed, and that the next run completes it and removes all leftovers.
#[track_caller]
pub fn assert_survives_kill(folder: &Folder, old: &State, new: &State, line: &str, promise: Promise, what: &str) {
    const MANIFEST: &str = ".anamnesis.json";
    let found = state(folder);
    let mut named = without_temporary(&found);
    if promise == Promise::Set {
        named.retain(|name, _| !is_staged(name));
    }
    if named != *old && named != *new {
        for (name, bytes) in &named {
            let is_manifest = promise == Promise::Resumes && (name.ends_with(MANIFEST) || is_staged(name));
            let is_whole = [old, new].iter().any(|state| state.get(name) == Some(bytes));
            assert!(is_whole || is_manifest, "{what}: {name} is not complete");
        }
        let is_aside = |bytes: &Vec<u8>| found.iter().any(|(name, found)| is_temporary(name) && found == bytes);
        for (name, bytes) in old.iter().filter(|(name, _)| !name.ends_with(MANIFEST)) {
            let is_there = named.get(name).is_some_and(|found| found == bytes || new.get(name) == Some(found));
            assert!(is_there || is_aside(bytes), "{what}: {name} is lost");
        }
        // A set of files is opened by its first, which is moved away first and comes back last.
        let first = new.keys().find(|name| name.contains("-00001-of-"));
        if matches!(promise, Promise::AllOrNothing | Promise::Set) {
            assert!(first.is_some_and(|first| !named.contains_key(first)), "{what}: {}", difference(&named, old));
        }
    }
    let run = folder.amn_within(line);
    if run.code != Some(0) {
        let is_refused = ["exists already", "is not empty", " exists"].iter().any(|reason| run.stderr.contains(reason));
        assert!(is_refused, "{what}: {run:?}");
        folder.amn_within(&format!("{line} --force")).ok();
    }
    let last = state(folder);
    assert!(last == *new, "{what}: after another run, {}", difference(&last, new));
}
