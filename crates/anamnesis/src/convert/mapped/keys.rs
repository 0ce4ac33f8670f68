//! The metadata of a mapped output, and its file type.

use super::Model;
use crate::architecture::card::{self, Counts, FileType};
use crate::architecture::config::Config;
use crate::architecture::metadata_builder::MetadataBuilder;
use crate::architecture::sidecars::{Directory, SidecarFiles};
use crate::architecture::tokenizer::rules::VocabularyKind;
use crate::architecture::tokenizer::{self, VocabularyRequest};
use crate::architecture::types::Weights;
use crate::architecture::{Architecture, Mapping};
use crate::catalog::{BlockType, Dtype, MetadataArray, MetadataValue, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::convert::options::ConvertOptions;
use crate::error::{AnamnesisError, ModelPart, Result, quoted};

/// A file of draft models with the embedding of the token that they replace.
const MASK_EMBEDDING: &str = "mask_embedding.pt";

/// The key that names the pre-tokenizer of a vocabulary.
const PRE: &str = "tokenizer.ggml.pre";

impl Model<'_> {
    /// The metadata of the vocabulary, from the tokenizer files of the checkpoint.
    pub(super) fn vocabulary(
        &self,
        files: &Directory,
        config: &Config,
        options: &ConvertOptions,
    ) -> Result<MetadataBuilder> {
        let pre = match options.gguf_metadata.get(PRE) {
            Some(MetadataValue::String(pre)) => Some(pre.as_str()),
            _ => None,
        };
        let request = VocabularyRequest {
            rules: self.architecture.tokenizer(),
            config: self.target.as_ref().map_or(&self.raw, |target| &target.config),
            filled: Some(config),
            vocab_size: config.count(&["vocab_size"])?,
            architecture: self.architecture.name(),
            pre,
        };
        let Some(target) = &self.target else { return tokenizer::keys(files, &request) };
        let target_files = Directory::new(&target.directory, &self.checkpoint.limits);
        if request.rules.kind != VocabularyKind::OfTarget {
            return tokenizer::keys(&target_files, &request);
        }
        if files.read(MASK_EMBEDDING)?.is_some() {
            let why = format!("its {MASK_EMBEDDING}, which replaces a row of the target's embedding, is not converted");
            return Err(AnamnesisError::unsupported_model(ModelPart::Architecture, self.architecture.name(), why));
        }
        let Some(architecture) = Architecture::of_config(&target.config)? else {
            let why = "config.json of the target names no class";
            return Err(AnamnesisError::unsupported_model(ModelPart::Target, self.architecture.name(), why));
        };
        let filled = architecture.config(&target.config)?;
        let own = VocabularyRequest { rules: architecture.tokenizer(), filled: Some(&filled), ..request };
        let mut metadata = tokenizer::keys(&target_files, &own)?;
        tokenizer::write_config_ids(request.rules, config, &mut metadata)?;
        Ok(metadata)
    }

    /// All keys except those of the vocabulary, in file order. Without tensors, there are no keys of them.
    pub(super) fn metadata(
        &self,
        files: &Directory,
        config: &Config,
        mapping: Option<&Mapping>,
        file_type: u32,
    ) -> Result<MetadataBuilder> {
        let mut counts = Counts::default();
        mapping.iter().flat_map(|mapping| &mapping.tensors).for_each(|mapped| counts.add(&mapped.name, &mapped.shape));
        let mut metadata = MetadataBuilder::default();
        metadata.text("general.architecture", self.architecture.name());
        self.architecture.write_first_keys(config, &mut metadata)?;
        if mapping.is_some() {
            self.architecture.write_early_keys(config, &mut metadata)?;
        }
        let general = card::general(files, &self.raw, &counts, FileType::Model)?;
        general.entries().iter().for_each(|(key, value)| metadata.set(key.clone(), value.clone()));
        metadata.notes.extend(general.notes);
        self.architecture.write_keys(config, file_type, &mut metadata)?;
        metadata.number("general.quantization_version", 2);
        Ok(metadata)
    }

    /// The type of most weights: the requested one, or that of the first matrix of BF16 or F16.
    pub(super) fn weights(&self, options: &ConvertOptions) -> Result<Weights> {
        weights_of(self.checkpoint, options)
    }
}

