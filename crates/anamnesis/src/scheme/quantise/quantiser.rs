//! Quantising a model: which of its tensors, by which encoder, and what is told of it afterwards.
//!
//! An [`Encoding`] is one line of a scheme's table: what can be asked for by name. Its [`Quantiser`] sees all tensors at once,
//! because what becomes of one may depend on the others, and answers for each with an encoder or with the reason to keep it.

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

/// A way of quantising that can be asked for.
pub(crate) struct Encoding {
    /// The names it is asked for by. The first is its own; files are called by it too.
    pub names: &'static [&'static str],
    /// What weights become, in a few words.
    pub about: &'static str,
    /// What a weight is short for in reports, such as `NF4`.
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
    /// One whose weights have their scales in tensors beside them.
    pub(crate) const fn with_companions(
        names: &'static [&'static str],
        about: &'static str,
        short: &'static str,
        quantiser: &'static dyn Quantiser,
    ) -> Self {
        Self { names, about, short, packing: Packing::Companions, quantiser }
    }

    /// Its own name.
    pub(crate) const fn name(&self) -> &'static str {
        self.names[0]
    }

    /// What becomes of every tensor, in their order: each by the quantiser that is wished for it.
    pub(crate) fn plan(&'static self, task: &Task<'_>) -> Result<Vec<Decision>> {
        // What a mix makes of a tensor depends on all the others.
        if self.packing == Packing::Blocks {
            return self.quantiser.plan(task);
        }
        let of = |tensor: &Candidate<'_>| match tensor.wish {
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
            *decision = of(tensor).left_by_its_loader(tensor, task.rules)?.map(Decision::Keep);
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

    /// Why a matrix stays what it is because loaders would not look for it quantised. To ask for it all the same is refused, but for
    /// the head.
    fn left_by_its_loader(&self, tensor: &Candidate<'_>, rules: &NamePatterns) -> Result<Option<Keeping>> {
        if tensor.layer == Layer::Expert && !self.quantiser.finds_experts() {
            let what = format!("{} for a model with experts, such as {}", self.name(), quoted(tensor.name));
            let why =
                "its loader fills the modules of transformers by name, and experts are one tensor there".to_owned();
            return Err(Request::Contradiction { what, why }.into());
        }
        let left = self.quantiser.leaves(tensor.layer).filter(|_| tensor.shape.len() == 2);
        let Some(keeping) = left.filter(|_| !rules.excludes(tensor.name)) else { return Ok(None) };
        let is_asked = match tensor.wish {
            Some(Override::Keep) => return Ok(None),
            Some(Override::Encode(_)) => true,
            None => !rules.takes_all() && rules.takes(tensor.name),
        };
        match is_asked {
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
    pub(crate) fn turns(&self, layer: Layer) -> bool {
        layer == Layer::Conv1d && self.packing == Packing::Companions && self.quantiser.turns_conv1d()
    }
}

/// How the output holds quantised weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// As several tensors, which the model's configuration tells of.
    Companions,
    /// As blocks of ggml: each weight is one tensor.
    Blocks,
}

/// Decides how a model is quantised.
pub(crate) trait Quantiser: Send + Sync {
    /// What becomes of every tensor, in their order. Options that make no sense are refused here.
    fn plan(&self, task: &Task<'_>) -> Result<Vec<Decision>>;

    /// Which libraries read what it writes, with the versions this was tried with.
    fn loaded_by(&self) -> &'static str;

    /// Why the weight of such a layer stays what it is: its loaders do not replace the layer by a quantised one.
    fn leaves(&self, layer: Layer) -> Option<Keeping> {
        match layer {
            Layer::Linear | Layer::Inherited | Layer::Expert => None,
            Layer::Conv1d => Some(Keeping::Transposed),
            Layer::InF32 => Some(Keeping::InF32),
            Layer::Head => Some(Keeping::Head),
            Layer::Other => Some(Keeping::NotReplaced),
        }
    }

    /// Whether its loaders find the experts of a model, which are one tensor in memory, by their own names in a file.
    fn finds_experts(&self) -> bool {
        true
    }

    /// Whether layers of the class `Conv1D`, whose weights are stored transposed, are quantised as linear layers are.
    fn turns_conv1d(&self) -> bool {
        false
    }

    /// The type that its loaders decode to whatever the model's is, so that no other model runs.
    fn runs_in(&self) -> Option<TargetDtype> {
        None
    }

    /// What the model's configuration tells of the quantised weights.
    fn configuration(&self, made: &QuantisedModel<'_>) -> Option<Value> {
        let _ = made;
        None
    }

    /// Files beside the weights that tell of them too, where loaders look for some.
    fn documents(&self, made: &QuantisedModel<'_>) -> Vec<(&'static str, Value)> {
        let _ = made;
        Vec::new()
    }

    /// Whether the weights cannot be read without that.
    fn needs_configuration(&self) -> bool {
        true
    }

    /// Whether the configuration can tell of weights of this other encoding beside its own.
    fn mixes_with(&self, other: &str) -> bool {
        let _ = other;
        false
    }

    /// The members of the configuration that say so.
    fn members(&self) -> &'static [&'static str] {
        &["quantization_config"]
    }

    /// What the metadata of a file tells of them.
    fn metadata(&self, made: &QuantisedModel<'_>) -> Metadata {
        let _ = made;
        Metadata::new()
    }
}

/// What is to be quantised, and how.
pub(crate) struct Task<'a> {
    pub tensors: &'a [Candidate<'a>],
    pub options: &'a QuantiseOptions,
    /// What the caller wants quantised and kept.
    pub rules: &'a NamePatterns,
    /// What the input says of the model.
    pub metadata: Option<&'a Metadata>,
}

