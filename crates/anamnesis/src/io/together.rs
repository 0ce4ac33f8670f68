//! Files that get their names together: all of them, or none.
//!
//! Old files of these names are moved aside first, as `.NAME.xxxxxx.old`, the one that loaders are given before the others;
//! the new ones then get their names, that one last. A process that is killed in between leaves a set whose first file is
//! missing, which nobody takes for a model, and never one that is mixed of both. Where something fails, everything goes back to
//! where it was.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::output::{CompleteFile, Existing};
use super::temporary::{Lock, builder, directory_of, is_temporary, lock, prefix};
use crate::error::{AnamnesisError, Result};

/// The ending of files that were moved aside.
const OLD: &str = ".old";

/// How long another process may take to give its files their names.
const LOCK_TRIES: usize = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Gives files their names; loaders are given the first.
pub(crate) fn appear_together(files: Vec<CompleteFile>) -> Result<()> {
    if files.len() < 2 {
        return files.into_iter().try_for_each(CompleteFile::appear);
    }
    let Some(directory) = files.first().map(|first| directory_of(first.target()).to_path_buf()) else { return Ok(()) };
    let mut change = Change::begin(&directory);
    let targets: Vec<_> = files.iter().map(|file| (file.target().to_path_buf(), file.existing())).collect();
    let change_all = |change: &mut Change| -> Result<()> {
        for (target, existing) in &targets {
            if *existing == Existing::Replace {
                change.set_aside(target)?;
            }
        }
        files.into_iter().rev().try_for_each(|file| change.appear(file))
    };
    match change_all(&mut change) {
        Ok(()) => {
            change.keep();
            Ok(())
        }
        Err(error) => Err(change.undo(error)),
    }
}

/// A change of several files that can be undone until it is kept.
#[derive(Debug)]
pub(crate) struct Change {
    /// What keeps other processes out of the directory's names meanwhile, where that can be had.
    lock: Option<File>,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// An old file was moved.
    Aside { from: PathBuf, to: PathBuf },
    /// A new file has got this name, which was free.
    Appeared(PathBuf),
    /// A file was moved to a name that was free.
    Moved { from: PathBuf, to: PathBuf },
}

impl Change {
    /// Begins a change in `directory`.
    pub(crate) fn begin(directory: &Path) -> Self {
        let mut held = None;
        if let Ok(file) = File::open(directory) {
            for _ in 0..LOCK_TRIES {
                match lock(&file) {
                    Lock::Ours => held = Some(file),
                    Lock::Unknown => {}
                    Lock::Others => {
                        std::thread::sleep(LOCK_PAUSE);
                        continue;
                    }
                }
                break;
            }
        }
        Self { lock: held, steps: Vec::new() }
    }

    /// Moves what has this name out of the way, if anything has.
    pub(crate) fn set_aside(&mut self, path: &Path) -> Result<()> {
        let at = |error| AnamnesisError::at_path(error, path);
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(at(error)),
            Ok(_) => {}
        }
        let prefix = prefix(&path.file_name().unwrap_or_default().to_string_lossy());
        let aside = builder(&prefix, OLD).make_in(directory_of(path), |aside| match aside.symlink_metadata() {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => std::fs::rename(path, aside),
        });
        let to = aside.map_err(at)?.into_temp_path();
        let to = to.keep().map_err(|error| at(error.error))?;
        self.steps.push(Step::Aside { from: path.to_path_buf(), to });
        Ok(())
    }

    /// Gives a file its name, which is free by now.
    pub(crate) fn appear(&mut self, file: CompleteFile) -> Result<()> {
        let target = file.target().to_path_buf();
        file.appear_anew()?;
        self.steps.push(Step::Appeared(target));
        Ok(())
    }

    /// Moves a file to a name that is free by now.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(|error| AnamnesisError::at_path(error, to))?;
        self.steps.push(Step::Moved { from: from.to_path_buf(), to: to.to_path_buf() });
        Ok(())
    }

    /// Ends the change: what was moved aside goes, and so does what a killed process had moved aside before.
    pub(crate) fn keep(self) {
        for step in &self.steps {
            match step {
                // Left where it cannot be removed: the new files are all there.
                Step::Aside { from, to } => {
                    remove_again(to);
                    if self.lock.is_some() {
                        remove_old_forms(from);
                    }
                }
                Step::Appeared(_) | Step::Moved { .. } => {}
            }
        }
    }

    /// Takes every step back, the last first, and says in the error what could not be.
    pub(crate) fn undo(self, error: AnamnesisError) -> AnamnesisError {
        let mut stuck = Vec::new();
        for step in self.steps.into_iter().rev() {
            let (undone, place) = match step {
                Step::Aside { from, to } => (again(|| std::fs::rename(&to, &from)), to),
                Step::Moved { from, to } => (again(|| std::fs::rename(&to, &from)), to),
                Step::Appeared(path) => (again(|| std::fs::remove_file(&path)), path),
            };
            if undone.is_err() {
                stuck.push(place.display().to_string());
            }
        }
        if stuck.is_empty() {
            return error;
        }
        let text = format!("{error}; what was there before could not be restored, see {}", stuck.join(", "));
        AnamnesisError::Io(std::io::Error::other(text))
    }
}

