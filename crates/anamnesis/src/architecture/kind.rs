//! The fields of an architecture.

use serde_json::{Map, Value};

use super::config::{self, Config};
use super::defaults::{self, ClassDefault, DefaultValue};
use super::gguf::Gguf;
use super::key::{self, Key};
use super::metadata_builder::MetadataBuilder;
use super::names;
use super::rule::Rule;
use super::sidecars::SidecarFiles;
use super::tokenizer::rules::{self, TokenizerRules};
use crate::catalog::MetadataValue;
use crate::error::{AnamnesisError, Result};

/// How the models of one architecture differ between Hugging Face and GGUF.
///
/// ```
/// use anamnesis::Architecture;
/// let llama = Architecture::of_class("LlamaForCausalLM").unwrap();
/// assert_eq!(llama.name(), "llama");
/// let name = llama.map_name("model.layers.7.self_attn.q_proj.weight");
/// assert_eq!(name.as_deref(), Some("blk.7.attn_q.weight"));
/// ```
pub struct Architecture {
    pub(super) name: &'static str,
    pub(super) classes: &'static [Class],
    /// The prefix of a layer's tensors in a checkpoint.
    pub(super) layer_prefix: &'static str,
    pub(super) rules: &'static [&'static [Rule]],
    /// The keys that the converter writes first, while it prepares tensors.
    pub(super) early_keys: &'static [Key],
    pub(super) keys: &'static [&'static [Key]],
    /// Tensors whose values are derived from the configuration.
    pub(super) derived_tensors: &'static [DerivedTensor],
    /// How its vocabulary is read.
    pub(super) tokenizer: TokenizerRules,
    pub(super) head: Head,
    /// The configuration key that counts the layers for multi-token prediction, after `num_hidden_layers`.
    pub(super) nextn_layers: Option<&'static str>,
    /// Whether layers for multi-token prediction are dropped; otherwise layers after the last are refused.
    pub(super) drops_nextn_layers: bool,
    /// GGUF to Hugging Face: sets the configuration keys that the tables do not give, and returns the index of the class.
    pub(super) restore: fn(&Gguf<'_>, &mut Map<String, Value>) -> Result<usize>,
    /// `quantization_config` of checkpoints whose experts are MXFP4, stored as `_blocks` and `_scales`.
    pub(super) packed_experts: Option<fn() -> Value>,
    /// A note on data that a GGUF file does not hold.
    pub(super) restore_note: Option<&'static str>,
    /// Models of its classes that have another head in GGUF, by their names in directories, configurations and model cards;
    /// they are refused.
    pub(super) refused_names: &'static [&'static str],
}

/// A model class of transformers.
pub(crate) struct Class {
    pub(super) name: &'static str,
    /// `model_type` of its configurations.
    pub(super) model_type: &'static str,
    /// The defaults of its configuration class: the shared ones, then its differences.
    pub(super) defaults: &'static [&'static [ClassDefault]],
}

/// A tensor whose values are derived from the configuration; without values it is not written.
pub(crate) struct DerivedTensor {
    pub(super) name: &'static str,
    pub(super) values: fn(&Config) -> Result<Option<Vec<f32>>>,
}

/// When `output.weight` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// Where the checkpoint has it.
    IfStored,
    /// Never: the embedding is the head.
    Never,
    /// Where the checkpoint has it; llama.cpp does not load a file without it.
    Always,
    /// Where the checkpoint has it and `tie_word_embeddings` is not set.
    UnlessTied,
}

/// The fields of most decoders.
pub(super) const DECODER: Architecture = Architecture {
    name: "",
    classes: &[],
    layer_prefix: "model.layers.",
    rules: &[],
    early_keys: &[],
    keys: &[key::COMMON],
    derived_tensors: &[],
    tokenizer: rules::BPE,
    head: Head::IfStored,
    nextn_layers: None,
    drops_nextn_layers: false,
    restore: |_, _| Ok(0),
    packed_experts: None,
    restore_note: None,
    refused_names: &[],
};

