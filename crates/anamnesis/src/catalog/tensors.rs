//! The catalog: the stored tensors of a checkpoint, sorted by name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::dtype::elements;
use super::{Dtype, Facts, MetadataValue, Note, Operation};
use crate::error::{AnamnesisError, Result, quoted};

/// A byte range of one of the checkpoint's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Index of the file in the checkpoint.
    pub file: u32,
    /// Absolute offset in that file.
    pub offset: u64,
    pub bytes: u64,
}

/// A tensor as stored. Its container has checked that the extent is inside the file and has exactly the size of
/// `shape` and `dtype`.
#[derive(Debug, Clone)]
pub(crate) struct StoredTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub extent: Extent,
}

impl StoredTensor {
    pub(crate) fn elements(&self) -> u64 {
        // Cannot overflow: the extent was computed from this product.
        elements(&self.shape).unwrap_or(u64::MAX)
    }
}

/// Metadata of a checkpoint, for example the `__metadata__` of safetensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metadata {
    entries: BTreeMap<String, MetadataValue>,
    /// The output order of the keys; empty if sorted.
    order: Vec<String>,
}

impl Metadata {
    pub(crate) const fn new() -> Self {
        Self { entries: BTreeMap::new(), order: Vec::new() }
    }

    /// Sets the output order; keys that it lacks follow, sorted.
    pub(crate) fn in_order(mut self, order: Vec<String>) -> Self {
        self.order = order;
        self
    }

    /// Whether the entries have an output order of their own.
    pub(crate) const fn has_order(&self) -> bool {
        !self.order.is_empty()
    }

    /// The entries in output order.
    pub(crate) fn written(&self) -> impl Iterator<Item = (&str, &MetadataValue)> {
        let named: BTreeSet<&str> = self.order.iter().map(String::as_str).collect();
        let first = self.order.iter().filter_map(|key| self.entries.get_key_value(key));
        let rest = self.entries.iter().filter(move |(key, _)| !named.contains(key.as_str()));
        first.chain(rest).map(|(key, value)| (key.as_str(), value))
    }
}

impl std::ops::Deref for Metadata {
    type Target = BTreeMap<String, MetadataValue>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl std::ops::DerefMut for Metadata {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.entries
    }
}

impl<const N: usize> From<[(String, MetadataValue); N]> for Metadata {
    fn from(entries: [(String, MetadataValue); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl FromIterator<(String, MetadataValue)> for Metadata {
    fn from_iter<T: IntoIterator<Item = (String, MetadataValue)>>(entries: T) -> Self {
        Self { entries: entries.into_iter().collect(), order: Vec::new() }
    }
}

impl IntoIterator for Metadata {
    type Item = (String, MetadataValue);
    type IntoIter = std::collections::btree_map::IntoIter<String, MetadataValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

/// Index of a stored tensor in its catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TensorId(u32);

impl TensorId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The position of a file in a split model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SplitPart {
    /// Its index among the parts, from 0.
    pub index: u32,
    pub count: u32,
    /// Number of tensors of all parts, if the file records it.
    pub tensors: Option<u32>,
}

/// The stored tensors of a checkpoint, with unique names, sorted by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    tensors: Vec<StoredTensor>,
    pub(crate) metadata: Option<Metadata>,
    /// Number of metadata entries that are read only for outputs that can hold them.
    pub(crate) unread_metadata: usize,
    /// The position in a split model; `None` for a whole model.
    pub(crate) part: Option<SplitPart>,
    /// Whether dtypes are final: an eight-bit float without a scale is plain data then, not a quantised weight.
    pub(crate) types_are_final: bool,
    /// Whether the file contains arbitrary arrays, so that integers do not indicate packed weights.
    pub(crate) holds_plain_arrays: bool,
    /// Other files that the tensors are read from.
    pub(crate) more_files: Vec<PathBuf>,
    /// The names of tensors whose floats of fewer than eight bits are presented as F32.
    pub(crate) widened: Vec<String>,
    /// The operations that read the tensors; `None` if the file has no graph.
    pub(crate) operations: Option<Vec<Operation>>,
    /// The integers with scales, if the file records them; then all other tensors are plain data.
    pub(crate) scaled: Option<Vec<ScaledCodes>>,
    /// Facts about the file other than its tensors.
    pub(crate) facts: Option<Facts>,
    /// Notes on how the file was read, for example on omitted values.
    pub(crate) notes: Vec<Note>,
    /// Stored tensors that cannot be read. They prevent a conversion, but not an inspection.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// Integers with scales, as a file records them: a value is `(code - zero point) * scale`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScaledCodes {
    /// The names of the stored tensors: the codes, F32 scales and I64 zero points.
    pub codes: String,
    pub scales: String,
    pub zero_points: String,
    /// The dimension of the codes that has a scale for each index; `None` if there is one scale.
    pub axis: Option<usize>,
}

/// Why a stored tensor is not in the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub format: &'static str,
    pub why: String,
}

impl Unreadable {
    pub(crate) fn error(&self) -> AnamnesisError {
        AnamnesisError::unsupported(self.format, &self.why)
    }
}

impl Catalog {
    /// A catalog of `tensors`; duplicate names are refused.
    pub(crate) fn new(mut tensors: Vec<StoredTensor>, metadata: Option<Metadata>) -> Result<Self> {
        if u32::try_from(tensors.len()).is_err() {
            return Err(AnamnesisError::limit("tensor_count", format!("{} tensors", tensors.len())));
        }
        if !tensors.is_sorted_by(|a, b| a.name <= b.name) {
            tensors.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        }
        if let Some(pair) = tensors.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(AnamnesisError::parse(format!("tensor {} occurs twice", quoted(&pair[0].name))));
        }
        Ok(Self { tensors, metadata, ..Self::default() })
    }

    /// Merges the catalogs of several files, whose names are for messages. The first value of a metadata key wins.
    pub(crate) fn merge(catalogs: Vec<Self>, files: &[String]) -> Result<Self> {
        let mut tensors = Vec::with_capacity(catalogs.iter().map(Self::len).sum());
        let mut metadata: Option<Metadata> = None;
        let (mut facts, mut notes, mut unreadable, mut unread_metadata) = (None, Vec::new(), Vec::new(), 0);
        let (mut operations, mut widened, mut more_files) = (None, Vec::new(), Vec::new());
        let types_are_final = catalogs.iter().all(|catalog| catalog.types_are_final);
        let mut scaled: Option<Vec<ScaledCodes>> = None;
        for catalog in catalogs {
            if let Some(more) = catalog.scaled {
                scaled.get_or_insert_default().extend(more);
            }
            tensors.extend(catalog.tensors);
            facts = facts.or(catalog.facts);
            operations = operations.or(catalog.operations);
            widened.extend(catalog.widened);
            more_files.extend(catalog.more_files);
            notes.extend(catalog.notes);
            unreadable.extend(catalog.unreadable);
            unread_metadata += catalog.unread_metadata;
            if let Some(text) = catalog.metadata {
                let all = metadata.get_or_insert_default();
                for (key, value) in text {
                    all.entry(key).or_insert(value);
                }
            }
        }
        tensors.sort_by(|a: &StoredTensor, b| a.name.cmp(&b.name));
        if let Some(pair) = tensors.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let file =
                |tensor: &StoredTensor| quoted(files.get(tensor.extent.file as usize).map_or("", String::as_str));
            let (name, a_file, b_file) = (quoted(&pair[0].name), file(&pair[0]), file(&pair[1]));
            return Err(AnamnesisError::parse(format!("tensor {name} is in {a_file} and again in {b_file}")));
        }
        let catalog = Self::new(tensors, metadata)?;
        Ok(Self {
            types_are_final,
            operations,
            scaled,
            widened,
            more_files,
            facts,
            notes,
            unreadable,
            unread_metadata,
            ..catalog
        })
    }

