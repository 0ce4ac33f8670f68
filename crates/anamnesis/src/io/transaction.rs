//! Commits of several files: all of them are named, or none.
//!
//! Existing files are first renamed to `.NAME.xxxxxx.old`, starting with the one that loaders open; then the new
//! files are named, that one last. A process killed in between leaves a set without its first file, which no loader
//! accepts, and never a mix of both sets. On an error all steps are undone.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::{PathPersistError, TempPath};

use super::existing::Existing;
use super::output::CompleteFile;
use super::place::{is_mounted, remove};
use super::temporary::{Lock, builder, directory_of, is_temporary, lock, prefix};
use crate::error::{AnamnesisError, Result};

/// The suffix of files that were moved aside.
const OLD: &str = ".old";

/// How long to wait for another process that commits in the same directory.
const LOCK_TRIES: usize = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Commits files together; the first is the one that loaders open.
pub(crate) fn commit_together(files: Vec<CompleteFile>) -> Result<()> {
    if files.len() < 2 {
        return files.into_iter().try_for_each(CompleteFile::publish);
    }
    if files.first().is_some_and(|first| is_mounted(first.target())) {
        return publish_in_store(files);
    }
    let Some(directory) = files.first().map(|first| directory_of(first.target()).to_path_buf()) else { return Ok(()) };
    let mut change = FileTransaction::begin(&directory);
    let targets: Vec<_> = files.iter().map(|file| (file.target().to_path_buf(), file.existing())).collect();
    let change_all = |change: &mut FileTransaction| -> Result<()> {
        for (target, existing) in &targets {
            if *existing == Existing::Replace {
                change.set_aside(target)?;
            }
        }
        files.into_iter().rev().try_for_each(|file| change.publish(file))
    };
    match change_all(&mut change) {
        Ok(()) => {
            change.commit();
            Ok(())
        }
        Err(error) => Err(change.undo(error)),
    }
}

/// Publishes new files of a store, and removes those that are visible if one of them fails. The first is the last.
fn publish_in_store(files: Vec<CompleteFile>) -> Result<()> {
    let mut published = Vec::new();
    for file in files.into_iter().rev() {
        let target = file.target().to_path_buf();
        if let Err(error) = file.publish() {
            published.iter().for_each(|path: &PathBuf| drop(remove(path)));
            return Err(error);
        }
        published.push(target);
    }
    Ok(())
}

/// A set of renames that can be undone until it is committed.
#[derive(Debug)]
pub(crate) struct FileTransaction {
    /// Lock on the directory, if available.
    lock: Option<File>,
    steps: Vec<Step>,
    /// Files that an interrupted transaction has moved into place.
    moved_before: Vec<PathBuf>,
}

#[derive(Debug)]
enum Step {
    /// An existing file was moved aside.
    Aside { from: PathBuf, to: PathBuf },
    /// A new file was named; the name was free.
    Appeared(PathBuf),
    /// A file was renamed; the name was free.
    Moved { from: PathBuf, to: PathBuf },
}

