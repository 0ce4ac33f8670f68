//! Metadata whose values come into being when they are asked for: a vocabulary is hundreds of thousands of strings, and most
//! uses of a file never look at them.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::GgufMetadataValue;
use super::cursor::Cursor;
use super::metadata::{Keep, read_entries};
use crate::error::Result;
use crate::io::BytesSource;
use crate::limits::{Budget, ParseLimits};

/// The metadata of a file as its bytes, which have been read and checked once.
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

    /// All values by their keys.
    ///
    /// # Errors
    /// None that depend on the file: these bytes were read before, within the limits of the caller.
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
