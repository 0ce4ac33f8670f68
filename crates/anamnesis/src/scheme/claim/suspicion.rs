//! What is left over when every scheme has claimed its share: plain data, unless something says that it is a part of a
//! quantised weight. Then it is refused, because nobody knows what it means; copying it would pass packed numbers off as
//! numbers.
//!
//! A tensor is suspected
//! - by its name, where a scheme calls a part of its weights so: some names are enough, others need a sign of quantisation, a
//!   type that no plain data has, or another part beside them;
//! - by its place beside a quantised weight that does not know it;
//! - by its type: integers among the weights of a checkpoint that is quantised.
//!
//! A sign of quantisation is a weight that a scheme has claimed, or a configuration that says so.

use std::collections::{BTreeSet, HashMap};

use crate::catalog::{BlockType, Dtype, StoredTensor};
use crate::error::{AnamnesisError, quoted};

use super::claims::Claims;
use super::leftover::Leftover;
use super::part_name::{Confidence, PartName, Tail};
use super::role::TensorRole;

/// Refuses what is suspected. Where `allowed`, it is plain data all the same, and told.
pub(in crate::scheme) fn refuse_leftovers(claims: &mut Claims<'_>, allowed: bool, schemes: &[(bool, Vec<PartName>)]) {
    let suspects = {
        let mut leftovers = Leftovers::new(claims, schemes);
        let suspected = |(id, tensor)| Some((id, tensor, leftovers.suspicion(claims, tensor)?));
        claims.free().filter_map(suspected).collect::<Vec<_>>()
    };
    for (id, tensor, why) in suspects {
        let leftover = Leftover { name: tensor.name.clone(), dtype: tensor.dtype, why };
        if !allowed {
            match is_packed_type(tensor.dtype) && tensor.elements() > 1 {
                true => claims.take_refused(id, "packed weights"),
                false => claims.take(id, TensorRole::Scale),
            }
            claims.refuse(AnamnesisError::parse(leftover.to_string()));
        }
        claims.tell(leftover);
    }
}

/// What is known of a checkpoint when its leftovers are looked at.
struct Leftovers {
    names: Vec<PartName>,
    /// How names end that no part can have.
    strange: BTreeSet<Tail>,
    /// Why the checkpoint is known to be quantised.
    sign: Option<String>,
    /// Whether it has a quantised weight.
    is_quantised: bool,
    /// The quantised weights by the name that those beside them begin with.
    weights: HashMap<String, Owner>,
}

/// A quantised weight beside which a tensor may stand.
struct Owner {
    name: String,
    /// The last component of its name, where the weight is all of its module.
    leaf: Option<String>,
    /// Its shape, empty where that is not known.
    shape: Vec<usize>,
    /// Whether it is made of blocks, whose neighbours stay what they are, scales of activations included.
    is_block: bool,
}

