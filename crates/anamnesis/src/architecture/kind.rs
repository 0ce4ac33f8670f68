//! The fields of an architecture.

use serde_json::{Map, Value};

use super::change::Change;
use super::config::Config;
use super::defaults::{self, ClassDefault, DefaultValue};
use super::gguf::Gguf;
use super::key::{self, Key, LAYER_KEYS};
use super::language_model;
use super::measured::{Measure, ReadTensor};
use super::metadata_builder::MetadataBuilder;
use super::names::{self, Rename};
use super::rule::Rule;
use super::sentence_transformers::DenseModules;
use super::sidecars::SidecarFiles;
use super::size::Size;
use super::tokenizer::rules::{self, TokenizerRules};
use super::types::TypeRules;
use crate::catalog::MetadataValue;
use crate::error::{Request, Result, quoted};

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
    /// Whether it is the architecture of a configuration that names one of its classes, if other architectures share them.
    pub(super) applies: fn(&Map<String, Value>) -> bool,
    /// The prefix of all its tensors in the checkpoint of a larger model, whose other tensors GGUF does not have.
    pub(super) part: &'static str,
    /// The prefix of a layer's tensors in a checkpoint.
    pub(super) layer_prefix: &'static str,
    /// Changes of checkpoint names before the rules are applied.
    pub(super) renames: &'static [Rename],
    /// Prefixes of renamed tensors that GGUF does not have.
    pub(super) dropped: &'static [&'static str],
    /// Whether it is the projector of a multimodal model: its towers without the language model.
    pub(super) is_projector: bool,
    /// Prefixes of renamed tensors whose numbers the configuration replaces, with the numbers in their place.
    pub(super) numbered: &'static [(&'static str, Renumber)],
    pub(super) rules: &'static [&'static [Rule]],
    /// The keys that the converter writes before anything else.
    pub(super) first_keys: &'static [Key],
    /// The keys that it writes next, while it prepares tensors.
    pub(super) early_keys: &'static [Key],
    pub(super) keys: &'static [&'static [Key]],
    /// Tensors whose values are derived from the configuration.
    pub(super) derived_tensors: &'static [DerivedTensor],
    /// Tensors whose values decide metadata or other tensors.
    pub(super) read_tensors: &'static [ReadTensor],
    /// How its vocabulary is read.
    pub(super) tokenizer: TokenizerRules,
    pub(super) head: Head,
    /// The prefix of tensors that count its layers, if `num_hidden_layers` counts those of another model.
    pub(super) counted_layers: Option<&'static str>,
    /// The number of layers for multi-token prediction, which are counted after `num_hidden_layers`.
    pub(super) nextn_layers: NextnLayers,
    /// Whether layers for multi-token prediction are dropped; otherwise layers after the last are refused.
    pub(super) drops_nextn_layers: bool,
    /// GGUF to Hugging Face: sets the configuration keys that the tables do not give, and returns the index of the class;
    /// `None` if the file does not hold the whole configuration.
    pub(super) restore: Option<Restore>,
    /// `quantization_config` of checkpoints whose experts are MXFP4, stored as `_blocks` and `_scales`.
    pub(super) packed_experts: Option<fn() -> Value>,
    /// Whether weights that stay blocks come layer by layer; otherwise they are in the order of their names.
    pub(super) blocks_by_layer: bool,
    /// Tensors whose types differ from those of other architectures.
    pub(super) types: TypeRules,
    /// The data that a GGUF file does not hold, if a checkpoint cannot be restored from it.
    pub(super) not_held: Option<&'static str>,
    /// A note on data that a GGUF file does not hold.
    pub(super) restore_note: Option<&'static str>,
    /// The architecture of models of its classes that judge texts, known by their names in directories, configurations and
    /// model cards.
    pub(super) reranker: Option<(&'static [&'static str], &'static Self)>,
    /// Whether it drafts for another model, which has its vocabulary.
    pub(super) needs_target: bool,
    /// The dense modules of sentence-transformers that are tensors of GGUF.
    pub(super) dense_modules: DenseModules,
}

/// Prefixes of keys that do not begin with the name of the architecture.
const WHOLE_KEYS: [&str; 5] = ["general.", "tokenizer.", "diffusion.", "xielu.", "vision.pos_emb_"];

/// The key that counts layers for multi-token prediction.
const NEXTN_KEY: &str = "nextn_predict_layers";

