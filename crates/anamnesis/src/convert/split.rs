//! Splitting a GGUF model into several files: where it is split, and the metadata and names of the files.
//!
//! A tensor is never split. The first file has the metadata of the model, the others only their own number and the
//! number of files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::catalog::{Metadata, MetadataValue};
use crate::container::Container;
use crate::error::{AnamnesisError, Result};
use crate::pipeline::{Plan, Planned};

/// How a GGUF model is split into files, which llama.cpp loads by the name of the first.
///
/// ```
/// use anamnesis::{ConvertOptions, Split};
/// let options = ConvertOptions::new().with_split(Split::AtMost { bytes: Some(2_000_000_000), tensors: None });
/// assert_ne!(options.split, Split::Whole);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Split {
    /// One file.
    #[default]
    Whole,
    /// A new file begins where the next tensor would exceed a limit.
    AtMost {
        /// Maximum bytes of tensors in a file; a larger tensor gets a file of its own.
        bytes: Option<u64>,
        /// Maximum number of tensors in a file.
        tensors: Option<usize>,
    },
    /// Every tensor goes to the file with the same number as in the input.
    AsInput,
}

/// Distributes tensors over files within these limits. There is at least one file.
pub(super) fn cut(planned: Vec<Planned>, most_bytes: Option<u64>, most_tensors: Option<usize>) -> Vec<Vec<Planned>> {
    let (most_bytes, most_tensors) = (most_bytes.unwrap_or(u64::MAX), most_tensors.unwrap_or(usize::MAX));
    let mut files = Vec::new();
    let mut file: Vec<Planned> = Vec::new();
    let (mut bytes, mut tensors) = (0u64, 0usize);
    for next in planned {
        let (more, count) = (next.bytes(), next.outputs.len());
        let is_full = bytes.saturating_add(more) > most_bytes || tensors.saturating_add(count) > most_tensors;
        if is_full && !file.is_empty() {
            files.push(std::mem::take(&mut file));
            (bytes, tensors) = (0, 0);
        }
        bytes = bytes.saturating_add(more);
        tensors = tensors.saturating_add(count);
        file.push(next);
    }
    files.push(file);
    files
}

/// Distributes tensors over files with the same numbers as the files their bytes come from.
fn as_in_input(planned: Vec<Planned>) -> Vec<Vec<Planned>> {
    let last = planned.iter().map(|planned| planned.source().0).max().unwrap_or(0);
    let mut files: Vec<Vec<Planned>> = (0..=last).map(|_| Vec::new()).collect();
    for tensor in planned {
        if let Some(file) = files.get_mut(tensor.source().0 as usize) {
            file.push(tensor);
        }
    }
    files
}

/// Lays tensors out in as many files as necessary.
pub(super) fn lay_out(
    planned: Vec<Planned>,
    split: Split,
    container: &dyn Container,
    metadata: Option<Metadata>,
) -> Result<Vec<Plan>> {
    let files = match split {
        Split::Whole => vec![planned],
        Split::AtMost { bytes, tensors } => cut(planned, bytes, tensors),
        Split::AsInput => as_in_input(planned),
    };
    if files.len() == 1 {
        return files.into_iter().map(|file| Plan::new(file, container, metadata.as_ref())).collect();
    }
    let tensors: usize = files.iter().flatten().map(|planned| planned.outputs.len()).sum();
    let count = u16::try_from(files.len()).map_err(|_| {
        AnamnesisError::limit("split.count", format!("{} files, {} are allowed", files.len(), u16::MAX))
    })?;
    let tensors = i32::try_from(tensors)
        .map_err(|_| AnamnesisError::limit("split.tensors.count", format!("{tensors} tensors in all files")))?;
    let mut first = Some(metadata.unwrap_or_default());
    let plan = |(number, file): (u16, Vec<Planned>)| {
        // An explicit order, even if there is no other metadata.
        let of_model = first.take().unwrap_or_else(|| Metadata::new().in_order(vec![KEYS[0].to_owned()]));
        Plan::new(file, container, Some(&with_split_keys(of_model, number, count, tensors)))
    };
    (0..count).zip(files).map(plan).collect()
}

/// The metadata keys of a split file: its number, the number of files, and the number of tensors in all of them.
const KEYS: [&str; 3] = ["split.no", "split.count", "split.tensors.count"];

/// The metadata of one file, with the keys of the split at the end.
fn with_split_keys(mut metadata: Metadata, number: u16, count: u16, tensors: i32) -> Metadata {
    if metadata.has_order() {
        let before = metadata.written().map(|(key, _)| key.to_owned()).filter(|key| !KEYS.contains(&key.as_str()));
        let order = before.chain(KEYS.map(str::to_owned)).collect();
        metadata = metadata.in_order(order);
    }
    let values = [MetadataValue::U16(number), MetadataValue::U16(count), MetadataValue::I32(tensors)];
    metadata.extend(KEYS.map(str::to_owned).into_iter().zip(values));
    metadata
}

/// The names of the files of an output: the output path itself if there is only one.
pub(super) fn names(output: &Path, count: usize) -> Vec<PathBuf> {
    if count == 1 {
        return vec![output.to_path_buf()];
    }
    let ending = output.extension().map(OsString::from);
    let name = |number: usize| {
        let mut name = output.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{number:05}-of-{count:05}"));
        if let Some(ending) = &ending {
            name.push(".");
            name.push(ending);
        }
        output.with_file_name(name)
    };
    (1..=count).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_by_their_number_and_how_many_there_are() {
        assert_eq!(names(Path::new("a/m.gguf"), 1), [PathBuf::from("a/m.gguf")]);
        assert_eq!(names(Path::new("a/m.q4.gguf"), 2)[1], PathBuf::from("a/m.q4-00002-of-00002.gguf"));
        assert_eq!(names(Path::new("m"), 12)[0], PathBuf::from("m-00001-of-00012"));
    }

    #[test]
    fn split_keys_come_last() {
        let text = || MetadataValue::String("x".to_owned());
        let of_model = Metadata::from([("z".to_owned(), text()), ("a".to_owned(), text())]);
        let of_model = of_model.in_order(vec!["z".to_owned(), "a".to_owned()]);
        let of_first_file = with_split_keys(of_model, 0, 2, 7);
        let keys: Vec<_> = of_first_file.written().map(|(key, _)| key).collect();
        assert_eq!(keys, ["z", "a", "split.no", "split.count", "split.tensors.count"]);
    }
}
