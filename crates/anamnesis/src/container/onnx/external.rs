//! The files with external data: next to the model or below it, nowhere else.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::limits::{ONNX_MAX_FILES, check};
use super::tensor::External;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{FilePool, JoinedSource, Links, MAX_OPEN_FILES, Source, existing_entry, file_named_by, open_file_in};

/// The files of a model: the model itself, and those with external data.
pub(super) struct ModelFiles {
    pub(super) joined: JoinedSource,
    /// The paths of the files with external data.
    pub(super) paths: Vec<PathBuf>,
    directory: Option<PathBuf>,
    pool: Arc<FilePool>,
    /// Offset and length of each file by its location.
    places: HashMap<String, (u64, u64)>,
}

impl ModelFiles {
    pub(super) fn new(model: Box<dyn Source>) -> Self {
        let directory = model.path().map(|path| path.parent().unwrap_or(Path::new("")).to_path_buf());
        let pool = FilePool::new(MAX_OPEN_FILES);
        Self { joined: JoinedSource::new(model), paths: Vec::new(), directory, pool, places: HashMap::new() }
    }

    /// The offset of external data in the joined files, and its length. It must be inside its file.
    pub(super) fn find(&mut self, external: &External) -> Result<(u64, u64)> {
        let location = external.location.trim_start_matches("./");
        let (start, file_bytes) = match self.places.get(location) {
            Some(place) => *place,
            None => self.open(location)?,
        };
        let External { offset, length, .. } = *external;
        let end = length.map_or(Some(file_bytes), |length| offset.checked_add(length));
        match end.filter(|end| *end <= file_bytes && offset <= *end) {
            Some(end) => Ok((start + offset, end - offset)),
            None => {
                let length = length.map_or_else(|| "all".to_owned(), |length| length.to_string());
                let (name, file) = (quoted(location), file_bytes);
                let why = format!("it is {length} bytes from byte {offset} of {name}, which has {file}");
                Err(AnamnesisError::parse(why))
            }
        }
    }

    fn open(&mut self, location: &str) -> Result<(u64, u64)> {
        check(self.paths.len() as u64 + 1, ONNX_MAX_FILES as u64, "ONNX_MAX_FILES", "external data is in more files")?;
        let Some(directory) = &self.directory else {
            let name = quoted(location);
            let why = format!("its values are in the file {name} next to the model, which was not opened as a file");
            return Err(AnamnesisError::unsupported("onnx", why));
        };
        let path = file_named_by("the model", directory, location, Links::OfSnapshot)?;
        if !existing_entry(&path)?.is_file() {
            return Err(AnamnesisError::parse(format!("{} is not a regular file", quoted(location))));
        }
        let source = open_file_in(&self.pool, &path)?;
        let bytes = source.len();
        let start = self.joined.add(source)?;
        self.paths.push(path);
        self.places.insert(location.to_owned(), (start, bytes));
        Ok((start, bytes))
    }
}
