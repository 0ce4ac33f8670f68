//! Lazily parsed metadata: a vocabulary has hundreds of thousands of strings, which most callers never use.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::GgufMetadataValue;
use super::metadata::{Keep, read_entries};
use crate::container::cursor::Cursor;
use crate::error::Result;
use crate::io::BytesSource;
use crate::limits::{Budget, ParseLimits};

/// The metadata section of a file as validated bytes.
#[derive(Debug, Default)]
pub(crate) struct LazyMetadata {
    bytes: Vec<u8>,
    count: usize,
    big_endian: bool,
    map: OnceLock<HashMap<String, GgufMetadataValue>>,
}

impl LazyMetadata {
    pub(super) fn new(bytes: Vec<u8>, count: usize, big_endian: bool) -> Self {
        Self { bytes, count, big_endian, map: OnceLock::new() }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// All values by key, parsed on the first call.
    ///
    /// # Errors
    /// None that depend on the file: the bytes were validated within the caller's limits.
    pub(crate) fn map(&self) -> Result<&HashMap<String, GgufMetadataValue>> {
        if let Some(map) = self.map.get() {
            return Ok(map);
        }
        let source = BytesSource(&self.bytes);
        let mut cursor = Cursor::over_source(&source);
        cursor.big_endian = self.big_endian;
        let mut budget = Budget::new(&ParseLimits::unbounded());
        let entries = read_entries(&mut cursor, self.count, Keep::All, &mut budget)?;
        Ok(self.map.get_or_init(|| entries.into_iter().collect()))
    }
}
