//! What a checkpoint says about itself besides its tensors.

use super::{Checkpoint, Format};
use crate::container::gguf::{GgufMetadataValue, Keep, read_header};
use crate::error::Result;
use crate::limits::Budget;

impl Checkpoint {
    /// The metadata: of GGUF with its types, in the order of the file; of safetensors the text of `__metadata__`, by key. Empty
    /// where there is none. Of a split model, the first part speaks for all.
    ///
    /// Opening keeps no long values, so that they are read from the file here.
    ///
    /// # Errors
    /// `Io` where the file cannot be read again, `LimitExceeded` where the values pass the limits given at opening.
    pub fn metadata(&self) -> Result<Vec<(String, GgufMetadataValue)>> {
        match (self.format, self.sources.first()) {
            (Format::Gguf, Some(source)) => {
                Ok(read_header(&**source, Keep::All, &mut Budget::new(&self.limits))?.metadata)
            }
            _ => {
                let texts = self.catalog.metadata.iter().flatten();
                Ok(texts.map(|(key, text)| (key.clone(), GgufMetadataValue::String(text.clone()))).collect())
            }
        }
    }
}
