//! The decoded tensors of a checkpoint with how each of them is stored.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::catalog::dtype::elements;
use crate::catalog::{Dtype, StoredTensor};
use crate::checkpoint::Checkpoint;
use crate::scheme::TensorRole;

/// The decoded tensors of a checkpoint, sorted by name, and the kinds of storage among them.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Contents<'a> {
    /// Schemes and plain types, the one with most bytes first.
    pub kinds: Vec<StorageKind>,
    /// Weights without their companions, and plain tensors.
    pub tensors: Vec<ContentTensor<'a>>,
}

/// A scheme or a plain type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorageKind {
    /// The description of the scheme, or the name of the type.
    pub name: String,
    /// Whether it is a scheme.
    pub is_quantized: bool,
    /// Number of decoded tensors.
    pub tensors: usize,
    /// Bytes of all its stored tensors, companions included.
    pub bytes: u64,
    /// Decoded values; those of weights that cannot be decoded are missing.
    pub values: u64,
}

/// A decoded tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContentTensor<'a> {
    /// Its decoded name.
    pub name: &'a str,
    /// Its decoded shape; `None` if it cannot be decoded.
    pub shape: Option<Cow<'a, [usize]>>,
    /// Number of decoded values; `None` if it cannot be decoded.
    pub values: Option<u64>,
    /// Bytes of its stored tensors; a companion of several weights counts for the first.
    pub bytes: u64,
    /// Index of its kind.
    pub kind: usize,
    /// The type of the stored tensor, or of the codes.
    pub dtype: Dtype,
    /// Whether another tensor before it has the same stored bytes.
    pub is_alias: bool,
}

/// The kind of stored tensors that look like parts of weights but belong to none that is decoded.
const STRAY: &str = "parts of other weights";

impl Checkpoint {
    /// All decoded tensors with their stored sizes and kinds. Reads a small companion if only that contains the shape
    /// of a weight.
    #[must_use]
    pub fn contents(&self) -> Contents<'_> {
        let claimed = self.claimed();
        let mut builder = Builder { is_counted: vec![false; self.catalog.len()], ..Builder::default() };
        for weight in &claimed.weights {
            let parts = weight.parts.iter().map(|id| (id.index(), self.catalog.get(*id).extent.bytes));
            let bytes = builder.bytes(parts);
            let shape = match weight.shape.is_empty() {
                // An unreadable companion is reported when the weight is decoded.
                true => self.prepare(weight).ok().map(|prepared| Cow::Owned(prepared.shape)),
                false => Some(Cow::Borrowed(&weight.shape[..])),
            };
            let codes = weight.parts.first().map(|id| self.catalog.get(*id).dtype);
            builder.tensor(&weight.name, shape, bytes, (weight.recipe.describe(), true), codes.unwrap_or(Dtype::U8));
        }
        for (id, format) in &claimed.refused {
            let tensor = self.catalog.get(*id);
            let bytes = builder.bytes([(id.index(), tensor.extent.bytes)]);
            let name = format!("{format} (not decoded)");
            builder.tensor(&tensor.name, None, bytes, (name, true), tensor.dtype);
        }
        self.add_plain(&mut builder);
        for (index, (_, tensor)) in self.catalog.iter().enumerate() {
            let bytes = builder.bytes([(index, tensor.extent.bytes)]);
            if bytes > 0 {
                let kind = builder.kind(STRAY.to_owned(), true);
                if let Some(kind) = builder.contents.kinds.get_mut(kind) {
                    kind.bytes = kind.bytes.saturating_add(bytes);
                }
            }
        }
        builder.finish()
    }

    fn add_plain<'a>(&'a self, builder: &mut Builder<'a>) {
        let roles = self.claimed().roles.iter();
        let plain = self.catalog.iter().zip(roles).enumerate();
        let mut extents = HashMap::new();
        for (index, ((_, tensor), _)) in plain.filter(|(_, (_, role))| **role == TensorRole::Passthrough) {
            let StoredTensor { name, dtype, shape, extent } = tensor;
            let bytes = builder.bytes([(index, extent.bytes)]);
            let is_new = extents.insert((extent.file, extent.offset, extent.bytes), ()).is_none();
            builder.tensor(name, Some(Cow::Borrowed(shape)), bytes, (dtype.to_string(), false), *dtype);
            if let Some(last) = builder.contents.tensors.last_mut() {
                last.is_alias = !is_new && extent.bytes > 0;
            }
        }
    }
}

