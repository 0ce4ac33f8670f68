//! A GGUF file as a checkpoint for transformers: the inverse of the mapping.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::blocks::{MappedBlocks, plan_packed};
use crate::architecture::back::{self, Restored};
use crate::architecture::{Architecture, Gguf, Named, tokenizer};
use crate::catalog::{Dtype, Metadata, MetadataValue, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::convert::finished::Outputs;
use crate::convert::inputs::ClaimedCatalog;
use crate::convert::options::ConvertOptions;
use crate::convert::outputs::Planner;
use crate::convert::types::Types;
use crate::error::{AnamnesisError, Request, Result};

/// The tensors and sidecars of a restored checkpoint, without their offsets.
pub(crate) struct RestoredOutputs {
    pub outputs: Outputs,
    /// The sidecars.
    pub files: Vec<(String, Vec<u8>)>,
    pub dtype: TargetDtype,
    pub notes: Vec<String>,
}

/// Maximum number of values of a tensor that becomes a list in the configuration.
const MAX_LIST_VALUES: u64 = 1 << 16;

impl Checkpoint {
    /// Plans the tensors and sidecars of the checkpoint that a GGUF file was made from.
    pub(in crate::convert) fn restored(&self, options: &ConvertOptions) -> Result<RestoredOutputs> {
        self.check_gguf("the target hf")?;
        let input = ClaimedCatalog::of(self);
        let selected = input.select(&options.selection, None)?.by_file_and_name(input.catalog);
        let metadata: Metadata = self.metadata()?.into_iter().collect();
        let dtype = match options.target_dtype()? {
            Some(dtype) => dtype,
            None => self.restored_dtype(),
        };
        let named = selected.named();
        let values = |name: &str| self.small_tensor(name);
        let gguf = described(&metadata, &named, &values, dtype);
        let Restored { tensors, mut config, generation, packed_experts, mut notes } =
            back::restore(&gguf, &named, selected.left_out == 0, options.like.as_deref())?;
        let of_blocks = MappedBlocks { checkpoint: self, tensors: &selected.tensors };
        let types = Types::Decoded { dtype, cast_all: true, exact_blocks: false };
        let mut planner = Planner::new(input, &selected.tensors, types, None);
        let is_free = options.output_dtype.is_none();
        let packed = packed_experts
            .filter(|_| is_free)
            .and_then(|description| Some((description, of_blocks.packed_experts(&tensors)?)));
        let mut experts = HashMap::new();
        if let Some((description, packed)) = packed {
            config.insert("quantization_config".to_owned(), description);
            config.sort_keys();
            experts = packed;
        }
        for mapped in &tensors {
            match experts.remove(mapped.name.as_str()) {
                Some(built) => plan_packed(mapped, built, &mut planner),
                None => planner.values(mapped, false),
            }
            .map_err(|error| error.in_tensor(&mapped.name))?;
        }
        let mut files = vec![("config.json".to_owned(), text(&config)?)];
        if let Some(generation) = generation {
            files.push(("generation_config.json".to_owned(), text(&generation)?));
        }
        let vocabulary = tokenizer::back::back(&metadata)?;
        files.extend(vocabulary.files);
        notes.extend(vocabulary.notes);
        Ok(RestoredOutputs { outputs: planner.finish(selected.left_out)?, files, dtype, notes })
    }

    /// Refuses files that are not GGUF.
    pub(super) fn check_gguf(&self, what: &str) -> Result<()> {
        if self.format() == Format::Gguf {
            return Ok(());
        }
        let why =
            format!("only a GGUF file can become a Hugging Face checkpoint, the input is {}", self.format().name());
        Err(Request::Contradiction { what: what.to_owned(), why }.into())
    }

    /// Refuses a GGUF file whose tensors and keys are not those of a complete model; files that are no models pass.
    pub(super) fn check_restorable(&self, options: &ConvertOptions) -> Result<()> {
        let metadata: Metadata = self.metadata()?.into_iter().collect();
        let kind = metadata.get("general.type").and_then(MetadataValue::as_string);
        let architecture = metadata.get("general.architecture").and_then(MetadataValue::as_string);
        let is_known = architecture.is_some_and(|name| Architecture::of_gguf(name).is_some());
        if !is_known || kind.is_some_and(|kind| kind != "model") || !self.claimed().problems.is_empty() {
            return Ok(());
        }
        let selected = ClaimedCatalog::of(self).select(&options.selection, None)?.by_file_and_name(&self.catalog);
        let named = selected.named();
        back::check(&described(&metadata, &named, &|name| self.small_tensor(name), self.restored_dtype()), &named)
    }

    /// The type of the embedding, or BF16 if it is quantised.
    pub(super) fn restored_dtype(&self) -> TargetDtype {
        let embedding = self.catalog.find("token_embd.weight").map(|id| self.catalog.get(id).dtype);
        match embedding {
            Some(Dtype::F16) => TargetDtype::F16,
            Some(Dtype::F32) => TargetDtype::F32,
            _ => TargetDtype::BF16,
        }
    }

    /// The values of a small F32 tensor, if it exists.
    pub(super) fn small_tensor(&self, name: &str) -> Result<Option<Vec<f32>>> {
        let Some(tensor) = self.catalog.find(name).map(|id| self.catalog.get(id)) else { return Ok(None) };
        if tensor.dtype != Dtype::F32 || tensor.elements() > MAX_LIST_VALUES {
            let why = format!(
                "it has {} values of type {}; at most {MAX_LIST_VALUES} of F32 are allowed",
                tensor.elements(),
                tensor.dtype
            );
            return Err(AnamnesisError::parse(why).in_tensor(name));
        }
        let mut bytes = vec![0; tensor.extent.bytes as usize];
        self.sources[tensor.extent.file as usize].read_at(tensor.extent.offset, &mut bytes)?;
        Ok(Some(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
    }
}

/// The metadata and tensors of a GGUF file as the architecture's inverse mapping reads them.
pub(super) fn described<'a>(
    metadata: &'a Metadata,
    named: &[Named<'a>],
    values: &'a dyn Fn(&str) -> Result<Option<Vec<f32>>>,
    dtype: TargetDtype,
) -> Gguf<'a> {
    Gguf {
        metadata,
        shapes: named.iter().map(|named| (named.name, named.shape)).collect(),
        values,
        dtype: match dtype {
            TargetDtype::BF16 => "bfloat16",
            TargetDtype::F16 => "float16",
            TargetDtype::F32 => "float32",
        },
    }
}

pub(super) fn text(map: &Map<String, Value>) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(map).map_err(std::io::Error::from)?;
    text.push(b'\n');
    Ok(text)
}
