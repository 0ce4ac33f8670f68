//! Code in the description of a Keras model: a JSON document in an attribute of an HDF5 file, in the entry
//! `config.json` of an archive, or in `keras_metadata.pb`.
//!
//! Keras creates the objects that the document names. Code can be in three places: a Lambda layer contains bytecode, a
//! `module` outside of Keras is imported, and a function of Keras or TensorFlow can read and write files.

use serde_json::{Map, Value};

use super::grade::grade;
use super::report::{Grade, ScannedGlobal};
use crate::error::{AnamnesisError, Result, printable};
use crate::json;

/// Attributes of an HDF5 file that describe a model.
pub(super) const ATTRIBUTES: [&str; 2] = ["model_config", "training_config"];
/// The entry of an archive that describes a model.
pub(super) const CONFIG: &str = "config.json";
/// Maximum bytes of a description.
pub(super) const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Maximum number of distinct names.
const MAX_NAMES: usize = 1000;
const MAX_NAME_CHARS: usize = 1024;

/// Classes whose objects contain bytecode.
const BYTECODE: [&str; 2] = ["Lambda", "__lambda__"];
/// Packages whose classes are layers, optimizers, losses and the like.
const PACKAGES: [&str; 6] = ["keras", "tf_keras", "keras_hub", "keras_nlp", "keras_cv", "keras_core"];
/// Parts of these packages that read and write files.
const WITH_FILES: [&str; 5] = ["utils", "saving", "export", "models_lib", "file_utils"];
/// Classes of Keras' own serialization, whose module is not imported by name.
const SERIALIZED: [&str; 6] = ["__numpy__", "__tensor__", "__keras_tensor__", "__ellipsis__", "__bytes__", "__tuple__"];

/// The names in a description that are not known to be harmless.
pub(super) fn names(text: &[u8]) -> Result<Vec<ScannedGlobal>> {
    let document: Value = json::from_slice(text)
        .map_err(|error| AnamnesisError::parse(format!("the description of the Keras model is no JSON: {error}")))?;
    let mut found = Vec::new();
    walk(&document, &mut found)?;
    Ok(found)
}

fn walk(value: &Value, found: &mut Vec<ScannedGlobal>) -> Result<()> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| walk(value, found)),
        Value::Object(object) => {
            if let Some((module, name, grade)) = refused(object) {
                add(found, &module, &name, grade)?;
            }
            object.values().try_for_each(|value| walk(value, found))
        }
        _ => Ok(()),
    }
}

/// The name that an object of the document stands for, unless it is known to be harmless.
fn refused(object: &Map<String, Value>) -> Option<(String, String, Grade)> {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let class = text("class_name")?;
    let module = text("module");
    if BYTECODE.contains(&class) {
        return Some((module.unwrap_or("keras.layers").to_owned(), class.to_owned(), Grade::RunsCode));
    }
    if class == "TFOpLambda" {
        let function = object.get("config").and_then(|config| config.get("function")).and_then(Value::as_str)?;
        let has_effects = ["io.", "raw_ops.", "py_function", "numpy_function", "compat.", "load_op_library"];
        let is_refused = has_effects.iter().any(|part| function.starts_with(part));
        return is_refused.then(|| ("tensorflow".to_owned(), function.to_owned(), Grade::RunsCode));
    }
    let module = module.filter(|module| !module.is_empty())?;
    // A function is named by its configuration.
    let name = if class == "function" { text("config").unwrap_or(class) } else { class };
    let mut parts = module.split('.');
    let is_own = parts.next().is_some_and(|package| PACKAGES.contains(&package))
        && !parts.any(|part| WITH_FILES.contains(&part));
    if is_own || SERIALIZED.contains(&class) {
        return None;
    }
    Some((module.to_owned(), name.to_owned(), grade(module, name, false).max(Grade::Unknown)))
}

fn add(found: &mut Vec<ScannedGlobal>, module: &str, name: &str, grade: Grade) -> Result<()> {
    let (module, name) = (printable(module, MAX_NAME_CHARS), printable(name, MAX_NAME_CHARS));
    if let Some(known) = found.iter_mut().find(|known| known.module == module && known.name == name) {
        known.uses += 1;
        return Ok(());
    }
    if found.len() == MAX_NAMES {
        return Err(AnamnesisError::limit("scan", format!("the description refers to more than {MAX_NAMES} names")));
    }
    found.push(ScannedGlobal { module, name, position: 0, uses: 1, allowed: false, grade });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, String, Grade)> {
        names(text.as_bytes()).unwrap().into_iter().map(|found| (found.module, found.name, found.grade)).collect()
    }

    fn one(module: &str, name: &str, grade: Grade) -> Vec<(String, String, Grade)> {
        vec![(module.to_owned(), name.to_owned(), grade)]
    }

    #[test]
    fn lambda_layers_are_found_at_any_depth_and_behind_escapes() {
        let layers =
            r#"{"config": {"layers": [{"class_name": "\u004cambda", "config": {"function": ["4wE=", null]}}]}}"#;
        assert_eq!(of(layers), one("keras.layers", "Lambda", Grade::RunsCode));
        let inner = r#"[{"class_name": "__lambda__", "config": {"value": "4wE="}}]"#;
        assert_eq!(of(inner), one("keras.layers", "__lambda__", Grade::RunsCode));
    }

    #[test]
    fn modules_outside_of_keras_and_functions_with_files_are_found() {
        let function = r#"{"module": "builtins", "class_name": "function", "config": "exec"}"#;
        assert_eq!(of(function), one("builtins", "exec", Grade::RunsCode));
        let file = r#"{"module": "keras.utils", "class_name": "function", "config": "get_file"}"#;
        assert_eq!(of(file), one("keras.utils", "get_file", Grade::Unknown));
        let own = r#"{"module": "mine", "class_name": "Net"}"#;
        assert_eq!(of(own), one("mine", "Net", Grade::Unknown));
        let operation = r#"{"class_name": "TFOpLambda", "config": {"function": "io.write_file"}}"#;
        assert_eq!(of(operation), one("tensorflow", "io.write_file", Grade::RunsCode));
    }

    #[test]
    fn models_of_layers_have_no_such_names() {
        let model = r#"{"module": "keras.src.models.functional", "class_name": "Functional", "config": {"layers": [
            {"module": "keras.layers", "class_name": "Dense", "config": {"activation": "relu", "dtype":
                {"module": "keras", "class_name": "DTypePolicy"}}},
            {"class_name": "Dense", "config": {}}, {"class_name": "TFOpLambda", "config": {"function": "math.add"}}]}}"#;
        assert_eq!(of(model), []);
        assert!(names(b"{").is_err());
    }
}
