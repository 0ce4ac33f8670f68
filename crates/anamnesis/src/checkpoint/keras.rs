//! Sharded weights of Keras (`X.weights.json`) and of TensorFlow models of transformers (`tf_model.h5.index.json`): a JSON
//! document whose `weight_map` names the HDF5 files of groups or tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::files::{MAX_INDEX_VALUES, check_json_values, read_index};
use super::located::Set;
use crate::catalog::Catalog;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::file_inside;

/// Suffixes of these documents.
const ENDS: [&str; 2] = [".weights.json", ".h5.index.json"];

/// Whether a file is named like such a document.
pub(super) fn is_index(name: &str) -> bool {
    ENDS.iter().any(|end| name.ends_with(end))
}

/// The files that a document names, with their groups.
pub(super) fn shards(directory: &Path, name: &str) -> Result<Set> {
    let text = read_index(&directory.join(name))?;
    check_json_values(&text, MAX_INDEX_VALUES, name)?;
    let fault = |why: &str| AnamnesisError::parse(format!("{name} is not an index: {why}"));
    let document: Value = serde_json::from_slice(&text).map_err(|error| fault(&error.to_string()))?;
    let map = document.get("weight_map").and_then(Value::as_object).ok_or_else(|| fault("it has no weight_map"))?;
    let (mut files, mut groups) = (BTreeSet::new(), Vec::new());
    for (group, value) in map {
        // A list means that a group is spread over several files.
        let names = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        for file in names {
            let file = file.as_str().ok_or_else(|| fault("a file name is not a text"))?;
            file_inside(directory, file)?;
            files.insert(file.to_owned());
            // Keras lists the paths of groups, transformers the names of weights.
            groups.extend(group.strip_prefix('/').map(|group| (group.to_owned(), file.to_owned())));
        }
    }
    if files.is_empty() {
        return Err(fault("it names no file"));
    }
    Ok(Set { groups, ..Set::new(directory, files.into_iter().collect()) })
}

/// Refuses a group without a tensor in a file that has some, according to the document.
pub(super) fn check_groups(set: &Set, catalogs: &[Catalog]) -> Result<()> {
    let catalogs: BTreeMap<&str, &Catalog> = set.files.iter().map(String::as_str).zip(catalogs).collect();
    for (group, file) in &set.groups {
        // A value that is left out may have been the only one of its group.
        let is_in = |catalog: &&Catalog| {
            let is_whole = catalog.unreadable.is_empty() && catalog.notes.is_empty();
            !is_whole || catalog.with_prefix(&format!("{group}/")).next().is_some()
        };
        if !catalogs.get(file.as_str()).is_some_and(is_in) {
            let (group, file) = (quoted(group), quoted(file));
            return Err(AnamnesisError::parse(format!(
                "the index places {group} in {file}, which has no tensor of it"
            )));
        }
    }
    Ok(())
}
