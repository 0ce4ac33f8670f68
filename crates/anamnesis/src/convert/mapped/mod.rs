//! A checkpoint of a known architecture as a GGUF file for llama.cpp, with the names, order, types and keys
//! of its converter.

mod adapter;
mod blocks;
mod compared;
mod configuration;
mod dense;
mod hugging_face;
mod input_scales;
mod keys;
mod measure;
mod projector;
mod restored;
mod tables;
mod target;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::finished::Outputs;
use super::inputs::{ClaimedCatalog, SelectedTensors};
use super::options::ConvertOptions;
use super::outputs::Planner;
use super::quantise::Quantise;
use super::target::ConvertTarget;
use super::types::Types;
use crate::architecture::config::Config;
use crate::architecture::sidecars::Directory;
use crate::architecture::types::{TypeRules, Weights};
use crate::architecture::{Architecture, Mapped};
use crate::architecture::{mistral_format, sentence_transformers};
use crate::catalog::{BlockType, Metadata, Selection, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::container::Format;
use crate::error::{AnamnesisError, Result};
use blocks::{KeptBlocks, MappedBlocks};
pub(crate) use compared::GgufValues;
pub use hugging_face::HuggingFaceModel;
use keys::weights_of;
pub(super) use restored::RestoredOutputs;

/// The chat template, whose place some architectures keep before it is read.
const TEMPLATE: &str = "tokenizer.chat_template";

/// The file that transformers loads if there is no index: it has the whole model.
const WHOLE_MODEL: &str = "model.safetensors";

/// A checkpoint with the architecture that its configuration names.
pub(super) struct Model<'a> {
    checkpoint: &'a Checkpoint,
    architecture: &'static Architecture,
    raw: Map<String, Value>,
    directory: PathBuf,
    /// The model that a draft model predicts for.
    target: Option<target::Target>,
}

/// An input whose tensors get other names in GGUF: a language model, an adapter or a projector.
pub(super) enum MappedInput<'a> {
    Model(Model<'a>),
    Adapter(adapter::Adapter<'a>),
    Projector(projector::Projector<'a>),
}

impl MappedInput<'_> {
    pub(super) const fn architecture(&self) -> &'static Architecture {
        match self {
            Self::Model(model) => model.architecture(),
            Self::Adapter(adapter) => adapter.architecture(),
            Self::Projector(projector) => projector.architecture(),
        }
    }

    /// Plans every tensor and every key of the output.
    pub(super) fn outputs(&self, options: &ConvertOptions, quantise: Option<Quantise<'_>>) -> Result<MappedOutputs> {
        match self {
            Self::Model(model) => model.outputs(options, quantise),
            Self::Adapter(adapter) => adapter.outputs(options),
            Self::Projector(projector) => projector.outputs(options),
        }
    }
}

/// Plans mapped tensors of values, unquantised.
fn planned(
    (input, selected): (ClaimedCatalog<'_>, &SelectedTensors),
    tensors: &[Mapped],
    weights: Weights,
    rules: TypeRules,
) -> Result<Outputs> {
    let decoded = TargetDtype::F32;
    let types = Types::LlamaCpp { weights, rules, decoded, allow_nonfinite: false, fp8_as_q8: false };
    let mut planner = Planner::new(input, &selected.tensors, types, None);
    for mapped in tensors {
        planner.values(mapped, false).map_err(|error| error.in_tensor(&mapped.name))?;
    }
    planner.finish(selected.left_out)
}

/// The tensors and metadata of an output, without their offsets.
pub(super) struct MappedOutputs {
    pub outputs: Outputs,
    /// The metadata made by the architecture; `None` if no architecture is involved.
    pub metadata: Option<Metadata>,
    pub notes: Vec<String>,
}

impl Checkpoint {
    /// The input as it is mapped to the GGUF names of its architecture; `None` if names are kept.
    pub(super) fn mapped_for(
        &self,
        target: ConvertTarget,
        options: &ConvertOptions,
    ) -> Result<Option<MappedInput<'_>>> {
        if options.projector {
            return self.projector_for(target, options).map(MappedInput::Projector).map(Some);
        }
        if let Some(adapter) = self.adapter_for(target, options)? {
            return Ok(Some(MappedInput::Adapter(adapter)));
        }
        Ok(self.model_for(target, options)?.map(MappedInput::Model))
    }

    /// The model of a checkpoint that is mapped to the GGUF names of its architecture; `None` if names are kept.
    pub(super) fn model_for(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<Option<Model<'_>>> {
        let is_gguf = target.format() == Format::Gguf && self.format() != Format::Gguf;
        if !is_gguf || options.keep_names {
            return Ok(None);
        }
        let Some(directory) = self.directory().or_else(|| self.directory_of_model(options)) else { return Ok(None) };
        let files = Directory::new(directory, &self.limits);
        let Some(mut raw) = configuration::read(&files, options)? else { return Ok(None) };
        let architecture = match Architecture::of_config(&raw) {
            // A single file need not belong to the configuration in its folder, so an unknown architecture is no error.
            Err(_) if self.directory().is_none() && options.like.is_none() => None,
            known => known?,
        };
        let Some(architecture) = architecture else { return Ok(None) };
        let architecture = architecture.or_reranker(&files, &raw)?;
        let target = target::read(architecture, &mut raw, options)?;
        if architecture.has_pooling() {
            sentence_transformers::add_pooling(&files, &mut raw)?;
        }
        Ok(Some(Model { checkpoint: self, architecture, raw, directory: directory.to_path_buf(), target }))
    }

    /// The directory of a single file that has the whole model, judging by its name.
    fn directory_of_model(&self, options: &ConvertOptions) -> Option<&Path> {
        let [path] = &self.paths[..] else { return None };
        let whole = if options.mistral_format { mistral_format::WHOLE_MODEL } else { WHOLE_MODEL };
        (path.file_name()? == whole).then(|| path.parent())?
    }
}