    /// Keeps the tensors for which `keep` returns true.
    pub(crate) fn retain(&mut self, keep: impl Fn(TensorId, &StoredTensor) -> bool) {
        let mut index = 0;
        self.tensors.retain(|tensor| {
            index += 1;
            keep(TensorId(index - 1), tensor)
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.tensors.len()
    }

    pub(crate) fn get(&self, id: TensorId) -> &StoredTensor {
        &self.tensors[id.index()]
    }

    /// All tensors with their ids, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TensorId, &StoredTensor)> {
        self.tensors.iter().enumerate().map(|(index, tensor)| (TensorId(index as u32), tensor))
    }

    pub(crate) fn find(&self, name: &str) -> Option<TensorId> {
        let found = self.tensors.binary_search_by(|tensor| tensor.name.as_str().cmp(name));
        found.ok().map(|index| TensorId(index as u32))
    }

    /// The tensors whose names start with `prefix`.
    pub(crate) fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (TensorId, &'a StoredTensor)> + 'a {
        let start = self.tensors.partition_point(|tensor| tensor.name.as_str() < prefix);
        self.tensors[start..]
            .iter()
            .enumerate()
            .take_while(move |(_, tensor)| tensor.name.starts_with(prefix))
            .map(move |(index, tensor)| (TensorId((start + index) as u32), tensor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str) -> StoredTensor {
        let extent = Extent { file: 0, offset: 0, bytes: 0 };
        StoredTensor { name: name.into(), dtype: Dtype::F32, shape: vec![0], extent }
    }

    #[test]
    fn tensors_are_found_by_name_and_prefix() {
        let catalog = Catalog::new(vec![tensor("b.w"), tensor("a"), tensor("b.s"), tensor("c")], None).unwrap();
        assert_eq!(catalog.get(catalog.find("b.w").unwrap()).name, "b.w");
        assert!(catalog.find("b").is_none());
        let names: Vec<_> = catalog.with_prefix("b.").map(|(id, t)| (id.index(), t.name.as_str())).collect();
        assert_eq!(names, [(1, "b.s"), (2, "b.w")]);
    }

    #[test]
    fn refuses_a_name_that_occurs_twice() {
        let error = Catalog::new(vec![tensor("x"), tensor("y"), tensor("x")], None).unwrap_err();
        assert_eq!(error.to_string(), "parse error: tensor \"x\" occurs twice");
    }
}
