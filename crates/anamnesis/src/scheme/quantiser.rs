//! Quantising a model: which of its tensors, by which encoder, and what is told of it afterwards.
//!
//! An [`Encoding`] is one line of a scheme's table: what can be asked for by name. Its [`Quantiser`] sees all tensors at once,
//! because what becomes of one may depend on the others, and answers for each with an encoder or with the reason to keep it.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use super::TileEncoder;
use super::bnb::BnbOptions;
use super::ggml::BlockOptions;
use super::group_options::GroupOptions;
use crate::catalog::{BlockType, Metadata, NamePatterns, TargetDtype};
use crate::error::{Request, Result};

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
            Some(Wish::Encode(other)) => other,
            Some(Wish::Keep) | None => self,
        };
        let mut encodings = vec![self];
        for tensor in task.tensors {
            if !encodings.iter().any(|encoding| encoding.name() == of(tensor).name()) {
                encodings.push(of(tensor));
            }
        }
        let mut decisions: Vec<Option<Decision>> = task.tensors.iter().map(|_| None).collect();
        for encoding in encodings {
            let mine = task.tensors.iter().enumerate().filter(|(_, tensor)| of(tensor).name() == encoding.name());
            let (places, tensors): (Vec<usize>, Vec<Candidate<'_>>) =
                mine.map(|(place, tensor)| (place, *tensor)).unzip();
            let decided = encoding.quantiser.plan(&Task { tensors: &tensors, ..*task })?;
            for (place, decision) in places.into_iter().zip(decided) {
                decisions[place] = Some(decision);
            }
        }
        Ok(decisions.into_iter().map(|decision| decision.unwrap_or(Decision::Keep(Keeping::NotALayer))).collect())
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

    /// What the model's configuration tells of the quantised weights.
    fn configuration(&self, made: &Made<'_>) -> Option<Value> {
        let _ = made;
        None
    }

    /// Files beside the weights that tell of them too, where loaders look for some.
    fn documents(&self, made: &Made<'_>) -> Vec<(&'static str, Value)> {
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
    fn metadata(&self, made: &Made<'_>) -> Metadata {
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
    pub wish: Option<Wish>,
}

/// What the caller wants of single tensors, whatever is usual.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wish {
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
pub(crate) struct Made<'a> {
    pub options: &'a QuantiseOptions,
    /// The names of quantised weights in the output.
    pub quantised: Vec<&'a str>,
    /// Those of them that are of another encoding, with its name.
    pub others: Vec<(&'a str, &'static str)>,
    /// The weights that are kept, by their names in the output.
    pub kept: Vec<(&'a str, Keeping)>,
    /// What the first quantised weight was before.
    pub dtype: TargetDtype,
}

/// The head, which loaders take for a quantised layer where nobody says otherwise, also where a file has none of its own.
const HEAD: &str = "lm_head";

impl<'a> Made<'a> {
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
        use Keeping::{Asked, Head, Indivisible, Router, Tower};
        let is_layer = |keeping: &Keeping| matches!(keeping, Head | Asked | Router | Tower | Indivisible);
        let kept = self.kept.iter().filter(|(_, keeping)| is_layer(keeping));
        let mut left: Vec<_> = kept.filter_map(|(name, _)| name.strip_suffix(".weight").map(str::to_owned)).collect();
        let has_head = |name: &str| name.rsplit_once('.').is_some_and(|(module, _)| module == HEAD);
        if !self.quantised.iter().any(|name| has_head(name)) && !left.iter().any(|module| module == HEAD) {
            left.push(HEAD.to_owned());
        }
        left
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