/// The type of most weights of a checkpoint: the requested one, or that of the first matrix of BF16 or F16.
pub(super) fn weights_of(checkpoint: &Checkpoint, options: &ConvertOptions) -> Result<Weights> {
    if options.output_dtype == Some(Dtype::Block(BlockType::Q8_0)) {
        return Ok(Weights::Q8_0);
    }
    if let Some(dtype) = options.target_dtype()? {
        return Ok(Weights::Plain(dtype));
    }
    let matrices = checkpoint.catalog.iter().filter(|(_, tensor)| tensor.shape.len() > 1);
    let half = matrices.map(|(_, tensor)| tensor.dtype).find(|dtype| matches!(dtype, Dtype::BF16 | Dtype::F16));
    Ok(Weights::Plain(if half == Some(Dtype::BF16) { TargetDtype::BF16 } else { TargetDtype::F16 }))
}

/// `general.file_type` of models whose experts are MXFP4.
pub(super) const MOSTLY_MXFP4: u32 = 38;

/// The value of `general.file_type`, where some weights may stay blocks.
pub(super) fn file_type(weights: Weights, block: Option<BlockType>) -> u32 {
    match (weights, block) {
        (Weights::Plain(_), Some(BlockType::MXFP4)) => MOSTLY_MXFP4,
        (Weights::Plain(_), Some(BlockType::NVFP4)) => 39,
        _ => weights.file_type(),
    }
}

/// The number of tokens of a vocabulary.
pub(super) fn tokens(vocabulary: &MetadataBuilder) -> Option<u64> {
    let tokens = vocabulary.entries().iter().find(|(key, _)| key == "tokenizer.ggml.tokens")?;
    match &tokens.1 {
        MetadataValue::Array(array) => Some(array.len() as u64),
        _ => None,
    }
}

/// The ids of tokens, which must be in the vocabulary.
pub(super) fn token_ids(vocabulary: &MetadataBuilder, wanted: &[&str]) -> Result<Vec<u64>> {
    let tokens = vocabulary.entries().iter().find(|(key, _)| key == "tokenizer.ggml.tokens");
    let tokens = match tokens.map(|(_, tokens)| tokens) {
        Some(MetadataValue::Array(array)) => match &**array {
            MetadataArray::String(tokens) => tokens.as_slice(),
            _ => &[],
        },
        _ => &[],
    };
    let id = |token: &&str| {
        let place = tokens.iter().position(|known| known == token);
        let missing = || AnamnesisError::parse(format!("the vocabulary has no token {}, an answer", quoted(token)));
        place.map(|place| place as u64).ok_or_else(missing)
    };
    wanted.iter().map(id).collect()
}

/// Refuses a vocabulary with more tokens than the embedding has rows.
pub(super) fn check_vocabulary(mapping: &Mapping, config: &Config) -> Result<()> {
    let embedding = mapping.tensors.iter().find(|mapped| mapped.name == "token_embd.weight");
    let rows = embedding.and_then(|mapped| mapped.shape.first());
    match (config.vocabulary, rows) {
        (Some(tokens), Some(&rows)) if tokens > rows as u64 => {
            Err(AnamnesisError::parse(format!("the vocabulary has {tokens} tokens, the embedding {rows} rows")))
        }
        _ => Ok(()),
    }
}

/// A note on tensors that are not part of the language model.
pub(super) fn left_out_note(mapping: &Mapping) -> Option<String> {
    match mapping.left_out.len() {
        0 => None,
        1 => Some(format!("one tensor has no place in the output: {}", mapping.left_out[0])),
        many => Some(format!("{many} tensors have no place in the output, such as {}", mapping.left_out[0])),
    }
}
