//! What a checkpoint says about itself besides its tensors.

use std::collections::BTreeSet;

use super::Checkpoint;
use crate::catalog::{Metadata, MetadataValue};
use crate::container;
use crate::error::Result;
use crate::limits::Budget;

impl Checkpoint {
    /// The metadata: of GGUF with its types, in the order of the file; of safetensors the text of `__metadata__`, by key. Empty
    /// where there is none. Of a split model, the first part that has a key speaks for all.
    ///
    /// Opening keeps no long values, so that they are read from the file here.
    ///
    /// # Errors
    /// `Io` where the file cannot be read again, `LimitExceeded` where the values pass the limits given at opening.
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

    /// The metadata by key, where the files have any.
    pub(crate) fn all_metadata(&self) -> Result<Option<Metadata>> {
        match self.catalog.unread_metadata {
            0 => Ok(self.catalog.metadata.clone()),
            _ => Ok(Some(self.metadata()?.into_iter().collect())),
        }
    }
}
