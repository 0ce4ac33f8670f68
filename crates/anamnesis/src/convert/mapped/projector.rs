//! The towers of a multimodal model as a GGUF file of their own, with the names and keys of llama.cpp's converter.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{MappedOutputs, planned, weights_of};
use crate::architecture::card::{self, Counts, FileType};
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::sidecars::{Directory, SidecarFiles};
use crate::architecture::{Architecture, Mapped, projectors};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::convert::inputs::ClaimedCatalog;
use crate::convert::options::ConvertOptions;
use crate::convert::target::ConvertTarget;
use crate::error::{Request, Result};
use crate::json;

/// A multimodal model with its projector.
pub(in crate::convert) struct Projector<'a> {
    checkpoint: &'a Checkpoint,
    architecture: &'static Architecture,
    raw: Map<String, Value>,
    directory: PathBuf,
}

impl Checkpoint {
    /// The projector of a multimodal model.
    pub(in crate::convert) fn projector_for(
        &self,
        target: ConvertTarget,
        options: &ConvertOptions,
    ) -> Result<Projector<'_>> {
        let refuse = |why: &str| Request::Contradiction { what: "a projector".to_owned(), why: why.to_owned() };
        if target != ConvertTarget::Gguf || self.format() == Format::Gguf || options.keep_names {
            return Err(refuse("only a model directory that becomes an unquantised GGUF file has one").into());
        }
        let read = |directory: &std::path::Path| Directory::new(directory, &self.limits).read("config.json");
        let directory = self.directory().or_else(|| self.directory_of_model(options));
        let text = directory.map(read).transpose()?.flatten();
        let (Some(directory), Some(text)) = (directory, text) else {
            return Err(refuse("there is no config.json that describes its towers").into());
        };
        let Ok(Value::Object(mut raw)) = json::from_slice(&text) else {
            return Err(refuse("config.json is no JSON object").into());
        };
        if let Some(class) = &options.like {
            raw.insert("architectures".to_owned(), Value::from(vec![class.as_str()]));
        }
        let architecture = Architecture::projector_of_config(&raw)?;
        Ok(Projector { checkpoint: self, architecture, raw, directory: directory.to_path_buf() })
    }
}

impl Projector<'_> {
    pub(in crate::convert) const fn architecture(&self) -> &'static Architecture {
        self.architecture
    }

    /// Plans every tensor and every key of the output.
    pub(in crate::convert) fn outputs(&self, options: &ConvertOptions) -> Result<MappedOutputs> {
        let input = ClaimedCatalog::of(self.checkpoint);
        let selected = input.select(&options.selection, None)?.by_file_and_name(input.catalog);
        let files = Directory::new(&self.directory, &self.checkpoint.limits);
        let config = projectors::config(&self.raw, &files)?;
        let mapping = self.architecture.map(&selected.named(), &config, selected.left_out == 0)?;
        let weights = weights_of(self.checkpoint, options)?;
        let mut metadata = self.general(&files, &mapping.tensors)?;
        self.architecture.write_keys(&config, weights.file_type(), &mut metadata)?;
        metadata.number("general.quantization_version", 2);
        let notes = std::mem::take(&mut metadata.notes);
        let outputs = planned((input, &selected), &mapping.tensors, weights, self.architecture.types())?;
        Ok(MappedOutputs { outputs, metadata: Some(metadata.into_parts().0), notes })
    }

    fn general(&self, files: &Directory, tensors: &[Mapped]) -> Result<MetadataBuilder> {
        let mut counts = Counts::default();
        tensors.iter().for_each(|mapped| counts.add(&mapped.name, &mapped.shape));
        let mut metadata = MetadataBuilder::default();
        metadata.text("general.architecture", self.architecture.name());
        metadata.append(card::general(files, &self.raw, &counts, FileType::Projector)?);
        Ok(metadata)
    }
}
