//! LeftoverCheck: unclaimed tensors that may be parts of quantised weights. They are refused, because copying them
//! would pass packed codes off as values. Every other unclaimed tensor is plain data.
//!
//! An unclaimed tensor is suspected
//! - by its name, if a scheme gives that name to a part of its weights. Some names suffice; others also need a sign of
//!   quantisation, a type that plain data never has, or another part of the same weight;
//! - by its neighbour: it is stored in the module of a quantised weight whose scheme does not know it;
//! - by its type: integers among the weights of a quantised checkpoint.
//!
//! A sign of quantisation is a claimed weight with companions, or a configuration that describes a quantisation.

use std::collections::{BTreeSet, HashMap};

use crate::catalog::{BlockType, Dtype, StoredTensor};
use crate::error::{AnamnesisError, quoted};

use super::claims::Claims;
use super::leftover::Leftover;
use super::part_name::{Confidence, PartName, Tail};
use super::role::TensorRole;

/// Refuses every suspected tensor. If `allowed`, the tensors stay plain data and are only listed.
pub(in crate::scheme) fn refuse_leftovers(claims: &mut Claims<'_>, allowed: bool, schemes: &[(bool, Vec<PartName>)]) {
    let suspects = {
        let mut leftovers = LeftoverCheck::new(claims, schemes);
        let suspected = |(id, tensor)| Some((id, tensor, leftovers.suspicion(claims, tensor)?));
        claims.unclaimed().filter_map(suspected).collect::<Vec<_>>()
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
        claims.add_leftover(leftover);
    }
}

/// The facts about a checkpoint by which its unclaimed tensors are judged.
struct LeftoverCheck {
    names: Vec<PartName>,
    /// Tails of names that match no part of any scheme, as a cache.
    non_part_tails: BTreeSet<Tail>,
    /// The sign of quantisation, as a clause for a message.
    sign: Option<String>,
    /// Whether it has a quantised weight.
    is_quantised: bool,
    /// The quantised weights, by the prefix that the names of their companions have.
    weights: HashMap<String, Owner>,
}

/// A quantised weight that an unclaimed tensor may be a companion of.
struct Owner {
    name: String,
    /// The last component of its name, if the weight is its module's only one.
    leaf: Option<String>,
    /// Its shape; empty if it is not known yet.
    shape: Vec<usize>,
    /// Whether it is made of ggml blocks: then an activation scale in its module is plain data.
    is_block: bool,
}

impl LeftoverCheck {
    fn new(claims: &Claims<'_>, schemes: &[(bool, Vec<PartName>)]) -> Self {
        let quantised = || claims.with_role(TensorRole::Quantized).filter(|tensor| !has_inline_scales(tensor.dtype));
        let shapes: HashMap<_, _> = claims.shapes().collect();
        let sign = match (sign_in_config(claims), claims.scaled_weight()) {
            (Some(sign), _) => Some(sign),
            (None, Some(name)) => Some(format!("{} is quantised", quoted(name))),
            (None, None) => {
                // E8M0 tensors are a sign only in a checkpoint with weights that may be packed.
                let has_codes = claims.unclaimed().any(|(_, tensor)| is_byte_weight(tensor));
                let mut powers = claims.unclaimed().filter(|(_, tensor)| tensor.dtype == Dtype::F8E8M0 && has_codes);
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
                None if is_byte_weight(tensor) => tensor.shape.clone(),
                None => Vec::new(),
            };
            let is_block = matches!(tensor.dtype, Dtype::Block(_));
            (prefix, Owner { name: tensor.name.clone(), leaf, shape, is_block })
        };
        // Messages prefer the names of decoded schemes over those of refused ones.
        let (refused, decoded): (Vec<_>, Vec<_>) = schemes.iter().partition(|(is_refused, _)| *is_refused);
        let names = decoded.into_iter().chain(refused).flat_map(|(_, names)| names.clone()).collect();
        // An unclaimed byte matrix counts as a weight too: a tensor in its module may be its scale.
        let bytes = claims.unclaimed().map(|(_, tensor)| tensor).filter(|tensor| is_byte_weight(tensor));
        let bytes = bytes.filter(|_| !claims.catalog.holds_plain_arrays);
        let mut weights: HashMap<_, _> = quantised().chain(bytes).map(owner).collect();
        for (codes, weight, shape) in claims.modules() {
            // Codes may be stored under another name than their weight's; the weight is still its module's only one.
            let Some((module, leaf)) = weight.rsplit_once('.').filter(|(_, leaf)| names_a_weight(leaf)) else {
                continue;
            };
            let leaf = Some(leaf.to_owned());
            let owner = || Owner { name: codes.to_owned(), leaf, shape: shape.to_vec(), is_block: false };
            weights.entry(format!("{module}.")).or_insert_with(owner);
        }
        let is_quantised = claims.scaled_weight().is_some();
        Self { names, non_part_tails: BTreeSet::new(), sign, is_quantised, weights }
    }