impl Checkpoint {
    /// Refuses a model of a known architecture whose tensors are not those that its configuration implies: a checkpoint
    /// directory or a GGUF file. Partial models and unknown architectures pass.
    pub(crate) fn check_model(&self) -> Result<()> {
        let options = ConvertOptions::new();
        let checked = match self.format() {
            Format::Gguf => self.check_restorable(&options),
            _ => self
                .model_for(ConvertTarget::Gguf, &options)
                .and_then(|model| model.map_or(Ok(()), |model| model.check())),
        };
        match checked {
            // A model that cannot be converted is not necessarily faulty.
            Err(AnamnesisError::UnsupportedModel { .. } | AnamnesisError::Unsupported { .. }) => Ok(()),
            checked => checked,
        }
    }
}

impl Model<'_> {
    fn check(&self) -> Result<()> {
        let selected = ClaimedCatalog::of(self.checkpoint).select(&Selection::new(), None)?;
        let selected = selected.by_file_and_name(&self.checkpoint.catalog);
        let named = selected.named();
        let config = self.architecture.config_of(&self.raw, named.iter().map(|named| named.name))?;
        self.architecture.map(&named, &config, true).map(drop)
    }

    pub(super) const fn architecture(&self) -> &'static Architecture {
        self.architecture
    }

    /// The metadata and the vocabulary, without tensors.
    fn vocabulary_alone(&self, options: &ConvertOptions) -> Result<MappedOutputs> {
        let input = ClaimedCatalog::of(self.checkpoint);
        let files = Directory::new(&self.directory, &self.checkpoint.limits);
        let selected = input.select(&Selection::new(), None)?;
        let mut config = self.config(options, selected.named().iter().map(|named| named.name))?;
        config.measured = self.measured(&selected, config.layers().unwrap_or(0))?;
        let vocabulary = self.vocabulary(&files, &config, options)?;
        config.vocabulary = keys::tokens(&vocabulary);
        let weights = self.weights(options)?;
        let mut metadata = self.metadata(&files, &config, None, weights.file_type())?;
        metadata.append(vocabulary);
        metadata.remove_if_empty(TEMPLATE);
        let notes = std::mem::take(&mut metadata.notes);
        let outputs = planned((input, &SelectedTensors::none()), &[], weights, self.architecture.types())?;
        Ok(MappedOutputs { outputs, metadata: Some(metadata.into_parts().0), notes })
    }

    /// The configuration of a checkpoint with these tensors, with the layers for multi-token prediction that are requested.
    fn config<'n>(&self, options: &ConvertOptions, names: impl Iterator<Item = &'n str>) -> Result<Config> {
        match options {
            ConvertOptions { without_mtp: true, .. } => self.architecture.config_without_mtp(&self.raw, names),
            ConvertOptions { only_mtp: true, .. } => self.architecture.config_of_mtp(&self.raw, names),
            _ => self.architecture.config_of(&self.raw, names),
        }
    }

    /// Plans every tensor and every key of the output.
    pub(super) fn outputs(&self, options: &ConvertOptions, quantise: Option<Quantise<'_>>) -> Result<MappedOutputs> {
        if options.vocab_only {
            return self.vocabulary_alone(options);
        }
        let checkpoint = self.checkpoint;
        let input = ClaimedCatalog::of(checkpoint);
        let selected = input.select(&options.selection, quantise.as_ref())?.by_file_and_name(input.catalog);
        let files = Directory::new(&self.directory, &checkpoint.limits);
        let (named, is_whole) = (selected.named(), selected.left_out == 0);
        let mut config = self.config(options, named.iter().map(|named| named.name))?;
        if is_whole {
            self.architecture.check_vocabulary(&named, &config)?;
        }
        config.measured = self.measured(&selected, config.layers().unwrap_or(0))?;
        let vocabulary = self.vocabulary(&files, &config, options)?;
        config.vocabulary = keys::tokens(&vocabulary);
        if let Some(labels) = self.architecture.label_tokens() {
            config.label_ids = Some(keys::token_ids(&vocabulary, labels)?);
        }
        let (dense_modules, dense): (Vec<_>, Vec<_>) =
            self.dense_modules(&files, options.dense_modules)?.into_iter().unzip();
        config.dense_modules = dense_modules;
        let mut mapping = self.architecture.map(&named, &config, is_whole)?;
        mapping.tensors.splice(0..0, dense);
        keys::check_vocabulary(&mapping, &config)?;
        let weights = self.weights(options)?;
        let of_blocks = MappedBlocks { checkpoint, tensors: &selected.tensors };
        let mut blocks = if quantise.is_none() { of_blocks.kept(&mapping) } else { Vec::new() };
        if self.architecture.has_blocks_by_layer() {
            blocks.sort_by_key(KeptBlocks::layer);
        }
        let is_kept: BTreeSet<String> = blocks.iter().map(|kept| kept.mapped.name.clone()).collect();
        let file_type = match self.architecture.types().are_as_stored() {
            true => keys::MOSTLY_MXFP4,
            false => keys::file_type(weights, blocks.first().map(|kept| kept.block)),
        };
        let mut metadata = self.metadata(&files, &config, Some(&mapping), file_type)?;
        let of_floats = blocks.iter().filter(|kept| kept.block == BlockType::NVFP4).map(|kept| kept.mapped);
        of_blocks.input_scales().write_unquantised(of_floats, &mut metadata);
        // The token lists of a vocabulary are the largest metadata: they are moved, never copied.
        metadata.append(vocabulary);
        metadata.remove_if_empty(TEMPLATE);
        let notes = std::mem::take(&mut metadata.notes).into_iter().chain(keys::left_out_note(&mapping)).collect();
        let of_model = metadata.single();
        let quantise = quantise.map(|quantise| Quantise { metadata: Some(&of_model), ..quantise });
        let decoded = match weights {
            Weights::Q8_0 => TargetDtype::F32,
            Weights::Plain(_) => options.target_dtype()?.unwrap_or_default(),
        };
        let types = Types::LlamaCpp {
            weights,
            rules: self.architecture.types(),
            decoded,
            allow_nonfinite: options.allow_nonfinite,
            fp8_as_q8: options.fp8_as_q8,
        };
        let mut planner = Planner::new(input, &selected.tensors, types, quantise.as_ref());
        let of_tables: Vec<_> =
            mapping.tensors.iter().filter_map(|mapped| Some((mapped, self.table(mapped)?))).collect();
        for (mapped, kind) in of_tables.iter().filter(|(_, kind)| kind.is_first()) {
            self.plan_table(mapped, *kind, (&selected, &config), &mut planner)?;
        }
        for kept in blocks {
            of_blocks.plan(kept, &mut planner)?;
        }
        let is_value = |mapped: &&Mapped| !is_kept.contains(&mapped.name) && self.table(mapped).is_none();
        for mapped in mapping.tensors.iter().filter(is_value) {
            planner.values(mapped, false).map_err(|error| error.in_tensor(&mapped.name))?;
        }
        for (mapped, kind) in of_tables.iter().filter(|(_, kind)| !kind.is_first()) {
            self.plan_table(mapped, *kind, (&selected, &config), &mut planner)?;
        }
        let outputs = planner.finish(selected.left_out)?;
        Ok(MappedOutputs { outputs, metadata: Some(metadata.into_parts().0), notes })
    }
}
