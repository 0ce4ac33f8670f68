//! The comparison of a statement with files, for `verify --provenance`.
//!
//! Names are looked up from the folder of the statement. Outputs that were moved are found in the given folder by the
//! end of their names, and a given file is compared with the entry of its name.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anamnesis::{AnamnesisError, file_sha256};

use super::statement::{Resource, Statement};
use crate::commands::{open, output_path, shown};
use crate::exit::Failure;

/// Maximum size of a statement: room for two hundred thousand files.
const MAX_STATEMENT_BYTES: u64 = 64 << 20;

/// The state of a file of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatedFileState {
    Matches,
    /// It has another SHA-256.
    Differs(String),
    Missing,
    /// The statement has no SHA-256 of it.
    Unhashed,
    /// It cannot be read, and why.
    Unreadable(String),
}

/// A file of a statement.
#[derive(Debug)]
pub(crate) struct StatedFile {
    pub(crate) name: String,
    pub(crate) is_output: bool,
    pub(crate) state: StatedFileState,
}

impl StatedFile {
    /// The problem with it. An input that is not there is none: outputs are often moved without their inputs.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self { name, is_output, state } = self;
        let what = if *is_output { "output" } else { "input" };
        match state {
            StatedFileState::Differs(found) => {
                Some(format!("{what} {name:?} differs from the statement: its SHA-256 is {found}"))
            }
            StatedFileState::Missing if *is_output => Some(format!("output {name:?} is missing")),
            StatedFileState::Unreadable(why) => Some(format!("{what} {name:?} cannot be read: {why}")),
            StatedFileState::Matches | StatedFileState::Missing | StatedFileState::Unhashed => None,
        }
    }

    /// The state in a word.
    pub(crate) const fn word(&self) -> &'static str {
        match self.state {
            StatedFileState::Matches => "matches",
            StatedFileState::Differs(_) => "differs",
            StatedFileState::Missing => "missing",
            StatedFileState::Unhashed => "not hashed",
            StatedFileState::Unreadable(_) => "unreadable",
        }
    }
}

/// A statement that is compared with files.
pub(crate) struct Check {
    statement: Statement,
    folder: PathBuf,
}

impl Check {
    /// Reads a statement.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_STATEMENT_BYTES).read_to_string(&mut text));
        read.map_err(|error| {
            let error = std::io::Error::new(error.kind(), format!("{}: {error}", shown(path)));
            open::advise(AnamnesisError::Io(error), path)
        })?;
        let statement = Statement::parse(&text).map_err(|reason| {
            let error = AnamnesisError::Parse { reason: format!("{}: {reason}", shown(path)) };
            Failure::Refused {
                error,
                advice: Some("--provenance of a command that writes makes a statement".to_owned()),
            }
        })?;
        Ok(Self { statement, folder: path.parent().unwrap_or(Path::new("")).to_path_buf() })
    }

    /// Compares all files, or those of `path`: a file, or a folder with the outputs.
    pub(crate) fn entries(&self, path: Option<&Path>) -> Result<Vec<StatedFile>, Failure> {
        let Statement { subjects, inputs, .. } = &self.statement;
        let all = subjects.iter().map(|file| (file, true)).chain(inputs.iter().map(|file| (file, false)));
        let Some(path) = path else {
            return Ok(all.map(|(file, is_output)| entry(file, is_output, &self.folder.join(&file.name))).collect());
        };
        let metadata = std::fs::metadata(path).map_err(|error| {
            let error = std::io::Error::new(error.kind(), format!("{}: {error}", shown(path)));
            open::advise(AnamnesisError::Io(error), path)
        })?;
        if metadata.is_dir() {
            return Ok(all
                .map(|(file, is_output)| {
                    let moved = is_output.then(|| within(path, &file.name)).flatten();
                    entry(file, is_output, &moved.unwrap_or_else(|| self.folder.join(&file.name)))
                })
                .collect());
        }
        let base = |name: &str| Path::new(name).file_name().map(ToOwned::to_owned);
        let named: Vec<_> = all
            .filter(|(file, _)| base(&file.name).is_some_and(|name| Some(name.as_os_str()) == path.file_name()))
            .map(|(file, is_output)| entry(file, is_output, path))
            .collect();
        // Two files may have one name; the given one is either of them.
        let found = named.iter().position(|entry| entry.state == StatedFileState::Matches);
        match named.is_empty() {
            true => Err(Failure::Usage(format!("{} is not a file of this statement", shown(path)))),
            false => Ok(named
                .into_iter()
                .enumerate()
                .filter(|(at, _)| found.is_none_or(|one| one == *at))
                .map(|(_, entry)| entry)
                .collect()),
        }
    }
}

/// The file in a folder with the longest end of a name.
fn within(folder: &Path, name: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = name.split('/').collect();
    let ends = (0..parts.len()).map(|first| folder.join(parts[first..].join("/")));
    ends.into_iter().find(|path| path.is_file())
}

fn is_address(name: &str) -> bool {
    output_path::is_address(Path::new(name))
}

fn entry(file: &Resource, is_output: bool, path: &Path) -> StatedFile {
    let state = match &file.sha256 {
        None => StatedFileState::Unhashed,
        Some(wanted) => match file_sha256(path) {
            Ok(found) if found == *wanted => StatedFileState::Matches,
            Ok(found) => StatedFileState::Differs(found),
            Err(AnamnesisError::Io(error)) if error.kind() == ErrorKind::NotFound => match is_address(&file.name) {
                true => {
                    StatedFileState::Unreadable("it is at an address; name a file or folder with a copy".to_owned())
                }
                false => StatedFileState::Missing,
            },
            Err(error) => StatedFileState::Unreadable(error.to_string()),
        },
    };
    StatedFile { name: file.name.clone(), is_output, state }
}
