//! Sharded weights of Keras (`X.weights.json`) and of TensorFlow models of transformers (`tf_model.h5.index.json`): a JSON
//! document whose `weight_map` names the HDF5 files of groups or tensors.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::files::{MAX_INDEX_VALUES, check_json_values, read_index};
use crate::error::{AnamnesisError, Result};
use crate::io::file_inside;

/// Suffixes of these documents.
const ENDS: [&str; 2] = [".weights.json", ".h5.index.json"];

/// Whether a file is named like such a document.
pub(super) fn is_index(name: &str) -> bool {
    ENDS.iter().any(|end| name.ends_with(end))
}

/// The files that a document names.
pub(super) fn files(directory: &Path, name: &str) -> Result<Vec<String>> {
    let text = read_index(&directory.join(name))?;
    check_json_values(&text, MAX_INDEX_VALUES, name)?;
    let fault = |why: &str| AnamnesisError::parse(format!("{name} is not an index: {why}"));
    let document: Value = serde_json::from_slice(&text).map_err(|error| fault(&error.to_string()))?;
    let map = document.get("weight_map").and_then(Value::as_object).ok_or_else(|| fault("it has no weight_map"))?;
    let mut files = BTreeSet::new();
    for value in map.values() {
        // A list means that a group is spread over several files.
        let names = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        for file in names {
            let file = file.as_str().ok_or_else(|| fault("a file name is not a text"))?;
            file_inside(directory, file)?;
            files.insert(file.to_owned());
        }
    }
    if files.is_empty() {
        return Err(fault("it names no file"));
    }
    Ok(files.into_iter().collect())
}
