//! The metadata of an output.

use super::options::{Cast, ConvertOptions};
use super::target::ConvertTarget;
use crate::catalog::{Metadata, MetadataArray, MetadataValue, Rounding, TargetDtype};
use crate::checkpoint::{Checkpoint, MARKERS};
use crate::container::Format;
use crate::error::{AnamnesisError, Request, Result};

/// The metadata key and value of a file decoded with its library's own arithmetic instead of a single rounding.
const ARITHMETIC: (&str, &str) = ("arithmetic", "reference");

impl Checkpoint {
    /// The metadata of an output, and the number of the input's entries that are dropped. `mapped` is the metadata made
    /// by an architecture.
    pub(super) fn metadata_for(
        &self,
        target: ConvertTarget,
        options: &ConvertOptions,
        mapped: Option<Metadata>,
    ) -> Result<(Option<Metadata>, usize)> {
        let in_catalog = self.catalog.metadata.as_ref().map_or(0, |metadata| metadata.len());
        // Metadata that is left unread is typed. GGUF has every type; safetensors gets texts of what no GGUF file holds.
        let is_typed = self.catalog.unread_metadata > 0;
        let is_text = is_typed && self.format() != Format::Gguf && target.format() == Format::Safetensors;
        let is_kept = self.format() == target.format() || (is_typed && target.format() == Format::Gguf) || is_text;
        let mut dropped = if is_kept || mapped.is_some() { 0 } else { in_catalog + self.catalog.unread_metadata };
        let mut metadata = match mapped {
            Some(mapped) => Some(mapped),
            None if is_kept => self.all_metadata()?,
            None => None,
        };
        if let Some(all) = metadata.as_mut().filter(|_| is_text) {
            all.iter_mut().for_each(|(_, value)| *value = MetadataValue::String(text_of(value)));
        }
        // The input's markers of quantised weights no longer apply after decoding or quantising.
        if let Some(all) = &mut metadata {
            all.remove(MARKERS);
        }
        if self.format() == Format::Pth && target.format() == Format::Safetensors {
            // Loaders refuse a safetensors file whose metadata does not name the framework of its tensors.
            metadata = Some(Metadata::from([("format".to_owned(), MetadataValue::String("pt".to_owned()))]));
        }
        if self.rounding() == Rounding::AsLibrary && target.format() == Format::Safetensors {
            let all = metadata.get_or_insert_default();
            all.insert(ARITHMETIC.0.to_owned(), MetadataValue::String(ARITHMETIC.1.to_owned()));
        }
        if target.format() == Format::Gguf {
            let all = metadata.get_or_insert_default();
            // These keys describe the layout of the input file, not the model.
            if !target.is_quantized() {
                all.remove("general.alignment");
            }
            if self.file_count() > 1 {
                all.retain(|key, _| !key.starts_with("split."));
            }
            // The input's file type no longer applies if its blocks are decoded.
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

    /// The type that the blocks of a GGUF input are decoded to if the output is GGUF too; `None` if they are kept.
    fn decoded_gguf_type(&self, options: &ConvertOptions) -> Result<Option<TargetDtype>> {
        if self.format() != Format::Gguf {
            return Ok(None);
        }
        let wanted = options.target_dtype()?;
        let is_decoded = wanted.is_some() || options.cast == Cast::All;
        Ok(is_decoded.then(|| wanted.unwrap_or_default()))
    }
}

/// A metadata value as text: a string as it is, anything else as JSON.
fn text_of(value: &MetadataValue) -> String {
    match value {
        MetadataValue::String(text) => text.clone(),
        MetadataValue::Array(array) => array_json(array).to_string(),
        MetadataValue::U8(number) => number.to_string(),
        MetadataValue::I8(number) => number.to_string(),
        MetadataValue::U16(number) => number.to_string(),
        MetadataValue::I16(number) => number.to_string(),
        MetadataValue::U32(number) => number.to_string(),
        MetadataValue::I32(number) => number.to_string(),
        MetadataValue::F32(number) => number.to_string(),
        MetadataValue::Bool(truth) => truth.to_string(),
        MetadataValue::U64(number) => number.to_string(),
        MetadataValue::I64(number) => number.to_string(),
        MetadataValue::F64(number) => number.to_string(),
    }
}

fn array_json(array: &MetadataArray) -> serde_json::Value {
    use MetadataArray as A;
    match array {
        A::U8(items) => items.as_slice().into(),
        A::I8(items) => items.as_slice().into(),
        A::U16(items) => items.as_slice().into(),
        A::I16(items) => items.as_slice().into(),
        A::U32(items) => items.as_slice().into(),
        A::I32(items) => items.as_slice().into(),
        A::F32(items) => items.as_slice().into(),
        A::Bool(items) => items.as_slice().into(),
        A::U64(items) => items.as_slice().into(),
        A::I64(items) => items.as_slice().into(),
        A::F64(items) => items.as_slice().into(),
        A::String(items) => items.as_slice().into(),
        A::Array(items) => items.iter().map(array_json).collect(),
    }
}

/// The value of `general.file_type` for weights mostly of this type.
fn file_type(dtype: TargetDtype) -> u32 {
    match dtype {
        TargetDtype::F32 => 0,
        TargetDtype::F16 => 1,
        TargetDtype::BF16 => 32,
    }
}
