//! A directory in memory. An input is its files, each with its length in front, four bytes, but the last.

use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;

use anamnesis::{Mount, PositionedRead, Store, StoreEntry};

/// The name of a file, and the start of all names under which it is found: an index may expect several files.
pub(crate) type Name = (&'static str, &'static str);

/// The files of a directory, with their names.
pub(crate) struct Folder(Vec<(Name, Arc<Vec<u8>>)>);

impl Folder {
    /// Splits an input into the files of these names.
    pub(crate) fn split(mut input: &[u8], names: &[Name]) -> Option<Self> {
        let mut files = Vec::new();
        for (index, &name) in names.iter().enumerate() {
            let mut bytes = input;
            if index + 1 < names.len() {
                let (length, rest) = input.split_first_chunk()?;
                let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
                (bytes, input) = rest.split_at(length);
            }
            files.push((name, Arc::new(bytes.to_vec())));
        }
        Some(Self(files))
    }

    /// Makes it readable under its path.
    pub(crate) fn mount(self) -> Mount {
        Mount::new("memory:folder", Arc::new(self)).expect("an address")
    }

    fn file(&self, name: &str) -> Option<&Arc<Vec<u8>>> {
        self.0.iter().find(|((_, start), _)| name.starts_with(start)).map(|(_, bytes)| bytes)
    }
}

impl Store for Folder {
    fn entry(&self, name: &str) -> Result<Option<StoreEntry>> {
        let file = || self.file(name).map(|bytes| StoreEntry::file(bytes.len() as u64));
        Ok(if name.is_empty() { Some(StoreEntry::Folder) } else { file() })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        match folder {
            "" => Ok(self.0.iter().map(|((name, _), _)| (*name).to_owned()).collect()),
            _ => Err(Error::from(ErrorKind::NotFound)),
        }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn PositionedRead>> {
        let file = self.file(name).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::<Vec<u8>>::clone(file))
    }
}