impl Leftovers {
    fn new(claims: &Claims<'_>, schemes: &[(bool, Vec<PartName>)]) -> Self {
        let quantised = || claims.taken(TensorRole::Quantized).filter(|tensor| !is_alone(tensor.dtype));
        let shapes: HashMap<_, _> = claims.shapes().collect();
        let sign = match (config_says(claims), claims.scaled_weight()) {
            (Some(says), _) => Some(says),
            (None, Some(name)) => Some(format!("{} is quantised", quoted(name))),
            (None, None) => {
                // Beside weights that may be packed.
                let has_codes = claims.free().any(|(_, tensor)| is_bytes_of_a_weight(tensor));
                let mut powers = claims.free().filter(|(_, tensor)| tensor.dtype == Dtype::F8E8M0 && has_codes);
                powers
                    .next()
                    .map(|(_, tensor)| format!("{} holds powers of two, which are scales", quoted(&tensor.name)))
            }
        };
        let owner = |tensor: &StoredTensor| {
            let (prefix, leaf) = match tensor.name.rsplit_once('.') {
                Some((module, last)) if names_a_weight(last) => (format!("{module}."), Some(last.to_owned())),
                _ => (tensor.name.clone(), None),
            };
            let shape = match shapes.get(tensor.name.as_str()) {
                Some(shape) => shape.to_vec(),
                None if is_bytes_of_a_weight(tensor) => tensor.shape.clone(),
                None => Vec::new(),
            };
            let is_block = matches!(tensor.dtype, Dtype::Block(_));
            (prefix, Owner { name: tensor.name.clone(), leaf, shape, is_block })
        };
        // For messages, schemes that are decoded come before those that are only recognised.
        let (refused, decoded): (Vec<_>, Vec<_>) = schemes.iter().partition(|(is_refused, _)| *is_refused);
        let names = decoded.into_iter().chain(refused).flat_map(|(_, names)| names.clone()).collect();
        // Bytes that nobody has claimed are a weight too, where something stands beside them that may be their scale.
        let bytes = claims.free().map(|(_, tensor)| tensor).filter(|tensor| is_bytes_of_a_weight(tensor));
        let bytes = bytes.filter(|_| !claims.catalog.holds_plain_arrays);
        let mut weights: HashMap<_, _> = quantised().chain(bytes).map(owner).collect();
        for (codes, weight, shape) in claims.modules() {
            // Codes may be called otherwise than the weight that they are of, which is all of its module then too.
            let Some((module, leaf)) = weight.rsplit_once('.').filter(|(_, leaf)| names_a_weight(leaf)) else {
                continue;
            };
            let leaf = Some(leaf.to_owned());
            let owner = || Owner { name: codes.to_owned(), leaf, shape: shape.to_vec(), is_block: false };
            weights.entry(format!("{module}.")).or_insert_with(owner);
        }
        Self { names, strange: BTreeSet::new(), sign, is_quantised: claims.scaled_weight().is_some(), weights }
    }

    /// Why a tensor that nobody has claimed is not plain data.
    fn suspicion(&mut self, claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
        let by_name = if self.is_strange(&tensor.name) { None } else { self.by_name(claims, tensor) };
        by_name.or_else(|| self.by_place(tensor)).or_else(|| self.by_type(claims, tensor))
    }

    /// Whether a name is none of a part, by how it ends; most are not, and end alike.
    fn is_strange(&mut self, name: &str) -> bool {
        let tail = Tail::of(name.as_bytes());
        if PartName::has_longer(name) {
            return false;
        }
        let is_known = self.strange.contains(&tail);
        is_known || (!self.names.iter().any(|part| part.may_end(tail)) && self.strange.insert(tail))
    }

    fn by_name(&self, claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
        let fits = || self.names.iter().filter(|part| part.codes_of(&tensor.name).is_some());
        let is_there =
            |part: &PartName| part.codes_of(&tensor.name).and_then(|codes| claims.catalog.find(&codes)).is_some();
        // The first of equals.
        let part = fits().rev().max_by_key(|part| (part.says, is_there(part), part.end.len()))?;
        let codes = part.codes_of(&tensor.name)?;
        let place = fits().filter_map(|part| part.codes_of(&tensor.name)).find_map(|codes| claims.elsewhere(&codes));
        let is_sure = match part.says {
            Confidence::Certain => true,
            Confidence::IfConfigured if self.sign.is_some() || place.is_some() => true,
            Confidence::IfQuantised => {
                self.is_quantised || (self.sign.is_some() && self.is_all_there_is(claims, part, tensor))
            }
            Confidence::IfPacked | Confidence::IfConfigured if is_packed_type(tensor.dtype) => true,
            _ => fits().any(|part| self.has_another(claims, part, tensor) || self.has_words(claims, part, tensor)),
        };
        if !is_sure {
            return None;
        }
        if codes == tensor.name || codes.is_empty() {
            return Some("it is named like a part of a quantised weight, and no scheme takes it".to_owned());
        }
        let codes_are = match (claims.catalog.find(&codes), place) {
            (Some(_), _) => "which it does not fit".to_owned(),
            (None, Some(place)) => format!("which is not here: {place}"),
            (None, None) => "which is nowhere in this input".to_owned(),
        };
        Some(format!("it is named like a part of {}, {codes_are}", quoted(&codes)))
    }