    /// Why an unclaimed tensor is not plain data; `None` if it is.
    fn suspicion(&mut self, claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
        let by_name = if self.cannot_be_a_part(&tensor.name) { None } else { self.by_name(claims, tensor) };
        by_name.or_else(|| self.by_neighbour(tensor)).or_else(|| self.by_type(claims, tensor))
    }

    /// Whether the tail of a name matches no part of any scheme. Most names match none and share few tails, so tails
    /// are cached.
    fn cannot_be_a_part(&mut self, name: &str) -> bool {
        let tail = Tail::of(name.as_bytes());
        if PartName::has_weight_prefix(name) {
            return false;
        }
        let is_known = self.non_part_tails.contains(&tail);
        is_known || (!self.names.iter().any(|part| part.may_match(tail)) && self.non_part_tails.insert(tail))
    }

    fn by_name(&self, claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
        let matching = || self.names.iter().filter(|part| part.codes_of(&tensor.name).is_some());
        let has_codes =
            |part: &PartName| part.codes_of(&tensor.name).and_then(|codes| claims.catalog.find(&codes)).is_some();
        // Of equal candidates the first: `max_by_key` returns the last maximum.
        let part = matching().rev().max_by_key(|part| (part.confidence, has_codes(part), part.suffix.len()))?;
        let codes = part.codes_of(&tensor.name)?;
        let place =
            matching().filter_map(|part| part.codes_of(&tensor.name)).find_map(|codes| claims.elsewhere(&codes));
        let is_sure = match part.confidence {
            Confidence::Certain => true,
            Confidence::IfConfigured if self.sign.is_some() || place.is_some() => true,
            Confidence::IfQuantised => {
                self.is_quantised || (self.sign.is_some() && self.module_has_only_parts(claims, part, tensor))
            }
            Confidence::IfPacked | Confidence::IfConfigured if is_packed_type(tensor.dtype) => true,
            _ => matching().any(|part| {
                self.has_sibling_part(claims, part, tensor) || self.has_unknown_words(claims, part, tensor)
            }),
        };
        if !is_sure {
            return None;
        }
        if codes == tensor.name || codes.is_empty() {
            return Some("it is named like a part of a quantised weight, and no scheme claims it".to_owned());
        }
        let codes_are = match (claims.catalog.find(&codes), place) {
            (Some(_), _) => "which it does not fit".to_owned(),
            (None, Some(place)) => format!("which is not here: {place}"),
            (None, None) => "which is nowhere in this input".to_owned(),
        };
        Some(format!("it is named like a part of {}, {codes_are}", quoted(&codes)))
    }

    /// Whether another part of the same weight is present.
    fn has_sibling_part(&self, claims: &Claims<'_>, part: &PartName, tensor: &StoredTensor) -> bool {
        let Some(base) = part.base(&tensor.name) else { return false };
        let is_other = |other: &&PartName| {
            other.codes == part.codes && other.suffix != part.suffix && other.confidence != Confidence::IfQuantised
        };
        let others = self.names.iter().filter(is_other);
        others.into_iter().any(|other| claims.catalog.find(&format!("{base}{}", other.suffix)).is_some())
    }

    /// Whether the module of a part has a matrix of 32-bit words of unknown name, which may hold codes.
    fn has_unknown_words(&self, claims: &Claims<'_>, part: &PartName, tensor: &StoredTensor) -> bool {
        let Some(module) = part.base(&tensor.name).filter(|module| !module.is_empty()) else { return false };
        let prefix = format!("{module}.");
        claims.catalog.with_prefix(&prefix).any(|(_, other)| {
            let is_word = matches!(other.dtype, Dtype::I32 | Dtype::U32);
            let is_matrix = other.shape.len() > 1;
            let end = &other.name[prefix.len()..];
            // A bias is never stored as 32-bit words.
            let is_known = is_buffer(end) && !end.contains("bias");
            is_word && is_matrix && other.name != tensor.name && !is_known
        })
    }

    /// Whether the module of a part has only parts of the confidence `IfQuantised`, and the bias of a weight that is missing.
    fn module_has_only_parts(&self, claims: &Claims<'_>, part: &PartName, tensor: &StoredTensor) -> bool {
        let Some(module) = part.base(&tensor.name).filter(|module| !module.is_empty()) else { return false };
        let is_part = |name: &str| {
            self.names.iter().any(|part| part.confidence == Confidence::IfQuantised && part.base(name).is_some())
        };
        let prefix = format!("{module}.");
        let is_bias = |name: &str| name.strip_prefix(&prefix) == Some("bias");
        claims.catalog.with_prefix(&prefix).all(|(_, other)| is_part(&other.name) || is_bias(&other.name))
    }

