//! What the metadata of an output says.

use super::options::{Cast, ConvertOptions};
use super::target::ConvertTarget;
use crate::catalog::{Metadata, MetadataValue, Rounding, TargetDtype};
use crate::checkpoint::{Checkpoint, MARKERS};
use crate::container::Format;
use crate::error::{AnamnesisError, Request, Result};

/// What the metadata of a file says whose numbers were not simply rounded once: the key and its value.
const ARITHMETIC: (&str, &str) = ("arithmetic", "reference");

impl Checkpoint {
    /// The metadata of an output, and how many entries of the input's it does not have.
    /// `told` is what its architecture makes of a model.
    pub(super) fn metadata_for(
        &self,
        target: ConvertTarget,
        options: &ConvertOptions,
        told: Option<Metadata>,
    ) -> Result<(Option<Metadata>, usize)> {
        let in_catalog = self.catalog.metadata.as_ref().map_or(0, |metadata| metadata.len());
        let is_kept = self.format() == target.format();
        let mut dropped = if is_kept || told.is_some() { 0 } else { in_catalog + self.catalog.unread_metadata };
        let mut metadata = match told {
            Some(told) => Some(told),
            None if is_kept => self.all_metadata()?,
            None => None,
        };
        // What it says of single weights is no longer true where they are decoded or quantised.
        if let Some(all) = &mut metadata {
            all.remove(MARKERS);
        }
        if self.format() == Format::Pth && target.format() == Format::Safetensors {
            // Loaders refuse a safetensors file that does not say which library its tensors are of.
            metadata = Some(Metadata::from([("format".to_owned(), MetadataValue::String("pt".to_owned()))]));
        }
        if self.rounding() == Rounding::AsLibrary && target.format() == Format::Safetensors {
            let all = metadata.get_or_insert_default();
            all.insert(ARITHMETIC.0.to_owned(), MetadataValue::String(ARITHMETIC.1.to_owned()));
        }
        if target.format() == Format::Gguf {
            let all = metadata.get_or_insert_default();
            // These describe how the input's bytes lie, not the model.
            if !target.is_quantized() {
                all.remove("general.alignment");
            }
            if self.file_count() > 1 {
                all.retain(|key, _| !key.starts_with("split."));
            }
            // What it says of the weights' type is no longer true where they are decoded.
            if !target.is_quantized()
                && let Some(dtype) = self.decoded_gguf_type(options)?
                && let Some(value) = all.get_mut("general.file_type")
            {
                *value = MetadataValue::U32(file_type(dtype));
            }
            for key in &options.gguf_removed {
                let missing = || AnamnesisError::Request(Request::UnknownKey { key: key.clone() });
                all.remove(key).ok_or_else(missing)?;
                dropped += 1;
            }
            all.extend(options.gguf_metadata.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        Ok((metadata, dropped))
    }

    /// The type that the blocks of a GGUF input are decoded to on their way to GGUF; `None` where they stay.
    fn decoded_gguf_type(&self, options: &ConvertOptions) -> Result<Option<TargetDtype>> {
        if self.format() != Format::Gguf {
            return Ok(None);
        }
        let wanted = options.target_dtype()?;
        let is_decoded = wanted.is_some() || options.cast == Cast::All;
        Ok(is_decoded.then(|| wanted.unwrap_or_default()))
    }
}

/// The number by which ggml tells of files whose weights are mostly of a type.
fn file_type(dtype: TargetDtype) -> u32 {
    match dtype {
        TargetDtype::F32 => 0,
        TargetDtype::F16 => 1,
        TargetDtype::BF16 => 32,
    }
}