fn remove_again(path: &Path) {
    let _ = again(|| std::fs::remove_file(path));
}

/// Does what is tried more than once before it is given up.
pub(crate) fn again(work: impl Fn() -> std::io::Result<()>) -> std::io::Result<()> {
    work().or_else(|_| work())
}

/// Removes what killed processes moved aside of this file and never got to remove.
fn remove_old_forms(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for entry in std::fs::read_dir(directory_of(path)).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|found| is_temporary(found, &name, OLD)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::output::PendingFile;

    fn complete(path: &Path, text: &str, existing: Existing) -> CompleteFile {
        let file = PendingFile::create(path, existing, text.len() as u64).unwrap();
        file.write_at(0, text.as_bytes()).unwrap();
        file.complete().unwrap().unwrap()
    }

    fn contents(directory: &Path) -> Vec<(String, String)> {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        let mut found: Vec<_> = entries
            .filter(|entry| entry.path().is_file())
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()))
            .collect();
        found.sort();
        found
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn several_files_replace_old_ones_together() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["1", "2", "3"].map(|name| directory.path().join(name));
        std::fs::write(&paths[0], "old 1").unwrap();
        std::fs::write(&paths[2], "old 3").unwrap();
        std::fs::write(directory.path().join(".1.gone00.old"), "older").unwrap();
        appear_together(paths.iter().map(|path| complete(path, "new", Existing::Replace)).collect()).unwrap();
        assert_eq!(contents(directory.path()), pairs(&[("1", "new"), ("2", "new"), ("3", "new")]));
    }

    #[test]
    fn a_change_that_is_undone_brings_all_old_files_back() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["1", "2", "3"].map(|name| directory.path().join(name));
        std::fs::write(&paths[0], "old 1").unwrap();
        std::fs::write(&paths[2], "old 3").unwrap();
        let mut change = Change::begin(directory.path());
        paths.iter().for_each(|path| change.set_aside(path).unwrap());
        change.appear(complete(&paths[2], "new", Existing::Replace)).unwrap();
        change.appear(complete(&paths[1], "new", Existing::Replace)).unwrap();
        let error = change.undo(AnamnesisError::Cancelled);
        assert!(matches!(error, AnamnesisError::Cancelled));
        assert_eq!(contents(directory.path()), pairs(&[("1", "old 1"), ("3", "old 3")]));
    }

    #[test]
    fn a_name_that_was_taken_meanwhile_leaves_nothing_of_the_set() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["1", "2", "3"].map(|name| directory.path().join(name));
        let files = paths.iter().map(|path| complete(path, "new", Existing::Refuse)).collect();
        std::fs::write(&paths[0], "other").unwrap();
        let error = appear_together(files).unwrap_err();
        assert!(error.to_string().contains('1'), "{error}");
        assert_eq!(contents(directory.path()), pairs(&[("1", "other")]));
    }
}