impl Architecture {
    /// Its name in GGUF.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its model classes in transformers.
    pub fn classes(&self) -> impl Iterator<Item = &'static str> {
        self.classes.iter().map(|class| class.name)
    }

    /// The GGUF name of a tensor of a checkpoint, if it has one. A tensor that is split has the name of its first half;
    /// stacked experts share a name.
    #[must_use]
    pub fn map_name(&self, name: &str) -> Option<String> {
        let bare = names::bare(name);
        if names::is_not_weight(&bare) {
            return None;
        }
        self.rules().find_map(|rule| {
            let (layer, captures) = rule.of_hf(self.layer_prefix, &bare)?;
            (!rule.is_left_out).then(|| rule.gguf_name(layer, captures))
        })
    }

    /// Whether it writes a metadata key.
    pub(super) fn has_key(&self, gguf: &str) -> bool {
        self.keys.iter().flat_map(|keys| keys.iter()).any(|key| key.gguf == gguf)
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        self.rules.iter().flat_map(|rules| rules.iter())
    }

    /// Refuses a model with a head that is not supported, recognised by its name.
    pub(crate) fn check_kind(&self, files: &dyn SidecarFiles, raw: &Map<String, Value>) -> Result<()> {
        if self.refused_names.is_empty() {
            return Ok(());
        }
        let path = raw.get("_name_or_path").and_then(Value::as_str).map(str::to_lowercase);
        let name = files.directory_name().map(|name| name.to_lowercase());
        let card = files.read("README.md")?.map(|card| String::from_utf8_lossy(&card).to_lowercase());
        for kind in self.refused_names {
            let is_named = [&path, &name].into_iter().flatten().any(|name| name.contains(kind));
            if is_named || card.as_ref().is_some_and(|card| card.contains(&format!("# {kind}"))) {
                let why = format!("GGUF has a head of its own for {kind}, which is not made");
                return Err(AnamnesisError::unsupported(*kind, why));
            }
        }
        Ok(())
    }

    pub(crate) const fn tokenizer(&self) -> &TokenizerRules {
        &self.tokenizer
    }

    /// A configuration with the defaults of its class.
    pub(crate) fn config(&self, raw: &Map<String, Value>) -> Result<Config> {
        Config::new(raw, &self.defaults(raw))
    }

    /// A configuration with only those defaults of its class that follow from other keys.
    pub(crate) fn config_without_constants(&self, raw: &Map<String, Value>) -> Result<Config> {
        let mut defaults = self.defaults(raw);
        defaults.retain(|(_, default)| matches!(default, DefaultValue::Same(_) | DefaultValue::Quotient(..)));
        Config::new(raw, &defaults)
    }

    fn defaults(&self, raw: &Map<String, Value>) -> Vec<ClassDefault> {
        let class = config::class_of(raw);
        let class = self.classes.iter().find(|known| Some(known.name) == class);
        defaults::merged(class.map_or(&[], |class| class.defaults))
    }

    /// Writes the keys that come before `general.*`.
    pub(crate) fn write_early_keys(&self, config: &Config, metadata: &mut MetadataBuilder) -> Result<()> {
        self.write(self.early_keys.iter(), config, 0, metadata)
    }

    /// Writes the keys of the hyperparameters.
    pub(crate) fn write_keys(&self, config: &Config, file_type: u32, metadata: &mut MetadataBuilder) -> Result<()> {
        self.write(self.keys.iter().flat_map(|keys| keys.iter()), config, file_type, metadata)
    }

    fn write(
        &self,
        keys: impl Iterator<Item = &'static Key>,
        config: &Config,
        file_type: u32,
        metadata: &mut MetadataBuilder,
    ) -> Result<()> {
        for key in keys {
            let value: Option<MetadataValue> = key.value(config, file_type)?;
            let name = if key.gguf.starts_with("general.") {
                key.gguf.to_owned()
            } else {
                format!("{}.{}", self.name, key.gguf)
            };
            if let Some(value) = value {
                metadata.set(name, value);
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Architecture").field(&self.name).finish()
    }
}