/// A tensor that could be quantised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// Its name in the input.
    pub name: &'a str,
    /// What it would be called in the output.
    pub output_name: &'a str,
    pub shape: &'a [usize],
    /// What its values are stored as, or decoded to.
    pub dtype: TargetDtype,
    /// The file it is stored in and where, if the output has tensors in that order.
    pub place: Option<(u32, u64)>,
    /// What the caller wants of it in particular.
    pub wish: Option<Override>,
    /// What its layer is to loaders.
    pub layer: Layer,
}

/// What the caller wants of single tensors, whatever is usual.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Override {
    /// To stay as it is.
    Keep,
    /// To be quantised so.
    Encode(&'static Encoding),
}

impl Candidate<'_> {
    /// What its module is called in the output.
    pub(crate) fn module(&self) -> &str {
        match self.output_name.strip_suffix("weight") {
            Some(module) => module.strip_suffix('.').unwrap_or(if module.is_empty() { "" } else { self.output_name }),
            None => self.output_name,
        }
    }

    /// The name of a tensor of its module, by which loaders find it.
    pub(crate) fn part(&self, part: &str) -> String {
        match self.module() {
            "" => part.to_owned(),
            module => format!("{module}.{part}"),
        }
    }

    /// Values of a row.
    pub(crate) fn row(&self) -> u64 {
        self.shape.last().map_or(1, |&row| row as u64)
    }
}

/// What becomes of a tensor.
pub(crate) enum Decision {
    Encode(Box<dyn TileEncoder>),
    /// Its rows are not divided by the blocks of this type, and another is taken.
    EncodeInstead(Box<dyn TileEncoder>, BlockType),
    /// It shares its global scale with all weights of the set of this name.
    EncodeShared(Box<dyn TileEncoder>, String),
    Keep(Keeping),
}

/// What has been decided for a model.
pub(crate) struct QuantisedModel<'a> {
    pub options: &'a QuantiseOptions,
    /// The names of quantised weights in the output.
    pub quantised: Vec<&'a str>,
    /// Those of them that are of another encoding, with its name.
    pub others: Vec<(&'a str, &'static str)>,
    /// The weights that are kept, by their names in the output.
    pub kept: Vec<(&'a str, Keeping)>,
    /// Heads that the model may have though its file does not, which loaders take for quantised layers where nobody says otherwise.
    pub unstored: Vec<&'static str>,
    /// What the first quantised weight was before.
    pub dtype: TargetDtype,
}

