//! The operations of a TensorFlow graph that reach outside of it: `saved_model.pb`, frozen graphs, and the descriptions
//! of Keras layers in `keras_metadata.pb`.
//!
//! | message | fields that are read |
//! |---|---|
//! | `SavedModel` | 2: `MetaGraphDef` |
//! | `MetaGraphDef` | 2: `GraphDef` |
//! | `GraphDef` | 1: `NodeDef`, 2: `FunctionDefLibrary` |
//! | `FunctionDefLibrary` | 1: `FunctionDef` |
//! | `FunctionDef` | 3: `NodeDef` |
//! | `NodeDef` | 1: name, 2: operation |
//! | `SavedMetadata` | 1: `SavedObject` |
//! | `SavedObject` | 5: JSON of a Keras layer |
//!
//! TensorFlow has more than a thousand operations, so this is a list of the refused ones, not of the allowed ones.

use std::ops::Range;

use super::keras;
use super::report::{Grade, ScannedGlobal, ScannedLanguage};
use crate::container::protobuf::{Field, Fields, Window};
use crate::error::{AnamnesisError, Result, printable};
use crate::io::Source;

/// Operations that call Python, or read and write files of their choice.
const OPERATIONS: [&str; 32] = [
    "CSVDataset",
    "DebugIdentity",
    "DebugIdentityV2",
    "DebugIdentityV3",
    "EagerPyFunc",
    "ExperimentalCSVDataset",
    "ExperimentalSqlDataset",
    "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2",
    "FixedLengthRecordReader",
    "FixedLengthRecordReaderV2",
    "GenerateVocabRemapping",
    "ImportEvent",
    "LMDBReader",
    "LoadDataset",
    "MatchingFiles",
    "MatchingFilesDataset",
    "PrintV2",
    "PyFunc",
    "PyFuncStateless",
    "ReadFile",
    "SaveDataset",
    "SaveDatasetV2",
    "SqlDataset",
    "TFRecordDataset",
    "TFRecordDatasetV2",
    "TFRecordReaderV2",
    "TextLineDataset",
    "TextLineReaderV2",
    "WholeFileReaderV2",
    "WriteFile",
    "WriteSummary",
];
/// The kinds of files.
const SAVED_MODEL: &str = "TensorFlow SavedModel";
const GRAPH: &str = "TensorFlow graph";
const KERAS_METADATA: &str = "Keras metadata";
/// Maximum bytes of the name of an operation.
const MAX_OPERATION_BYTES: u64 = 4096;
const MAX_NAMES: usize = 1000;
const MAX_NAME_CHARS: usize = 1024;

/// A scanned TensorFlow file.
pub(super) struct Scanned {
    /// The kind of file.
    pub(super) kind: &'static str,
    pub(super) language: ScannedLanguage,
    pub(super) names: Vec<ScannedGlobal>,
}

/// Whether a file may be one, by its first byte: the tag of the first field.
pub(super) fn may_be(head: &[u8]) -> bool {
    matches!(head, [0x08 | 0x0a | 0x12, ..])
}

