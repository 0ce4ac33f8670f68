//! Quantising a model: which of its tensors, by which encoder, and the configuration and metadata that describe the
//! result.
//!
//! An [`Encoding`] is an entry of a scheme's table that can be requested by name. Its [`Quantiser`] sees all tensors at
//! once, because the decision for one may depend on the others, and returns for each an encoder or the reason to keep
//! it.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use super::block_options::BlockOptions;
use super::bnb_options::BnbOptions;
use super::group_options::GroupOptions;
use crate::catalog::{BlockType, Metadata, NamePatterns, TargetDtype};
use crate::error::{Request, Result, quoted};
use crate::scheme::coder::TileEncoder;
use crate::scheme::model_class::Layer;

/// A target format of quantisation that can be requested by name.
pub(crate) struct Encoding {
    /// Its name, which output files have too, and aliases.
    pub names: &'static [&'static str],
    /// A description of the quantised weights in a few words.
    pub about: &'static str,
    /// The abbreviation used in reports, such as `NF4`.
    pub short: &'static str,
    pub packing: Packing,
    pub quantiser: &'static dyn Quantiser,
}

impl fmt::Debug for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Encoding {
    /// An encoding whose weights have their scales in companion tensors.
    pub(crate) const fn with_companions(
        names: &'static [&'static str],
        about: &'static str,
        short: &'static str,
        quantiser: &'static dyn Quantiser,
    ) -> Self {
        Self { names, about, short, packing: Packing::Companions, quantiser }
    }

    /// Its name.
    pub(crate) const fn name(&self) -> &'static str {
        self.names[0]
    }

    /// The decision for every tensor, in their order, by the quantiser of this encoding or of the one the caller
    /// requested for it.
    pub(crate) fn plan(&'static self, task: &Task<'_>) -> Result<Vec<Decision>> {
        // A mix needs all tensors: the type of one depends on the others.
        if self.packing == Packing::Blocks {
            return self.quantiser.plan(task);
        }
        let of = |tensor: &Candidate<'_>| match tensor.requested {
            Some(Override::Encode(other)) => other,
            Some(Override::Keep) | None => self,
        };
        let mut encodings = vec![self];
        for tensor in task.tensors {
            if !encodings.iter().any(|encoding| encoding.name() == of(tensor).name()) {
                encodings.push(of(tensor));
            }
        }
        let mut decisions: Vec<Option<Decision>> = task.tensors.iter().map(|_| None).collect();
        for (decision, tensor) in decisions.iter_mut().zip(task.tensors) {
            *decision = of(tensor).kept_by_loader(tensor, task.rules)?.map(Decision::Keep);
        }
        for encoding in encodings {
            let mine = task.tensors.iter().zip(&decisions).enumerate();
            let mine = mine.filter(|(_, (tensor, left))| left.is_none() && of(tensor).name() == encoding.name());
            let (places, tensors): (Vec<usize>, Vec<Candidate<'_>>) =
                mine.map(|(place, (tensor, _))| (place, *tensor)).unzip();
            let decided = encoding.quantiser.plan(&Task { tensors: &tensors, ..*task })?;
            for (place, decision) in places.into_iter().zip(decided) {
                decisions[place] = Some(decision);
            }
        }
        Ok(decisions.into_iter().map(|decision| decision.unwrap_or(Decision::Keep(Keeping::NotALayer))).collect())
    }

    /// Why a matrix is kept because loaders would not replace its layer. A request to quantise it is refused, except
    /// for the head.
    fn kept_by_loader(&self, tensor: &Candidate<'_>, rules: &NamePatterns) -> Result<Option<Keeping>> {
        if tensor.layer == Layer::Expert && !self.quantiser.loads_experts() {
            let what = format!("{} for a model with experts, such as {}", self.name(), quoted(tensor.name));
            let why =
                "its loader fills the modules of transformers by name, and experts are one tensor there".to_owned();
            return Err(Request::Contradiction { what, why }.into());
        }
        let kept = self.quantiser.keeps(tensor.layer).filter(|_| tensor.shape.len() == 2);
        let Some(keeping) = kept.filter(|_| !rules.excludes(tensor.name)) else { return Ok(None) };
        let is_requested = match tensor.requested {
            Some(Override::Keep) => return Ok(None),
            Some(Override::Encode(_)) => true,
            None => !rules.takes_all() && rules.takes(tensor.name),
        };
        match is_requested {
            true if keeping == Keeping::Head => Ok(None),
            true => {
                let what = format!("{} for tensor {}", self.name(), quoted(tensor.name));
                let why = format!("to its loader it is {}", keeping.reason());
                Err(Request::Contradiction { what, why }.into())
            }
            false => Ok(Some(keeping)),
        }
    }

    /// Whether the weight of a layer is transposed before it is encoded.
    pub(crate) fn transposes(&self, layer: Layer) -> bool {
        layer == Layer::Conv1d && self.packing == Packing::Companions && self.quantiser.transposes_conv1d()
    }
}

