//! A LoRA adapter of PEFT as a GGUF file for llama.cpp, with the names and changes of its base's architecture.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{MappedOutputs, keys, planned};
use crate::architecture::Architecture;
use crate::architecture::adapter::{AdapterDescription, DESCRIPTION};
use crate::architecture::card::{self, Counts, FileType};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::sidecars::{Directory, SidecarFiles};
use crate::architecture::types::Weights;
use crate::catalog::{BlockType, Dtype, TargetDtype};
use crate::checkpoint::{Checkpoint, read_sidecar, resolve};
use crate::container::Format;
use crate::convert::inputs::ClaimedCatalog;
use crate::convert::options::ConvertOptions;
use crate::convert::target::ConvertTarget;
use crate::error::{AnamnesisError, ModelPart, Request, Result};
use crate::json;

/// An adapter with the architecture of its base.
pub(in crate::convert) struct Adapter<'a> {
    checkpoint: &'a Checkpoint,
    architecture: &'static Architecture,
    /// The configuration of the base.
    raw: Map<String, Value>,
    described: AdapterDescription,
    directory: PathBuf,
}

impl Checkpoint {
    /// The adapter that is mapped to GGUF; `None` if this is a model, or if names are kept.
    pub(in crate::convert) fn adapter_for(
        &self,
        target: ConvertTarget,
        options: &ConvertOptions,
    ) -> Result<Option<Adapter<'_>>> {
        let is_gguf = target == ConvertTarget::Gguf && self.format() != Format::Gguf;
        let is_adapter = self.adapter()?.is_some();
        if options.base.is_some() && !(is_gguf && is_adapter) {
            let (what, why) = ("a base", "only an adapter that becomes a GGUF file has one");
            return Err(Request::Contradiction { what: what.to_owned(), why: why.to_owned() }.into());
        }
        if !is_gguf || !is_adapter || options.keep_names {
            return Ok(None);
        }
        let of_file = || self.paths.first().and_then(|path| path.parent()).filter(|_| options.base.is_some());
        let Some(directory) = self.directory().or_else(of_file) else { return Ok(None) };
        let files = Directory::new(directory, &self.limits);
        let described = match files.read(DESCRIPTION)? {
            Some(text) => AdapterDescription::read(&text)?,
            // diffusers describes adapters in their weight files.
            None if options.base.is_none() => return Ok(None),
            None => return Err(AnamnesisError::parse(format!("there is no {DESCRIPTION} in the directory"))),
        };
        let base = base_directory(options.base.as_deref(), described.base.as_deref())?;
        let Ok(Value::Object(mut raw)) = json::from_slice(&read_sidecar(&base, "config.json")?) else {
            return Err(AnamnesisError::parse("config.json of the base is no JSON object"));
        };
        if let Some(class) = &options.like {
            raw.insert("architectures".to_owned(), Value::from(vec![class.as_str()]));
        }
        let Some(architecture) = Architecture::of_config(&raw)? else {
            return Err(AnamnesisError::parse("config.json of the base has no \"architectures\""));
        };
        Ok(Some(Adapter { checkpoint: self, architecture, raw, described, directory: directory.to_path_buf() }))
    }
}

/// The directory of the base: the given one, or the named model in the local cache.
fn base_directory(given: Option<&Path>, named: Option<&str>) -> Result<PathBuf> {
    if let Some(given) = given {
        return resolve(given);
    }
    let cached = named.and_then(|name| resolve(Path::new(&format!("hf:{name}"))).ok());
    cached.ok_or_else(|| {
        let why = "the configuration of the model that an adapter was trained for is needed, and it is not in the local cache";
        AnamnesisError::unsupported_model(ModelPart::Base, named.unwrap_or("an unnamed base"), why)
    })
}

impl Adapter<'_> {
    pub(in crate::convert) const fn architecture(&self) -> &'static Architecture {
        self.architecture
    }

    /// Plans every tensor and every key of the output.
    pub(in crate::convert) fn outputs(&self, options: &ConvertOptions) -> Result<MappedOutputs> {
        let checkpoint = self.checkpoint;
        let input = ClaimedCatalog::of(checkpoint);
        let selected = input.select(&options.selection, None)?.in_stored_order();
        let config = self.architecture.config(&self.raw)?;
        let mapping = self.architecture.map_adapter(&selected.named(), &config, &self.described)?;
        let metadata = self.metadata(&mapping.tensors)?;
        let notes = self.described.note().into_iter().chain(keys::left_out_note(&mapping)).collect();
        let outputs = planned((input, &selected), &mapping.tensors, weights(options)?, self.architecture.types())?;
        Ok(MappedOutputs { outputs, metadata: Some(metadata.into_parts().0), notes })
    }

    fn metadata(&self, tensors: &[crate::architecture::Mapped]) -> Result<MetadataBuilder> {
        let mut counts = Counts::default();
        for pair in tensors.windows(2) {
            let [a, b] = pair else { continue };
            if let (Some(name), Some(cols)) = (b.name.strip_suffix(".lora_b"), a.shape.last())
                && a.name.strip_suffix(".lora_a") == Some(name)
            {
                let shape: Vec<usize> = b.shape.iter().rev().skip(1).rev().chain([cols]).copied().collect();
                counts.add_product(name, &shape);
            }
        }
        tensors.iter().filter(|whole| whole.shape.len() == 1).for_each(|whole| counts.add(&whole.name, &whole.shape));
        let files = Directory::new(&self.directory, &self.checkpoint.limits);
        let own = files.read("config.json")?.and_then(|text| json::from_slice(&text).ok());
        let own = match own {
            Some(Value::Object(own)) => own,
            _ => Map::new(),
        };
        let mut metadata = MetadataBuilder::default();
        metadata.text("general.architecture", self.architecture.name());
        metadata.append(card::general(&files, &own, &counts, FileType::Adapter)?);
        self.described.write(&mut metadata);
        metadata.number("general.quantization_version", 2);
        Ok(metadata)
    }
}

/// The type of most factors: the requested one, or F32.
fn weights(options: &ConvertOptions) -> Result<Weights> {
    match options.output_dtype {
        Some(Dtype::Block(BlockType::Q8_0)) => Ok(Weights::Q8_0),
        _ => Ok(Weights::Plain(options.target_dtype()?.unwrap_or(TargetDtype::F32))),
    }
}
