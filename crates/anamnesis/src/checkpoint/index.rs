//! The index of a sharded checkpoint, which maps tensors to files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::files::{MAX_INDEX_VALUES, check_json_values};
use super::names::{FLAX_INDEX_END, TORCH_INDEX_FILE};
use crate::catalog::Catalog;
use crate::error::{AnamnesisError, Result, quoted};

/// A parsed index.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Tensor name to file name.
    pub weight_map: BTreeMap<String, String>,
    /// Total size of all tensors in bytes.
    pub total_size: Option<u64>,
}

impl Index {
    /// Parses an index; `name` is its file name, for error messages.
    pub(super) fn parse(text: &[u8], name: &str) -> Result<Self> {
        check_json_values(text, MAX_INDEX_VALUES, name)?;
        let mut index: Self = serde_json::from_slice(text)
            .map_err(|error| AnamnesisError::parse(format!("{name} is not an index: {error}")))?;
        if name.ends_with(FLAX_INDEX_END) {
            let entries = std::mem::take(&mut index.weight_map).into_iter();
            index.weight_map = entries.map(|(tensor, file)| (tensor.replace('/', "."), file)).collect();
        }
        Ok(index)
    }

    /// The files it refers to, without duplicates.
    pub(super) fn files(&self) -> Vec<String> {
        let files: BTreeSet<&str> = self.weight_map.values().map(String::as_str).collect();
        files.into_iter().map(str::to_owned).collect()
    }

    /// A message about tensors that the index does not list, which loaders ignore.
    pub(super) fn unlisted(&self, catalog: &Catalog, name: &str) -> Option<String> {
        let mut unlisted = catalog.iter().filter(|(_, tensor)| !self.weight_map.contains_key(&tensor.name));
        let first = unlisted.next()?.1;
        let more = unlisted.count();
        let others = if more == 0 { String::new() } else { format!(" and {more} more") };
        Some(format!("{name} does not list tensor {}{others}", quoted(&first.name)))
    }

    /// Contradictions between the index and the files. `files` are the names of the catalog's files in order.
    pub(super) fn problems(&self, catalog: &Catalog, files: &[String], name: &str) -> Vec<AnamnesisError> {
        let mut problems = Vec::new();
        let mut bytes = 0u64;
        for (tensor, file) in &self.weight_map {
            let stored = catalog.find(tensor).map(|id| catalog.get(id).extent);
            match stored.and_then(|extent| files.get(extent.file as usize)) {
                Some(found) if found == file => bytes = bytes.saturating_add(stored.map_or(0, |extent| extent.bytes)),
                Some(found) => problems.push(AnamnesisError::parse(format!(
                    "{name} places tensor {} in {}, it is in {}",
                    quoted(tensor),
                    quoted(file),
                    quoted(found)
                ))),
                None => problems.push(AnamnesisError::parse(format!(
                    "{name} places tensor {} in {}, which does not hold it",
                    quoted(tensor),
                    quoted(file)
                ))),
            }
        }
        // For PyTorch files, transformers counts tensors that share storage once.
        let counts_all = name != TORCH_INDEX_FILE;
        if let Some(total) = self.total_size.filter(|&total| counts_all && problems.is_empty() && total != bytes) {
            let why = format!("{name} has a total_size of {total} bytes, the tensors take {bytes}");
            problems.push(AnamnesisError::parse(why));
        }
        problems
    }
}

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(IndexVisitor)
    }
}

struct IndexVisitor;

impl<'de> Visitor<'de> for IndexVisitor {
    type Value = Index;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Index, A::Error> {
        let mut index = Index::default();
        let mut seen = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "weight_map" if seen => return Err(A::Error::custom("weight_map occurs twice")),
                "weight_map" => {
                    seen = true;
                    index.weight_map = map.next_value::<UniqueMap>()?.0;
                }
                "metadata" => {
                    let metadata: serde_json::Value = map.next_value()?;
                    let total = &metadata["total_size"];
                    // Some writers store the size as a float.
                    let whole =
                        |size: f64| (size >= 0.0 && size.fract() == 0.0 && size < 2f64.powi(53)).then_some(size as u64);
                    index.total_size = total.as_u64().or_else(|| total.as_f64().and_then(whole));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if seen { Ok(index) } else { Err(A::Error::missing_field("weight_map")) }
    }
}

/// A map of strings in which a duplicate key is an error.
struct UniqueMap(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for UniqueMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct MapVisitor;

        impl<'de> Visitor<'de> for MapVisitor {
            type Value = UniqueMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of file names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<UniqueMap, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((tensor, file)) = map.next_entry::<String, String>()? {
                    if let Some(other) = entries.insert(tensor.clone(), file) {
                        let text = format!("tensor {} occurs twice, first in {}", quoted(&tensor), quoted(&other));
                        return Err(A::Error::custom(text));
                    }
                }
                Ok(UniqueMap(entries))
            }
        }
        deserializer.deserialize_map(MapVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read() {
        let text = br#"{"metadata": {"total_size": 12.0}, "weight_map": {"b": "2", "a": "1", "c": "1"}}"#;
        let index = Index::parse(text, "index").unwrap();
        assert_eq!(index.files(), ["1", "2"]);
        assert_eq!(index.total_size, Some(12));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"weight_map": 3}"#,
            r#"{"weight_map": {"a": 1}}"#,
            r#"{"weight_map": {"a": "1", "a": "2"}}"#,
            r#"{"weight_map": {}, "weight_map": {}}"#,
        ] {
            assert!(Index::parse(text.as_bytes(), "index").is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_counted_before_they_are_made() {
        let metadata = format!(r#"{{"metadata": [{}0], "weight_map": {{}}}}"#, "0,".repeat(MAX_INDEX_VALUES));
        let error = Index::parse(metadata.as_bytes(), "index").unwrap_err();
        assert!(matches!(error, AnamnesisError::LimitExceeded { limit: "MAX_JSON_VALUES", .. }), "{error}");
    }
}