    /// Whether another part of the same weight is there.
    fn has_another(&self, claims: &Claims<'_>, part: &PartName, tensor: &StoredTensor) -> bool {
        let Some(base) = part.base(&tensor.name) else { return false };
        let is_other = |other: &&PartName| {
            other.codes == part.codes && other.end != part.end && other.says != Confidence::IfQuantised
        };
        let others = self.names.iter().filter(is_other);
        others.into_iter().any(|other| claims.catalog.find(&format!("{base}{}", other.end)).is_some())
    }

    /// Whether words that may hold codes stand in the module of a part, under a name that nobody knows.
    fn has_words(&self, claims: &Claims<'_>, part: &PartName, tensor: &StoredTensor) -> bool {
        let Some(module) = part.base(&tensor.name).filter(|module| !module.is_empty()) else { return false };
        let prefix = format!("{module}.");
        claims.catalog.with_prefix(&prefix).any(|(_, other)| {
            let is_word = matches!(other.dtype, Dtype::I32 | Dtype::U32);
            let is_matrix = other.shape.len() > 1;
            let end = &other.name[prefix.len()..];
            // A bias of words is none.
            let is_known = is_buffer(end) && !end.contains("bias");
            is_word && is_matrix && other.name != tensor.name && !is_known
        })
    }

    /// Whether the module of a part holds nothing but parts that say as little.
    fn is_all_there_is(&self, claims: &Claims<'_>, part: &PartName, tensor: &StoredTensor) -> bool {
        let Some(module) = part.base(&tensor.name).filter(|module| !module.is_empty()) else { return false };
        let says_little = |name: &str| {
            self.names.iter().any(|part| part.says == Confidence::IfQuantised && part.base(name).is_some())
        };
        let prefix = format!("{module}.");
        claims.catalog.with_prefix(&prefix).all(|(_, other)| says_little(&other.name))
    }

    /// Whatever stands beside a quantised weight is a part of it, but for its bias.
    fn by_place(&self, tensor: &StoredTensor) -> Option<String> {
        if self.weights.is_empty() {
            return None;
        }
        let name = tensor.name.as_str();
        let dots = name.match_indices('.').map(|(at, _)| &name[..=at]);
        let bars = name.match_indices(['.', '_']).map(|(at, _)| &name[..at]);
        let beside = dots.chain(bars).find_map(|prefix| {
            let owner = self.weights.get(prefix)?;
            let rest = &name[prefix.len()..];
            (owner.name != name && owner.has_beside(rest, &self.names)).then_some((owner, rest))
        });
        // `X_scales` beside `X.qweight`: a part of it but for the dot.
        let joined = || {
            name.match_indices('_').find_map(|(at, _)| {
                let (module, rest) = (&name[..at], &name[at + 1..]);
                let is_part = self.names.iter().any(|part| part.word() == rest.trim_start_matches('_'));
                Some((self.weights.get(&format!("{module}.")).filter(|_| is_part)?, rest))
            })
        };
        let (owner, rest) = beside.or_else(joined)?;
        // Weight normalisation keeps magnitude and direction side by side.
        let is_its_own = owner.is_bias(tensor, rest)
            || (owner.is_block && rest == "input_scale")
            || matches!(rest, "weight_g" | "weight_v");
        (!is_its_own).then(|| format!("it stands beside {}, which does not know it", quoted(&owner.name)))
    }