#[derive(Default)]
struct Builder<'a> {
    contents: Contents<'a>,
    known: HashMap<(String, bool), usize>,
    /// Which stored tensors are part of a sum.
    is_counted: Vec<bool>,
}

impl<'a> Builder<'a> {
    /// The bytes of those parts that are not counted yet.
    fn bytes(&mut self, parts: impl IntoIterator<Item = (usize, u64)>) -> u64 {
        let new = |(index, bytes): (usize, u64)| {
            let is_old = self.is_counted.get_mut(index).is_none_or(|is_counted| std::mem::replace(is_counted, true));
            if is_old { 0 } else { bytes }
        };
        parts.into_iter().map(new).fold(0, u64::saturating_add)
    }

    fn kind(&mut self, name: String, is_quantized: bool) -> usize {
        let kinds = &mut self.contents.kinds;
        *self.known.entry((name.clone(), is_quantized)).or_insert_with(|| {
            kinds.push(StorageKind { name, is_quantized, tensors: 0, bytes: 0, values: 0 });
            kinds.len() - 1
        })
    }

    fn tensor(
        &mut self,
        name: &'a str,
        shape: Option<Cow<'a, [usize]>>,
        bytes: u64,
        (kind, is_quantized): (String, bool),
        dtype: Dtype,
    ) {
        let values = shape.as_deref().and_then(elements);
        let kind = self.kind(kind, is_quantized);
        if let Some(sum) = self.contents.kinds.get_mut(kind) {
            sum.tensors += 1;
            sum.bytes = sum.bytes.saturating_add(bytes);
            sum.values = sum.values.saturating_add(values.unwrap_or(0));
        }
        self.contents.tensors.push(ContentTensor { name, shape, values, bytes, kind, dtype, is_alias: false });
    }

    /// Sorts tensors by name and kinds by size.
    fn finish(self) -> Contents<'a> {
        let Contents { kinds, mut tensors } = self.contents;
        let mut order: Vec<usize> = (0..kinds.len()).collect();
        order.sort_by_key(|&place| kinds.get(place).map(|kind| std::cmp::Reverse(kind.bytes)));
        let mut places = vec![0; kinds.len()];
        for (place, &old) in order.iter().enumerate() {
            if let Some(new) = places.get_mut(old) {
                *new = place;
            }
        }
        for tensor in &mut tensors {
            tensor.kind = places.get(tensor.kind).copied().unwrap_or(0);
        }
        tensors.sort_unstable_by_key(|tensor| tensor.name);
        let kinds = order.iter().filter_map(|&old| kinds.get(old).cloned()).collect();
        Contents { kinds, tensors }
    }
}

impl Contents<'_> {
    /// Decoded values of all tensors; `None` if some cannot be decoded.
    #[must_use]
    pub fn values(&self) -> Option<u64> {
        self.tensors.iter().try_fold(0u64, |sum, tensor| Some(sum.saturating_add(tensor.values?)))
    }

    /// Bytes of all stored tensors.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.bytes).fold(0, u64::saturating_add)
    }

    /// Stored bits per decoded value; `None` if there are none or some cannot be decoded.
    #[must_use]
    pub fn bits_per_weight(&self) -> Option<f64> {
        let values = self.values().filter(|values| *values > 0)?;
        Some(self.bytes() as f64 * 8.0 / values as f64)
    }
}