/// How the output stores quantised weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// As codes and companion tensors, which the model's configuration describes.
    Companions,
    /// As ggml blocks: each weight is one tensor.
    Blocks,
}

/// Plans the quantisation of a model to one encoding.
pub(crate) trait Quantiser: Send + Sync {
    /// The decision for every tensor, in their order. Options that do not apply are refused here.
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>>;

    /// The libraries that load the result, with the versions it was tested with.
    fn loaded_by(&self) -> &'static str;

    /// The libraries that load the result for a mixture of experts.
    fn loaded_with_experts_by(&self) -> &'static str {
        self.loaded_by()
    }

    /// Why the weight of a layer is kept: loaders do not replace a layer of this class by a quantised one.
    fn keeps(&self, layer: Layer) -> Option<Keeping> {
        match layer {
            Layer::Linear | Layer::Inherited | Layer::Expert => None,
            Layer::Conv1d => Some(Keeping::Transposed),
            Layer::InF32 => Some(Keeping::InF32),
            Layer::Head => Some(Keeping::Head),
            Layer::Bypassed | Layer::Other => Some(Keeping::NotReplaced),
        }
    }

    /// Whether loaders find experts that a file stores one by one, although transformers holds them in one tensor.
    fn loads_experts(&self) -> bool {
        true
    }

    /// Whether layers of the class `Conv1D`, whose weights are stored transposed, are quantised like linear layers.
    fn transposes_conv1d(&self) -> bool {
        false
    }

    /// The type that loaders always decode to, so that only models of this type run.
    fn required_dtype(&self) -> Option<TargetDtype> {
        None
    }

    /// The description of the quantised weights in the model's configuration.
    fn configuration(&self, model: &QuantisedModel<'_>) -> Option<Value> {
        let _ = model;
        None
    }

    /// Sidecar files that describe the quantised weights too, if loaders look for any.
    fn documents(&self, model: &QuantisedModel<'_>) -> Vec<(&'static str, Value)> {
        let _ = model;
        Vec::new()
    }

    /// Whether the weights cannot be read without [`configuration`](Self::configuration).
    fn needs_configuration(&self) -> bool {
        true
    }

    /// Whether the configuration can describe weights of this other encoding too.
    fn mixes_with(&self, other: &str) -> bool {
        let _ = other;
        false
    }

    /// The keys of `config.json` that [`configuration`](Self::configuration) is written under.
    fn members(&self) -> &'static [&'static str] {
        &["quantization_config"]
    }

    /// The metadata of an output file that describes the quantised weights.
    fn metadata(&self, model: &QuantisedModel<'_>) -> Metadata {
        let _ = model;
        Metadata::new()
    }
}

/// The input of planning: the tensors of a model, and what the caller requested.
pub(crate) struct Task<'a> {
    pub tensors: &'a [Candidate<'a>],
    pub options: &'a QuantiseOptions,
    /// The caller's patterns of tensors to quantise and to keep.
    pub rules: &'a NamePatterns,
    /// The metadata of the input.
    pub metadata: Option<&'a Metadata>,
}

/// A tensor that may be quantised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// Its name in the input.
    pub name: &'a str,
    /// Its name in the output.
    pub output_name: &'a str,
    pub shape: &'a [usize],
    /// The type that its values are stored as, or decoded to.
    pub dtype: TargetDtype,
    /// The file it is stored in and its offset, if the output keeps that order.
    pub place: Option<(u32, u64)>,
    /// The caller's override for this tensor.
    pub requested: Option<Override>,
    /// The class of its layer.
    pub layer: Layer,
}