/// The number that takes the place of another.
pub(super) type Renumber = fn(&Config, u64) -> Result<u64>;

/// Sets the configuration keys that tables do not give.
pub(super) type Restore = fn(&Gguf<'_>, &mut Map<String, Value>) -> Result<usize>;

/// A model class of transformers.
pub(crate) struct Class {
    pub(super) name: &'static str,
    /// `model_type` of its configurations.
    pub(super) model_type: &'static str,
    /// The defaults of its configuration class: the shared ones, then its differences. Without any, they are those of the
    /// table of model types.
    pub(super) defaults: &'static [&'static [ClassDefault]],
}

/// A class whose defaults are in the table of model types.
pub(super) const fn class(name: &'static str, model_type: &'static str) -> Class {
    Class { name, model_type, defaults: &[] }
}

/// A tensor whose values are derived from the configuration; without values it is not written. With `{N}` in its name,
/// every layer has it.
pub(crate) struct DerivedTensor {
    pub(super) name: &'static str,
    /// The values of a row, if it is a matrix.
    pub(super) row: Option<Size>,
    pub(super) values: fn(&Config) -> Result<Option<Vec<f32>>>,
}

impl DerivedTensor {
    /// Whether it has this name in GGUF, in some layer.
    pub(super) fn is_named(&self, name: &str) -> bool {
        match self.name.split_once("{N}.") {
            None => self.name == name,
            Some((prefix, own)) => names::in_layer(prefix, name).is_some_and(|(_, rest)| rest == own),
        }
    }
}

/// The number of layers for multi-token prediction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NextnLayers {
    None,
    /// By a configuration key.
    Key(&'static str),
    /// By a configuration key, or else by the layers that tensors with this prefix have.
    KeyOrStored(&'static str, &'static str),
    Always(u64),
    /// One, in a checkpoint with this tensor.
    IfStored(&'static str),
    /// The layers of a second stack, those that tensors with this prefix have; they cannot be left out.
    SecondStack(&'static str),
}

impl NextnLayers {
    /// Whether a model may be without these layers.
    pub(super) const fn are_optional(self) -> bool {
        !matches!(self, Self::SecondStack(_))
    }

    /// The number in a checkpoint with these tensors.
    fn count<'a>(self, config: &Config, mut names: impl Iterator<Item = &'a str>) -> Result<u64> {
        Ok(match self {
            Self::None => 0,
            Self::Always(layers) => layers,
            Self::Key(key) => config.count(&[key])?.unwrap_or(0),
            Self::KeyOrStored(key, prefix) => match config.count(&[key])? {
                Some(layers @ 1..) => layers,
                _ => stored_layers(prefix, names),
            },
            Self::IfStored(tensor) => u64::from(names.any(|name| names::bare(name) == tensor)),
            Self::SecondStack(prefix) => stored_layers(prefix, names),
        })
    }
}

/// The number of layers that tensors with a prefix have.
fn stored_layers<'a>(prefix: &str, names: impl Iterator<Item = &'a str>) -> u64 {
    let layer = |name: &str| names::in_layer(prefix, name).map(|(layer, _)| layer.saturating_add(1));
    names.filter_map(|name| layer(name.strip_prefix("model.").unwrap_or(name))).max().unwrap_or(0)
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
    /// Where the checkpoint has it and its values are not those of the embedding; the digests of both are measured.
    UnlessEqual(&'static str, &'static str),
}

/// The fields of most decoders.
pub(super) const DECODER: Architecture = Architecture {
    name: "",
    classes: &[],
    applies: |_| true,
    part: "",
    layer_prefix: "model.layers.",
    renames: &[],
    dropped: &[],
    is_projector: false,
    numbered: &[],
    rules: &[],
    first_keys: &[],
    early_keys: &[],
    keys: &[key::COMMON],
    derived_tensors: &[],
    read_tensors: &[],
    tokenizer: rules::BPE,
    head: Head::IfStored,
    counted_layers: None,
    nextn_layers: NextnLayers::None,
    drops_nextn_layers: false,
    restore: Some(|_, _| Ok(0)),
    packed_experts: None,
    blocks_by_layer: false,
    types: TypeRules::USUAL,
    not_held: None,
    restore_note: None,
    reranker: None,
    needs_target: false,
    dense_modules: DenseModules::None,
};