impl FileTransaction {
    /// Begins a transaction in `directory`.
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
        Self { lock: held, steps: Vec::new(), moved_before: Vec::new() }
    }

    /// Moves an existing file with this name aside.
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

    /// Names a file; the name must be free by now.
    pub(crate) fn publish(&mut self, file: CompleteFile) -> Result<()> {
        let target = file.target().to_path_buf();
        file.publish_new()?;
        self.steps.push(Step::Appeared(target));
        Ok(())
    }

    /// Renames a file; the new name must be free by now.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        rename_new(from, to).map_err(|error| AnamnesisError::at_path(error, to))?;
        self.steps.push(Step::Moved { from: from.to_path_buf(), to: to.to_path_buf() });
        Ok(())
    }

    /// Adds a file that an interrupted transaction has moved into place, and that stays there.
    pub(crate) fn moved_before(&mut self, path: &Path) {
        self.moved_before.push(path.to_path_buf());
    }

    /// Completes the transaction: removes the files moved aside, also those of killed processes.
    pub(crate) fn commit(self) {
        if self.lock.is_some() {
            self.moved_before.iter().for_each(|path| remove_backups(path));
        }
        for step in &self.steps {
            let named = match step {
                // A file that cannot be removed stays; the new ones are complete.
                Step::Aside { from, to } => {
                    remove_with_retry(to);
                    from
                }
                Step::Appeared(to) | Step::Moved { to, .. } => to,
            };
            if self.lock.is_some() {
                remove_backups(named);
            }
        }
    }

    /// Undoes all steps in reverse order; the error names files that could not be restored.
    pub(crate) fn undo(self, error: AnamnesisError) -> AnamnesisError {
        let mut stuck = Vec::new();
        for step in self.steps.into_iter().rev() {
            let (undone, place) = match step {
                Step::Aside { from, to } => (retry(|| std::fs::rename(&to, &from)), to),
                Step::Moved { from, to } => (retry(|| std::fs::rename(&to, &from)), to),
                Step::Appeared(path) => (retry(|| std::fs::remove_file(&path)), path),
            };
            if undone.is_err() {
                stuck.push(place.display().to_string());
            }
        }
        if stuck.is_empty() {
            return error;
        }
        let text = format!("{error}; existing files could not be restored, see {}", stuck.join(", "));
        AnamnesisError::Io(std::io::Error::other(text))
    }
}

/// Renames a file to a name that is free.
fn rename_new(from: &Path, to: &Path) -> std::io::Result<()> {
    TempPath::try_from_path(from)?.persist_noclobber(to).map_err(|PathPersistError { error, mut path }| {
        // It is not temporary: dropping the path would remove it.
        path.disable_cleanup(true);
        error
    })
}

fn remove_with_retry(path: &Path) {
    let _ = retry(|| std::fs::remove_file(path));
}

/// Retries a file operation.
pub(crate) fn retry(work: impl Fn() -> std::io::Result<()>) -> std::io::Result<()> {
    work().or_else(|_| work())
}

/// Removes files that killed processes moved aside and never removed.
fn remove_backups(path: &Path) {
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
        if cfg!(unix) {
            // A killed process moved these away, which only its locks show.
            std::fs::write(directory.path().join(".1.gone00.old"), "older").unwrap();
            std::fs::write(directory.path().join(".2.gone00.old"), "older").unwrap();
        }
        commit_together(paths.iter().map(|path| complete(path, "new", Existing::Replace)).collect()).unwrap();
        assert_eq!(contents(directory.path()), pairs(&[("1", "new"), ("2", "new"), ("3", "new")]));
    }

    #[test]
    fn an_undone_transaction_restores_all_files() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["1", "2", "3"].map(|name| directory.path().join(name));
        std::fs::write(&paths[0], "old 1").unwrap();
        std::fs::write(&paths[2], "old 3").unwrap();
        let mut change = FileTransaction::begin(directory.path());
        paths.iter().for_each(|path| change.set_aside(path).unwrap());
        change.publish(complete(&paths[2], "new", Existing::Replace)).unwrap();
        change.publish(complete(&paths[1], "new", Existing::Replace)).unwrap();
        let error = change.undo(AnamnesisError::Cancelled);
        assert!(matches!(error, AnamnesisError::Cancelled));
        assert_eq!(contents(directory.path()), pairs(&[("1", "old 1"), ("3", "old 3")]));
    }

    #[test]
    fn a_name_taken_meanwhile_undoes_the_whole_set() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["1", "2", "3"].map(|name| directory.path().join(name));
        let files = paths.iter().map(|path| complete(path, "new", Existing::Refuse)).collect();
        std::fs::write(&paths[0], "other").unwrap();
        let error = commit_together(files).unwrap_err();
        assert!(error.to_string().contains('1'), "{error}");
        assert_eq!(contents(directory.path()), pairs(&[("1", "other")]));
    }
}