/// The caller's request for a single tensor, which overrides the defaults.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Override {
    /// Keep it unquantised.
    Keep,
    /// Quantise it to this encoding.
    Encode(&'static Encoding),
}

impl Candidate<'_> {
    /// The name of its module in the output.
    pub(crate) fn module(&self) -> &str {
        match self.output_name.strip_suffix("weight") {
            Some(module) => module.strip_suffix('.').unwrap_or(if module.is_empty() { "" } else { self.output_name }),
            None => self.output_name,
        }
    }

    /// The name of a tensor in its module, such as a companion.
    pub(crate) fn part(&self, part: &str) -> String {
        match self.module() {
            "" => part.to_owned(),
            module => format!("{module}.{part}"),
        }
    }

    /// The number of values in a row.
    pub(crate) fn row(&self) -> u64 {
        self.shape.last().map_or(1, |&row| row as u64)
    }
}

/// Whether and how a tensor is encoded.
pub(crate) enum Decision {
    Encode(Box<dyn TileEncoder>),
    /// Encoded to another type, because its rows do not divide into blocks of this one.
    EncodeInstead(Box<dyn TileEncoder>, BlockType),
    /// Encoded with a global scale that all weights of the set of this name share.
    EncodeShared(Box<dyn TileEncoder>, String),
    Keep(Keeping),
}

/// The decisions for a model.
pub(crate) struct QuantisedModel<'a> {
    pub options: &'a QuantiseOptions,
    /// The names of quantised weights in the output.
    pub quantised: Vec<&'a str>,
    /// The quantised weights that have another encoding than the main one, with its name.
    pub others: Vec<(&'a str, &'static str)>,
    /// The weights that are kept, by their names in the output.
    pub kept: Vec<(&'a str, Keeping)>,
    /// Heads that the model may have although its file does not store them; loaders take them for quantised layers by
    /// default.
    pub unstored: Vec<&'static str>,
    /// The type of the first quantised weight before quantisation.
    pub dtype: TargetDtype,
}

/// Modules that are embeddings in every class, so that loaders never replace them.
const EMBEDDINGS: [&str; 16] = [
    "embed_tokens",
    "embed_positions",
    "wte",
    "wpe",
    "word_embeddings",
    "position_embeddings",
    "token_type_embeddings",
    "shared",
    "embedding",
    "embeddings",
    "embed_in",
    "token_embedding",
    "position_embedding",
    "tokens_embed",
    "positions_embed",
    "relative_attention_bias",
];

/// The module of a quantised weight, by the name of its first tensor.
fn module_of(name: &str) -> &str {
    let weight = name.strip_suffix("._data").unwrap_or(name);
    weight.rsplit_once('.').map_or("", |(module, _)| module)
}

impl<'a> QuantisedModel<'a> {
    /// The modules of other encodings than the main one, grouped by encoding in order of appearance.
    pub(crate) fn modules_of_other_encodings(&self) -> Vec<(&'static str, Vec<&'a str>)> {
        let mut all: Vec<(&'static str, Vec<&'a str>)> = Vec::new();
        for &(name, encoding) in &self.others {
            let module = name.rsplit_once('.').map_or("", |(module, _)| module);
            match all.iter_mut().find(|(other, _)| *other == encoding) {
                Some((_, modules)) => modules.push(module),
                None => all.push((encoding, vec![module])),
            }
        }
        all
    }