/// Modules that are embeddings in every class, so that loaders do not ask for them.
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
    /// The modules of other encodings than the usual one, by their encodings in the order they come.
    pub(crate) fn modules_of_others(&self) -> Vec<(&'static str, Vec<&'a str>)> {
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

    /// The modules of the usual encoding.
    pub(crate) fn usual_modules(&self) -> impl Iterator<Item = &'a str> {
        let others: HashSet<&str> = self.others.iter().map(|(name, _)| *name).collect();
        let usual = self.quantised.iter().filter(move |name| !others.contains(*name));
        usual.map(|name| name.rsplit_once('.').map_or("", |(module, _)| module)).collect::<Vec<_>>().into_iter()
    }

    /// The layers that loaders would look for and that are not quantised, as modules.
    pub(crate) fn left(&self) -> Vec<String> {
        let is_layer = |name: &str, keeping: Keeping| match keeping {
            Keeping::Embedding => !name.rsplit('.').next().is_some_and(|last| EMBEDDINGS.contains(&last)),
            Keeping::NotAMatrix | Keeping::Norm | Keeping::NotALayer | Keeping::Empty => false,
            _ => true,
        };
        let kept = self.kept.iter().filter_map(|(name, keeping)| Some((name.strip_suffix(".weight")?, *keeping)));
        let mut left: Vec<_> =
            kept.filter(|(name, keeping)| is_layer(name, *keeping)).map(|(name, _)| name.to_owned()).collect();
        for head in &self.unstored {
            if !self.quantised.iter().any(|name| module_of(name) == *head) && !left.iter().any(|module| module == head)
            {
                left.push((*head).to_owned());
            }
        }
        left
    }

    /// [`left`](Self::left) for loaders that also leave what is inside such a module or whose name ends like it: where that would be a
    /// quantised one, the entry is an expression that means the module alone.
    pub(crate) fn left_by_ends(&self) -> Vec<String> {
        let is_inside = |module: &str, entry: &str| {
            module.ends_with(entry) || module.strip_prefix(entry).is_some_and(|rest| rest.starts_with('.'))
        };
        let means_another = |entry: &str| self.quantised.iter().any(|name| is_inside(module_of(name), entry));
        let exactly = |entry: String| match means_another(&entry) {
            true => format!("^{}$", entry.replace('.', "\\.")),
            false => entry,
        };
        self.left().into_iter().map(exactly).collect()
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
    /// It is a bias or a state, not the weight of a layer.
    NotALayer,
    /// It chooses among experts.
    Router,
    /// It belongs to a model for images or sound in front of the language model.
    Tower,
    /// It is a small matrix of an adapter, which is added to a weight.
    Adapter,
    /// The blocks of its target do not divide it, and the target's own library leaves it then.
    Indivisible,
    /// It is stored transposed (`Conv1D`), and its loader quantises linear layers only.
    Transposed,
    /// Its class keeps it in F32.
    InF32,
    /// Its class is not one that its loader replaces by a quantised layer.
    NotReplaced,
    /// It has no values.
    Empty,
    /// The caller keeps it.
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

/// The options of all quantisers: a field for each that has any.
///
/// ```
/// use anamnesis::{BnbOptions, ConvertOptions};
/// let options = ConvertOptions::new().with_bnb(BnbOptions::new().with_block_size(128).with_double_quant(true));
/// assert_eq!(options.quantise.bnb.block_size, Some(128));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct QuantiseOptions {
    /// Of BitsAndBytes.
    pub bnb: BnbOptions,
    /// Of the blocks of ggml.
    pub blocks: BlockOptions,
    /// Of weights whose values share scales in groups.
    pub groups: GroupOptions,
}

impl QuantiseOptions {
    /// Refuses options that have no meaning for `target`, which quantises nothing or otherwise.
    pub(crate) fn check_unused(&self, target: &str) -> Result<()> {
        if *self == Self::default() {
            return Ok(());
        }
        let what = format!("options for quantising to {target}");
        Err(Request::Contradiction { what, why: "it has none of them".to_owned() }.into())
    }

    /// Refuses options of other quantisers than those that work in groups.
    pub(crate) fn check_only_groups(&self, target: &str) -> Result<()> {
        Self { groups: GroupOptions::default(), ..self.clone() }.check_unused(target)
    }
}