/// The refused operations and layers of a file; `None` if it is not a file of TensorFlow.
pub(super) fn scan(source: &dyn Source) -> Result<Option<Scanned>> {
    let window = Window::new(source, source.len());
    let whole = 0..source.len();
    for kind in [SAVED_MODEL, GRAPH, KERAS_METADATA] {
        let mut walk = Walk { window: &window, names: Vec::new(), parts: 0, is_saved_model: false };
        let (language, read) = match kind {
            SAVED_MODEL => (ScannedLanguage::TensorFlowGraph, walk.saved_model(whole.clone())),
            GRAPH => (ScannedLanguage::TensorFlowGraph, walk.graph(whole.clone())),
            _ => (ScannedLanguage::KerasModel, walk.metadata(whole.clone())),
        };
        match read {
            Ok(()) if walk.parts > 0 => return Ok(Some(Scanned { kind, language, names: walk.names })),
            Err(error @ (AnamnesisError::Io(_) | AnamnesisError::LimitExceeded { .. })) => return Err(error),
            // TensorFlow tolerates more than is read here: another interpretation must not hide this one.
            Err(error) if walk.is_saved_model => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

struct Walk<'w, 's> {
    window: &'w Window<'s, dyn Source + 's>,
    names: Vec<ScannedGlobal>,
    /// Nodes and layers seen.
    parts: u64,
    /// Whether there is a graph where that of a `SavedModel` is.
    is_saved_model: bool,
}

impl Walk<'_, '_> {
    /// Calls `each` for every field of a message that has a length.
    fn each(
        &mut self,
        message: Range<u64>,
        mut each: impl FnMut(&mut Self, u64, Range<u64>) -> Result<()>,
    ) -> Result<()> {
        let mut fields = Fields::new(self.window.message(message));
        while let Some((number, field)) = fields.next()? {
            if let Field::Bytes(range) = field {
                each(self, number, range)?;
            }
        }
        Ok(())
    }

    fn saved_model(&mut self, message: Range<u64>) -> Result<()> {
        self.each(message, |walk, number, meta_graph| match number {
            2 => walk.each(meta_graph, |walk, number, graph| match number {
                2 => {
                    walk.is_saved_model = true;
                    walk.graph(graph)
                }
                _ => Ok(()),
            }),
            _ => Ok(()),
        })
    }

    fn graph(&mut self, message: Range<u64>) -> Result<()> {
        self.each(message, |walk, number, range| match number {
            1 => walk.node(range),
            2 => walk.each(range, |walk, number, function| match number {
                1 => walk.each(function, |walk, number, node| match number {
                    3 => walk.node(node),
                    _ => Ok(()),
                }),
                _ => Ok(()),
            }),
            _ => Ok(()),
        })
    }

    fn node(&mut self, message: Range<u64>) -> Result<()> {
        let mut operation = None;
        self.each(message, |_, number, range| {
            if number == 2 {
                operation = Some(range);
            }
            Ok(())
        })?;
        let missing = || AnamnesisError::parse("a node of a graph has no operation");
        let name = self.text(operation.ok_or_else(missing)?, MAX_OPERATION_BYTES)?;
        let name = String::from_utf8(name).map_err(|_| AnamnesisError::parse("an operation's name is not UTF-8"))?;
        self.parts += 1;
        if OPERATIONS.contains(&name.as_str()) {
            self.add("tensorflow", &printable(&name, MAX_NAME_CHARS), Grade::RunsCode)?;
        }
        Ok(())
    }

    fn metadata(&mut self, message: Range<u64>) -> Result<()> {
        self.each(message, |walk, number, object| match number {
            1 => walk.layer(object),
            _ => Ok(()),
        })
    }

    fn layer(&mut self, message: Range<u64>) -> Result<()> {
        let before = self.parts;
        self.each(message, |walk, number, text| match number {
            5 => {
                let text = walk.text(text, keras::MAX_CONFIG_BYTES)?;
                walk.parts += 1;
                let found = keras::names(&text)?;
                found.iter().try_for_each(|found| walk.add(&found.module, &found.name, found.grade))
            }
            _ => Ok(()),
        })?;
        match self.parts > before {
            true => Ok(()),
            false => Err(AnamnesisError::parse("an object of Keras has no description")),
        }
    }

    fn text(&self, range: Range<u64>, most: u64) -> Result<Vec<u8>> {
        let bytes = range.end.saturating_sub(range.start);
        if bytes > most {
            return Err(AnamnesisError::parse(format!("a text of {bytes} bytes, {most} are allowed")));
        }
        let mut text = vec![0; bytes as usize];
        self.window.fill(range.start, &mut text)?;
        Ok(text)
    }

    fn add(&mut self, module: &str, name: &str, grade: Grade) -> Result<()> {
        if let Some(known) = self.names.iter_mut().find(|known| known.module == module && known.name == name) {
            known.uses += 1;
            return Ok(());
        }
        if self.names.len() == MAX_NAMES {
            return Err(AnamnesisError::limit("scan", format!("the file refers to more than {MAX_NAMES} names")));
        }
        let (module, name) = (module.to_owned(), name.to_owned());
        self.names.push(ScannedGlobal { module, name, position: 0, uses: 1, allowed: false, grade });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::BytesSource;

    /// A field with a length.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    fn node(operation: &str) -> Vec<u8> {
        [field(1, b"name"), field(2, operation.as_bytes())].concat()
    }

    fn names(bytes: &[u8]) -> Option<(&'static str, Vec<String>)> {
        let scanned = scan(&BytesSource(bytes)).unwrap()?;
        Some((scanned.kind, scanned.names.into_iter().map(|found| found.name).collect()))
    }

    #[test]
    fn operations_are_found_in_nodes_and_in_functions() {
        let graph = field(1, &node("MatMul"));
        let library = field(2, &field(1, &field(3, &node("WriteFile"))));
        let model = |graph: &[u8]| [&[8, 1][..], &field(2, &field(2, graph))].concat();
        assert_eq!(names(&model(&graph)), Some(("TensorFlow SavedModel", vec![])));
        let found = Some(("TensorFlow SavedModel", vec!["WriteFile".to_owned()]));
        assert_eq!(names(&model(&[graph.clone(), library.clone()].concat())), found);
        let found = Some(("TensorFlow graph", vec!["PyFunc".to_owned(), "WriteFile".to_owned()]));
        assert_eq!(names(&[graph, field(1, &node("PyFunc")), library].concat()), found);
    }

    #[test]
    fn layers_are_found_in_the_metadata_of_keras() {
        let layer = field(1, &field(5, br#"{"class_name": "Lambda", "config": {}}"#));
        assert_eq!(names(&layer), Some(("Keras metadata", vec!["Lambda".to_owned()])));
    }

    #[test]
    fn other_files_are_none_of_tensorflow() {
        assert!(names(b"\x0a\x03abc").is_none());
        assert!(names(b"\x12\xff\xff").is_none());
        assert!(names(b"").is_none());
    }
}
