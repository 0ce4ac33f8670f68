//! Finding the index of a TensorFlow checkpoint: by the prefix of its files, by a data file, or in a directory.

use std::path::{Path, PathBuf};

use super::files;
use super::names::{is_named_as, several_models};
use crate::container::Format;
use crate::error::Result;
use crate::io::entry;

/// The suffix of an index.
const INDEX_END: &str = ".index";
/// The files of a `SavedModel`.
const SAVED_MODEL: &str = "saved_model.pb";
const VARIABLES: &str = "variables/variables.index";

/// The index of a checkpoint that is named by the prefix of its files, as TensorFlow does, or by one of its data files.
pub(super) fn index_of(path: &Path) -> Result<Option<PathBuf>> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(None) };
    let prefix = match data_prefix(name) {
        Some(prefix) => prefix,
        None if entry(path)?.is_none() => name,
        None => return Ok(None),
    };
    let index = path.with_file_name(format!("{prefix}{INDEX_END}"));
    Ok(files::is_file(&index)?.then_some(index))
}

/// The prefix of the name of a data file: `X` of `X.data-00000-of-00001`.
fn data_prefix(name: &str) -> Option<&str> {
    let (prefix, numbers) = name.rsplit_once(".data-")?;
    let (number, count) = numbers.split_once("-of-")?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(number) && is_number(count)).then_some(prefix)
}

/// The index in a directory of these files, which must have one checkpoint, or in the variables of a `SavedModel`.
pub(super) fn index_in(directory: &Path, names: &[String]) -> Result<Option<PathBuf>> {
    let indices: Vec<&String> = names.iter().filter(|name| is_named_as(name, Format::TensorFlow)).collect();
    match indices[..] {
        [] if names.iter().any(|name| name == SAVED_MODEL) => {
            let index = directory.join(VARIABLES);
            Ok(files::is_file(&index)?.then_some(index))
        }
        [] => Ok(None),
        [index] => Ok(Some(directory.join(index))),
        _ => Err(several_models(directory, &indices)),
    }
}