    /// The modules of the main encoding.
    pub(crate) fn modules_of_main_encoding(&self) -> impl Iterator<Item = &'a str> {
        let others: HashSet<&str> = self.others.iter().map(|(name, _)| *name).collect();
        let main = self.quantised.iter().filter(move |name| !others.contains(*name));
        main.map(|name| name.rsplit_once('.').map_or("", |(module, _)| module)).collect::<Vec<_>>().into_iter()
    }

    /// The modules that are not quantised although loaders would replace them.
    pub(crate) fn kept_modules(&self) -> Vec<String> {
        let is_layer = |name: &str, keeping: Keeping| match keeping {
            Keeping::Embedding => !name.rsplit('.').next().is_some_and(|last| EMBEDDINGS.contains(&last)),
            Keeping::NotAMatrix | Keeping::Norm | Keeping::NotALayer | Keeping::Empty => false,
            _ => true,
        };
        let kept = self.kept.iter().filter_map(|(name, keeping)| Some((name.strip_suffix(".weight")?, *keeping)));
        let mut modules: Vec<_> =
            kept.filter(|(name, keeping)| is_layer(name, *keeping)).map(|(name, _)| name.to_owned()).collect();
        for &head in &self.unstored {
            let is_quantised = self.quantised.iter().any(|name| module_of(name) == head);
            if !is_quantised && !modules.iter().any(|module| module == head) {
                modules.push(head.to_owned());
            }
        }
        modules
    }

    /// [`kept_modules`](Self::kept_modules) for loaders that match an entry as a prefix or a suffix of module names. An
    /// entry that would match a quantised module too is written as a regular expression that matches only its own
    /// module.
    pub(crate) fn kept_module_patterns(&self) -> Vec<String> {
        let matches = |module: &str, entry: &str| {
            module.ends_with(entry) || module.strip_prefix(entry).is_some_and(|rest| rest.starts_with('.'))
        };
        let matches_quantised = |entry: &str| self.quantised.iter().any(|name| matches(module_of(name), entry));
        let exactly = |entry: String| match matches_quantised(&entry) {
            true => format!("^{}$", entry.replace('.', "\\.")),
            false => entry,
        };
        self.kept_modules().into_iter().map(exactly).collect()
    }
}

/// Why a weight is not quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Keeping {
    /// It is not a matrix.
    NotAMatrix,
    /// It is an embedding.
    Embedding,
    /// It is the head of the model.
    Head,
    /// It is a norm.
    Norm,
    /// It is a bias or a state-space parameter, not the weight of a layer.
    NotALayer,
    /// It chooses among experts.
    Router,
    /// It belongs to a vision or audio encoder in front of the language model.
    Tower,
    /// It is an input, output or conditioning layer of a diffusion model.
    Conditioning,
    /// It belongs to an adapter, such as LoRA.
    Adapter,
    /// Its rows do not divide into blocks of the target type, and the target's own library keeps such weights.
    Indivisible,
    /// It is stored transposed (`Conv1D`), and its loader quantises linear layers only.
    Transposed,
    /// Its class keeps it in F32.
    InF32,
    /// Its loader does not replace layers of its class by quantised ones.
    NotReplaced,
    /// It has no values.
    Empty,
    /// The caller asked to keep it.
    Asked,
}

impl Keeping {
    /// The reason in a few words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotAMatrix => "not a matrix",
            Self::Embedding => "an embedding",
            Self::Head => "the head of the model",
            Self::Norm => "a norm",
            Self::NotALayer => "not the weight of a layer",
            Self::Router => "a router",
            Self::Tower => "not of the language model",
            Self::Conditioning => "an input, output or conditioning layer",
            Self::Adapter => "of an adapter",
            Self::Indivisible => "not divided by the blocks",
            Self::Transposed => "a Conv1D, which is stored transposed",
            Self::InF32 => "kept in F32 by its class",
            Self::NotReplaced => "not a layer that its loader quantizes",
            Self::Empty => "without values",
            Self::Asked => "kept as asked",
        }
    }
}

/// The options of all quantisers.
///
/// ```
/// use anamnesis::{BnbOptions, ConvertOptions};
/// let options = ConvertOptions::new().with_bnb(BnbOptions::new().with_block_size(128).with_double_quant(true));
/// assert_eq!(options.quantise.bnb.block_size, Some(128));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct QuantiseOptions {
    /// For BitsAndBytes.
    pub bnb: BnbOptions,
    /// For ggml blocks.
    pub blocks: BlockOptions,
    /// For group-wise quantisation.
    pub groups: GroupOptions,
}

impl QuantiseOptions {
    /// Refuses any option, because `target` has none.
    pub(crate) fn check_unused(&self, target: &str) -> Result<()> {
        if *self == Self::default() {
            return Ok(());
        }
        let what = format!("options for quantising to {target}");
        Err(Request::Contradiction { what, why: "it has none of them".to_owned() }.into())
    }

    /// Refuses all options except those of group-wise quantisation.
    pub(crate) fn check_only_groups(&self, target: &str) -> Result<()> {
        Self { groups: GroupOptions::default(), ..self.clone() }.check_unused(target)
    }
}