    /// Suspects every tensor in the module of a quantised weight, except its bias.
    fn by_neighbour(&self, tensor: &StoredTensor) -> Option<String> {
        if self.weights.is_empty() {
            return None;
        }
        let name = tensor.name.as_str();
        let dots = name.match_indices('.').map(|(at, _)| &name[..=at]);
        let bars = name.match_indices(['.', '_']).map(|(at, _)| &name[..at]);
        let neighbour = dots.chain(bars).find_map(|prefix| {
            let owner = self.weights.get(prefix)?;
            let rest = &name[prefix.len()..];
            (owner.name != name && owner.may_own(rest, &self.names)).then_some((owner, rest))
        });
        // `X_scales` is a part of `X.qweight` although it has no dot.
        let joined = || {
            name.match_indices('_').find_map(|(at, _)| {
                let (module, rest) = (&name[..at], &name[at + 1..]);
                let is_part = self.names.iter().any(|part| part.word() == rest.trim_start_matches('_'));
                Some((self.weights.get(&format!("{module}.")).filter(|_| is_part)?, rest))
            })
        };
        let (owner, rest) = neighbour.or_else(joined)?;
        // Weight normalisation stores magnitude (`weight_g`) and direction (`weight_v`) of unquantised weights.
        let is_plain = owner.is_bias(tensor, rest)
            || (owner.is_block && rest == "input_scale")
            || matches!(rest, "weight_g" | "weight_v");
        (!is_plain).then(|| format!("it is stored next to {}, whose scheme does not know it", quoted(&owner.name)))
    }

    fn by_type(&self, claims: &Claims<'_>, tensor: &StoredTensor) -> Option<String> {
        let sign = self.sign.as_ref().filter(|_| !claims.catalog.holds_plain_arrays)?;
        let (module, last) = tensor.name.rsplit_once('.').unwrap_or(("", &tensor.name));
        let is_matrix = tensor.shape.iter().filter(|&&dim| dim > 1).count() > 1;
        let looks_packed = match tensor.dtype {
            // Only scales have this type.
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
    /// Whether a tensor may be a companion of this weight, where `rest` follows the weight's prefix in its name.
    fn may_own(&self, rest: &str, names: &[PartName]) -> bool {
        let Some(leaf) = &self.leaf else {
            // A weight among others in its module owns only tensors whose names extend its own.
            let first = rest.trim_end_matches('.').split_once('.').map(|(first, _)| first.trim_start_matches('_'));
            let is_part = first.is_none_or(|first| names.iter().any(|part| part.word() == first));
            return rest.starts_with('.') || (rest.starts_with('_') && is_part);
        };
        match rest.split_once('.') {
            None => true,
            // A submodule does not belong to the weight unless it is named like the weight or one of its parts, or has
            // no name.
            Some((first, _)) => {
                first.is_empty()
                    || first.starts_with(leaf.as_str())
                    || names.iter().any(|part| part.first_component() == Some(first))
            }
        }
    }

    fn is_bias(&self, tensor: &StoredTensor, rest: &str) -> bool {
        let is_float = matches!(tensor.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64);
        // One value per row or, if the weight is stored transposed, per column; in a stack, for each matrix.
        let fits = match (&self.shape[..], &tensor.shape[..]) {
            ([stack @ .., rows, columns], [above @ .., length]) => {
                above == stack && (length == rows || length == columns)
            }
            // A shape that is not known yet is assumed to be a matrix.
            ([], [_]) => true,
            _ => false,
        };
        is_float && fits && !rest.contains('.') && (rest.ends_with("bias") || rest.starts_with("bias_"))
    }
}

/// The sign of quantisation in the configuration, as a clause for a message.
fn sign_in_config(claims: &Claims<'_>) -> Option<String> {
    let config = claims.config;
    let present = || config.is_present().then(|| format!("{} describes a quantisation", config.file()));
    config.declared_quantisation().or_else(present)
}

/// Whether codes and packed words may be stored in this type.
fn is_packed_type(dtype: Dtype) -> bool {
    use Dtype::{I8, I16, I32, U8, U16, U32};
    dtype.is_quantized() || matches!(dtype, U8 | I8 | U16 | I16 | U32 | I32 | Dtype::F8E8M0)
}

/// Whether this is a matrix of bytes with the name of a weight: no unquantised model stores weights as bytes.
fn is_byte_weight(tensor: &StoredTensor) -> bool {
    let last = || tensor.name.rsplit('.').next().unwrap_or_default();
    matches!(tensor.dtype, Dtype::I8 | Dtype::U8) && tensor.shape.len() > 1 && names_a_weight(last())
}

/// Whether a type is of blocks that contain their scales, so that a weight has no companions.
fn has_inline_scales(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Block(block) if block != BlockType::NVFP4)
}

/// Whether the last component of a name is that of a weight, packed or not.
fn names_a_weight(last: &str) -> bool {
    let last = last.to_ascii_lowercase();
    last.ends_with("weight") || last.starts_with("weight_") || last == "w_q"
}

/// Whether the last component of a name is that of an integer buffer: indices, masks, counters.
fn is_buffer(last: &str) -> bool {
    const WORDS: [&str; 12] =
        ["ids", "idx", "index", "indices", "mask", "bias", "position", "token", "table", "tracked", "tid2eid", "vocab"];
    let last = last.to_ascii_lowercase();
    WORDS.iter().any(|word| last.contains(word))
}
