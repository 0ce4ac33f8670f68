//! The metadata of a checkpoint.

use std::collections::BTreeSet;

use super::Checkpoint;
use crate::catalog::{Metadata, MetadataValue};
use crate::container;
use crate::error::Result;
use crate::limits::Budget;

impl Checkpoint {
    /// The metadata: for GGUF typed and in file order, for safetensors the strings of `__metadata__` by key; otherwise
    /// empty. For a split model, the first part that has a key determines its value.
    ///
    /// Long values are not kept when a file is opened, so they are read here.
    ///
    /// # Errors
    /// `Io` if the file cannot be read again, `LimitExceeded` if the values exceed the limits that the checkpoint
    /// was opened with.
    pub fn metadata(&self) -> Result<Vec<(String, MetadataValue)>> {
        if self.catalog.unread_metadata == 0 {
            return Ok(self.catalog.metadata.clone().into_iter().flatten().collect());
        }
        let mut budget = Budget::new(&self.limits);
        let (mut all, mut keys) = (Vec::new(), BTreeSet::new());
        for source in self.sources.iter() {
            let entries = container::of(self.format).metadata(&**source, &mut budget)?;
            all.extend(entries.into_iter().filter(|(key, _)| keys.insert(key.clone())));
        }
        Ok(all)
    }

    /// The metadata by key, if the files have any.
    pub(crate) fn all_metadata(&self) -> Result<Option<Metadata>> {
        match self.catalog.unread_metadata {
            0 => Ok(self.catalog.metadata.clone()),
            _ => Ok(Some(self.metadata()?.into_iter().collect())),
        }
    }
}