    fn by_type(&self, claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
        let sign = self.sign.as_ref().filter(|_| !claims.catalog.holds_plain_arrays)?;
        let (module, last) = tensor.name.rsplit_once('.').unwrap_or(("", &tensor.name));
        let is_matrix = tensor.shape.iter().filter(|&&dim| dim > 1).count() > 1;
        let looks_packed = match tensor.dtype {
            // Nothing else is of this type.
            Dtype::F8E8M0 => true,
            dtype if is_packed_type(dtype) => is_matrix || names_a_weight(last),
            Dtype::I64 | Dtype::U64 | Dtype::Bool => names_a_weight(last),
            _ => false,
        };
        let is_buffer = || is_buffer(last) && !names_a_weight(last);
        let suspected = looks_packed && !is_buffer() && claims.config.module(module).exclusion().is_none();
        suspected.then(|| format!("it may hold packed values, and {sign}"))
    }
}

impl Owner {
    /// Whether a tensor whose name goes on with `rest` stands beside this weight.
    fn has_beside(&self, rest: &str, names: &[PartName]) -> bool {
        let Some(leaf) = &self.leaf else {
            // Of a parameter among others, those whose name goes on from its own.
            let first = rest.trim_end_matches('.').split_once('.').map(|(first, _)| first.trim_start_matches('_'));
            let is_part = first.is_none_or(|first| names.iter().any(|part| part.word() == first));
            return rest.starts_with('.') || (rest.starts_with('_') && is_part);
        };
        match rest.split_once('.') {
            None => true,
            // Modules inside are none of its own, unless they are called like the weight or one of its parts, or not at all.
            Some((first, _)) => {
                first.is_empty()
                    || first.starts_with(leaf.as_str())
                    || names.iter().any(|part| part.end.strip_prefix('.') == Some(first))
            }
        }
    }

    fn is_bias(&self, tensor: &StoredTensor, rest: &str) -> bool {
        let is_float = matches!(tensor.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64);
        // One number per row or, where the weight is stored the other way round, per column; in a stack, of each matrix.
        let fits = match (&self.shape[..], &tensor.shape[..]) {
            ([stack @ .., rows, columns], [above @ .., length]) => {
                above == stack && (length == rows || length == columns)
            }
            // A shape that is not known yet is that of a matrix.
            ([], [_]) => true,
            _ => false,
        };
        is_float && fits && !rest.contains('.') && (rest.ends_with("bias") || rest.starts_with("bias_"))
    }
}

/// That the configuration says the weights are quantised, as a clause for a message.
fn config_says(claims: &Claims<'_>) -> Option<String> {
    let config = claims.config;
    let present = || config.is_present().then(|| format!("{} describes a quantisation", config.file()));
    config.declared_quantisation().or_else(present)
}

/// Types that codes and packed words are stored in.
fn is_packed_type(dtype: Dtype) -> bool {
    use Dtype::{I8, I16, I32, U8, U16, U32};
    dtype.is_quantized() || matches!(dtype, U8 | I8 | U16 | I16 | U32 | I32 | Dtype::F8E8M0)
}

/// Whether this is a matrix of single bytes that is called a weight: no model has such a weight that is not quantised.
fn is_bytes_of_a_weight(tensor: &StoredTensor) -> bool {
    let last = || tensor.name.rsplit('.').next().unwrap_or_default();
    matches!(tensor.dtype, Dtype::I8 | Dtype::U8) && tensor.shape.len() > 1 && names_a_weight(last())
}

/// Blocks that hold their own scales: nothing stands beside them.
fn is_alone(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Block(block) if block != BlockType::NVFP4)
}

/// Whether a weight of a module is called so, packed or not.
fn names_a_weight(last: &str) -> bool {
    let last = last.to_ascii_lowercase();
    last.ends_with("weight") || last.starts_with("weight_") || last == "w_q"
}

/// Integers that models keep beside their weights: indices, masks, counters.
fn is_buffer(last: &str) -> bool {
    const WORDS: [&str; 12] =
        ["ids", "idx", "index", "indices", "mask", "bias", "position", "token", "table", "tracked", "tid2eid", "vocab"];
    let last = last.to_ascii_lowercase();
    WORDS.iter().any(|word| last.contains(word))
}