/// The note on restored models whose configuration GGUF holds in part.
pub(super) const RESTORE_NOTE: &str = "keys of config.json that GGUF does not hold, such as the activation function, have the defaults of \
                            their class; vision and audio parts of a larger model, which GGUF keeps elsewhere, are not restored";

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
        let bare = self.local_name(name, None)?;
        self.rules().find_map(|rule| {
            let (layer, captures) = rule.of_hf(self.layer_prefix, &bare)?;
            (!rule.is_left_out).then(|| rule.gguf_name(layer, captures))
        })
    }

    /// The name that rules are written for; `None` for tensors that GGUF does not have.
    pub(super) fn local_name(&self, name: &str, layers: Option<u64>) -> Option<String> {
        if self.is_projector {
            return names::of_projector(name, self.renames, self.dropped);
        }
        let bare = names::bare(name.strip_prefix(self.part)?);
        if names::is_not_weight(&bare) {
            return None;
        }
        let name = names::renamed(&bare, self.renames, self.layer_prefix, layers);
        (!self.dropped.iter().any(|prefix| name.starts_with(prefix))).then_some(name)
    }

    /// Whether the configuration class of its first class has a default for a key.
    pub(super) fn has_default(&self, key: &str) -> bool {
        let Some(class) = self.classes.first() else { return false };
        match class.defaults {
            [] => defaults::of_class(class.model_type).iter().any(|(known, _)| *known == key),
            lists => lists.iter().copied().flatten().any(|(known, _)| *known == key),
        }
    }

    /// The keys that count layers, quoted for messages.
    pub(super) fn layer_keys(&self, config: &Config) -> String {
        let own = quoted(config.key_of(LAYER_KEYS));
        match self.nextn_layers {
            NextnLayers::Key(key) | NextnLayers::KeyOrStored(key, _) => format!("{own} and {}", quoted(key)),
            _ => own,
        }
    }

    /// The name in the checkpoint of a tensor that rules name, for messages.
    pub(super) fn stored_name(&self, name: &str) -> String {
        match self.is_projector {
            true => names::with_old_prefix(name, self.renames),
            false => format!("{}{name}", self.part),
        }
    }

    /// Whether its configuration is restored by tables and class defaults.
    pub(super) fn is_plainly_restored(&self) -> bool {
        self.restore_note == Some(RESTORE_NOTE)
    }

    /// Whether it writes a metadata key.
    pub(super) fn has_key(&self, gguf: &str) -> bool {
        self.keys.iter().flat_map(|keys| keys.iter()).any(|key| key.gguf == gguf)
    }

    /// Whether it writes the pooling of sentence encoders.
    pub(crate) fn has_pooling(&self) -> bool {
        self.has_key("pooling_type")
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &'static Rule> {
        self.rules.iter().flat_map(|rules| rules.iter())
    }

    /// The architecture of a model, or that of rerankers if its name says that it is one.
    pub(crate) fn or_reranker(
        &'static self,
        files: &dyn SidecarFiles,
        raw: &Map<String, Value>,
    ) -> Result<&'static Self> {
        let Some((names, reranker)) = self.reranker else { return Ok(self) };
        let path = raw.get("_name_or_path").and_then(Value::as_str).map(str::to_lowercase);
        let name = files.directory_name().map(|name| name.to_lowercase());
        let card = files.read("README.md")?.map(|card| String::from_utf8_lossy(&card).to_lowercase());
        let is_one = |kind: &&str| {
            let is_named = [&path, &name].into_iter().flatten().any(|name| name.contains(kind));
            is_named || card.as_ref().is_some_and(|card| card.contains(&format!("# {kind}")))
        };
        Ok(if names.iter().any(is_one) { reranker } else { self })
    }

    /// Whether it drafts for another model, which has its vocabulary.
    pub(crate) const fn needs_target(&self) -> bool {
        self.needs_target
    }

    /// The dense modules of sentence-transformers that are tensors of GGUF.
    pub(crate) const fn dense_modules(&self) -> DenseModules {
        self.dense_modules
    }

    /// The tokens whose rows of a head are a tensor of GGUF.
    pub(crate) fn label_tokens(&self) -> Option<&'static [&'static str]> {
        self.rules().flat_map(|rule| rule.changes).find_map(|change| match change {
            Change::TokenRows(tokens) => Some(*tokens),
            _ => None,
        })
    }

    /// The tensors whose values are read first.
    pub(crate) const fn read_tensors(&self) -> &'static [ReadTensor] {
        self.read_tensors
    }

    /// What is read of a tensor, if it is one of [`Self::read_tensors`], with its layer and name.
    pub(crate) fn reads(&self, name: &str, layers: u64) -> Option<((Option<u64>, &'static str), Measure)> {
        let name = self.local_name(name, Some(layers))?;
        self.read_tensors.iter().find_map(|read| {
            let layer = match read.is_in_layer {
                false => (name == read.name).then_some(None)?,
                true => {
                    let (layer, rest) = names::in_layer(self.layer_prefix, &name)?;
                    (rest == read.name).then_some(Some(layer))?
                }
            };
            Some(((layer, read.name), read.measure))
        })
    }

    /// Whether weights that stay blocks come layer by layer.
    pub(crate) const fn has_blocks_by_layer(&self) -> bool {
        self.blocks_by_layer
    }

    pub(crate) const fn types(&self) -> TypeRules {
        self.types
    }

    pub(crate) const fn tokenizer(&self) -> &TokenizerRules {
        &self.tokenizer
    }

    /// A configuration with the defaults of its class, and the layers for multi-token prediction that its keys count.
    pub(crate) fn config(&self, raw: &Map<String, Value>) -> Result<Config> {
        self.config_of(raw, std::iter::empty())
    }

    /// The configuration of a checkpoint with these tensors.
    pub(crate) fn config_of<'a>(
        &self,
        raw: &Map<String, Value>,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Config> {
        let mut config = Config::new(raw, &self.defaults(raw))?;
        match self.counted_layers {
            Some(prefix) => config.set_layers(stored_layers(prefix, names)),
            None => config.nextn_layers = self.nextn_layers.count(&config, names)?,
        }
        Ok(config)
    }

    /// The same without layers for multi-token prediction.
    pub(crate) fn config_without_mtp<'a>(
        &self,
        raw: &Map<String, Value>,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Config> {
        let mut config = self.config_of(raw, names)?;
        config.nextn_layers = 0;
        config.is_without_mtp = true;
        Ok(config)
    }

    /// The same with its layers for multi-token prediction and the tensors they share with the others.
    pub(crate) fn config_of_mtp<'a>(
        &self,
        raw: &Map<String, Value>,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Config> {
        let mut config = self.config_of(raw, names)?;
        if config.nextn_layers == 0 || !self.nextn_layers.are_optional() {
            let (what, why) = ("a draft model", "this model has no layers for multi-token prediction");
            return Err(Request::Contradiction { what: what.to_owned(), why: why.to_owned() }.into());
        }
        config.is_only_mtp = true;
        Ok(config)
    }

    /// A configuration with only those defaults of its class that follow from other keys.
    pub(crate) fn config_without_constants(&self, raw: &Map<String, Value>) -> Result<Config> {
        let mut defaults = self.defaults(raw);
        defaults.retain(|(_, default)| matches!(default, DefaultValue::Same(_) | DefaultValue::Quotient(..)));
        let mut config = Config::new(raw, &defaults)?;
        config.nextn_layers = self.nextn_layers.count(&config, std::iter::empty())?;
        Ok(config)
    }

    fn defaults(&self, raw: &Map<String, Value>) -> Vec<ClassDefault> {
        let class = language_model::class_of(raw);
        let class = self.classes.iter().find(|known| Some(known.name) == class);
        match class.map_or(&[][..], |class| class.defaults) {
            [] => defaults::of_model_type(raw),
            lists => defaults::merged(lists),
        }
    }

    /// Writes the keys that come first.
    pub(crate) fn write_first_keys(&self, config: &Config, metadata: &mut MetadataBuilder) -> Result<()> {
        self.write(self.first_keys.iter(), config, 0, metadata)
    }

    /// Writes the keys of tensors that come before `general.*`.
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
        for key in keys.filter(|key| !config.is_without_mtp || key.gguf != NEXTN_KEY) {
            let value: Option<MetadataValue> = key.value(config, file_type)?;
            let name = if WHOLE_KEYS.iter().any(|prefix| key.gguf.starts_with(prefix)) {
                key.gguf.to_owned()
            } else {
                format!("{}.{}", self.name, key.gguf)
            };
            match (value, key.from) {
                (Some(value), _) => metadata.set(name, value),
                (None, key::ValueSource::Removed) => metadata.remove(&name),
                (None, _) => {}
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
