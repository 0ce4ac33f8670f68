//! Texts about files of formats other than safetensors, from the facts of their containers. Peculiarities of a format
//! are in [`Wording`].

use std::path::Path;

use anamnesis::error::printable;
use anamnesis::{Checkpoint, Facts, Format, InspectInfo, Subject, TensorSummary};

use super::comma_list;
use crate::ui::size;

/// Peculiarities of the texts about a format.
struct Wording {
    /// Width of the name column.
    name_width: usize,
    /// Appended to the title by `inspect`.
    inspected_as: &'static str,
    /// Whether `parse` prints the types.
    parse_has_dtypes: bool,
    /// Whether the format stores blocks, so that decoded size and number are always printed.
    stores_blocks: bool,
    /// Whether shapes have the fastest-varying dimension first.
    has_reversed_shapes: bool,
}

const PLAIN: Wording = Wording {
    name_width: 30,
    inspected_as: "",
    parse_has_dtypes: true,
    stores_blocks: false,
    has_reversed_shapes: false,
};

fn wording(format: Format) -> Wording {
    match format {
        Format::Gguf => Wording { name_width: 40, stores_blocks: true, has_reversed_shapes: true, ..PLAIN },
        Format::Npz => Wording { parse_has_dtypes: false, ..PLAIN },
        Format::Pth => Wording { inspected_as: " (.pth)", ..PLAIN },
        _ => PLAIN,
    }
}

/// Maximum characters of a fact and of a name.
const MAX_FACT_CHARS: usize = 160;
const MAX_NAME_CHARS: usize = 512;

/// A checkpoint described by the facts of its format.
pub(super) struct Described<'a> {
    checkpoint: &'a Checkpoint,
    facts: &'a Facts,
    info: &'a InspectInfo,
    wording: Wording,
}

impl<'a> Described<'a> {
    /// `None` for safetensors, and for directories of several files.
    pub(super) fn of(checkpoint: &'a Checkpoint, info: &'a InspectInfo) -> Option<Self> {
        let is_model = checkpoint.directory().is_none() || checkpoint.format().parts_are_one_file();
        let facts = checkpoint.facts().filter(|_| is_model)?;
        Some(Self { checkpoint, facts, info, wording: wording(checkpoint.format()) })
    }

    /// The format.
    fn title(&self) -> String {
        let title = &self.facts.title;
        printable(title.strip_suffix(self.wording.inspected_as).unwrap_or(title), MAX_FACT_CHARS)
    }

    /// The facts about a subject, escaped for a terminal.
    fn facts_about(&self, subject: Subject) -> Vec<(&'static str, String)> {
        self.facts.about(subject).map(|fact| (fact.label, printable(&fact.value, MAX_FACT_CHARS))).collect()
    }

    /// The summary printed by `parse`.
    pub(super) fn parsed(&self, path: &Path, tensors: &[TensorSummary<'_>]) -> String {
        let title = format!("Parsed {} ({})", input_name(path, self.checkpoint), self.title());
        let mut rows = self.facts_about(Subject::Model);
        rows.push(("Tensors", self.info.tensor_count.to_string()));
        rows.push(("Total size", size(self.info.current_size)));
        if self.wording.parse_has_dtypes {
            rows.push(("Dtypes", dtypes(tensors)));
        }
        rows.extend(self.facts_about(Subject::Layout));
        let rows = rows.iter().map(|(label, value)| format!("\n  {:<11} {value}", format!("{label}:")));
        title + &rows.collect::<String>()
    }

    /// The tensors, one per line.
    pub(super) fn tensor_lines(&self, tensors: &[TensorSummary<'_>]) -> String {
        let width = self.wording.name_width;
        let line = |tensor: &TensorSummary<'_>| {
            let name = printable(tensor.name, MAX_NAME_CHARS);
            let shape = format!("{:?}", self.shape(tensor));
            format!("  {name:<width$} {} {shape:<15} {}", tensor.dtype, size(tensor.bytes))
        };
        tensors.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The shape of a tensor in file order.
    pub(super) fn shape(&self, tensor: &TensorSummary<'_>) -> Vec<usize> {
        let mut shape = tensor.shape.to_vec();
        if self.wording.has_reversed_shapes {
            shape.reverse();
        }
        shape
    }

    /// The summary printed by `inspect`.
    pub(super) fn inspected(&self, tensors: &[TensorSummary<'_>]) -> String {
        let mut rows = vec![("Format", self.title() + self.wording.inspected_as)];
        rows.extend(self.facts_about(Subject::Model));
        rows.push(("Tensors", self.info.tensor_count.to_string()));
        rows.push(("Total size", size(self.info.current_size)));
        if self.wording.stores_blocks || self.info.quantized > 0 {
            let decoded = self.info.decoded_size().map_or_else(|| "unknown".to_owned(), size);
            rows.push(("Dequantized", format!("{decoded} ({})", self.info.decoded_types())));
        }
        if !self.wording.stores_blocks && self.info.quantized > 0 {
            let schemes = self.info.schemes.iter().map(|(scheme, weights)| format!("{weights} × {scheme}"));
            let undecoded = (self.info.undecoded > 0).then(|| format!("{} not decoded", self.info.undecoded));
            let schemes: Vec<_> = schemes.chain(undecoded).collect();
            rows.push(("Schemes", schemes.join(", ")));
        }
        rows.push(("Dtypes", dtypes(tensors)));
        rows.extend(self.facts_about(Subject::Layout));
        let rows = rows.iter().map(|(label, value)| format!("{:<12} {value}", format!("{label}:")));
        rows.collect::<Vec<_>>().join("\n")
    }

    /// The counts printed by `remember` before it decodes.
    pub(super) fn counts(&self) -> String {
        let tensors = super::counted(self.info.tensor_count, "tensor");
        match self.wording.stores_blocks {
            true => format!("  {tensors}"),
            false => format!("  {tensors}, {}", size(self.info.current_size)),
        }
    }

    /// The result printed by `remember`.
    pub(super) fn result(&self, decoded: usize, copied: usize, output: &str) -> String {
        let counts = format!("  {decoded} dequantized to {}, {copied} passed through\n", self.info.output_dtype);
        let counts = if self.wording.stores_blocks || decoded > 0 { counts } else { String::new() };
        let last = if self.wording.stores_blocks { format!("  Output: {output}") } else { "  Done.".to_owned() };
        counts + &last
    }
}

/// The types in order of first occurrence.
fn dtypes(tensors: &[TensorSummary<'_>]) -> String {
    let mut dtypes = Vec::new();
    for tensor in tensors {
        if !dtypes.contains(&tensor.dtype) {
            dtypes.push(tensor.dtype);
        }
    }
    comma_list(&dtypes)
}

/// The name of an input: the file name, or the argument for a model of a store or several files.
pub(super) fn input_name(path: &Path, checkpoint: &Checkpoint) -> String {
    match checkpoint.files() {
        _ if checkpoint.origin().is_store() => super::shown(path),
        [file] => short_name(file),
        _ => short_name(path),
    }
}

/// The last component of a path.
pub(super) fn short_name(path: &Path) -> String {
    path.file_name().map_or_else(|| super::shown(path), |name| printable(&name.to_string_lossy(), MAX_NAME_CHARS))
}
