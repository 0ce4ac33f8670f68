//! The texts of files in other formats than safetensors, from what their containers tell. A format is described by its facts;
//! what else users know to expect of it is a row of [`Wording`].

use std::path::Path;

use anamnesis::error::printable;
use anamnesis::{Checkpoint, Facts, Format, InspectInfo, Subject, TensorSummary};

use super::comma_list;
use crate::ui::size;

/// What is particular about the texts of a format.
struct Wording {
    /// Columns of a tensor's name.
    name_width: usize,
    /// Behind the title in an inspection, and only there.
    inspected_as: &'static str,
    /// Whether `parse` lists the types.
    parse_has_dtypes: bool,
    /// Whether blocks are what the format is about, so that their decoded size and number are always told.
    is_of_blocks: bool,
    /// Whether the file has the dimension that varies fastest first.
    is_fastest_first: bool,
}

const PLAIN: Wording =
    Wording { name_width: 30, inspected_as: "", parse_has_dtypes: true, is_of_blocks: false, is_fastest_first: false };

fn wording(format: Format) -> Wording {
    match format {
        Format::Gguf => Wording { name_width: 40, is_of_blocks: true, is_fastest_first: true, ..PLAIN },
        Format::Npz => Wording { parse_has_dtypes: false, ..PLAIN },
        Format::Pth => Wording { inspected_as: " (.pth)", ..PLAIN },
        _ => PLAIN,
    }
}

/// Longest value of a fact, and longest name, in characters.
const MAX_FACT_CHARS: usize = 160;
const MAX_NAME_CHARS: usize = 512;

/// A checkpoint that its format describes.
pub(super) struct Described<'a> {
    checkpoint: &'a Checkpoint,
    facts: &'a Facts,
    info: &'a InspectInfo,
    wording: Wording,
}

impl<'a> Described<'a> {
    /// `None` for safetensors, and for directories of files that are parts of a checkpoint like those of safetensors.
    pub(super) fn of(checkpoint: &'a Checkpoint, info: &'a InspectInfo) -> Option<Self> {
        let is_model = checkpoint.directory().is_none() || checkpoint.format().parts_are_one_file();
        let facts = checkpoint.facts().filter(|_| is_model)?;
        Some(Self { checkpoint, facts, info, wording: wording(checkpoint.format()) })
    }

    /// The format, without what only an inspection says of it.
    fn title(&self) -> String {
        let title = &self.facts.title;
        printable(title.strip_suffix(self.wording.inspected_as).unwrap_or(title), MAX_FACT_CHARS)
    }

    /// Facts, safe for a terminal: those about the model come before the counts, those about the layout behind them.
    fn told(&self, subject: Subject) -> Vec<(&'static str, String)> {
        self.facts.about(subject).map(|fact| (fact.label, printable(&fact.value, MAX_FACT_CHARS))).collect()
    }

    /// What `parse` prints above the tensors.
    pub(super) fn parsed(&self, path: &Path, tensors: &[TensorSummary<'_>]) -> String {
        let title = format!("Parsed {} ({})", input_name(path, self.checkpoint), self.title());
        let mut rows = self.told(Subject::Model);
        rows.push(("Tensors", self.info.tensor_count.to_string()));
        rows.push(("Total size", size(self.info.current_size)));
        if self.wording.parse_has_dtypes {
            rows.push(("Dtypes", dtypes(tensors)));
        }
        rows.extend(self.told(Subject::Layout));
        let rows = rows.iter().map(|(label, value)| format!("\n  {:<11} {value}", format!("{label}:")));
        title + &rows.collect::<String>()
    }

    /// The tensors, a line each.
    pub(super) fn tensor_lines(&self, tensors: &[TensorSummary<'_>]) -> String {
        let width = self.wording.name_width;
        let line = |tensor: &TensorSummary<'_>| {
            let name = printable(tensor.name, MAX_NAME_CHARS);
            let shape = format!("{:?}", self.shape(tensor));
            format!("  {name:<width$} {} {shape:<15} {}", tensor.dtype, size(tensor.bytes))
        };
        tensors.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// A tensor's shape in the order of the file.
    pub(super) fn shape(&self, tensor: &TensorSummary<'_>) -> Vec<usize> {
        let mut shape = tensor.shape.to_vec();
        if self.wording.is_fastest_first {
            shape.reverse();
        }
        shape
    }

    /// What `inspect` prints.
    pub(super) fn inspected(&self, tensors: &[TensorSummary<'_>]) -> String {
        let mut rows = vec![("Format", self.title() + self.wording.inspected_as)];
        rows.extend(self.told(Subject::Model));
        rows.push(("Tensors", self.info.tensor_count.to_string()));
        rows.push(("Total size", size(self.info.current_size)));
        if self.wording.is_of_blocks || self.info.quantized > 0 {
            let decoded = self.info.decoded_size().map_or_else(|| "unknown".to_owned(), size);
            rows.push(("Dequantized", format!("{decoded} ({})", self.info.decoded_types())));
        }
        if !self.wording.is_of_blocks && self.info.quantized > 0 {
            let schemes = self.info.schemes.iter().map(|(scheme, weights)| format!("{weights} × {scheme}"));
            let undecoded = (self.info.undecoded > 0).then(|| format!("{} not decoded", self.info.undecoded));
            let schemes: Vec<_> = schemes.chain(undecoded).collect();
            rows.push(("Schemes", schemes.join(", ")));
        }
        rows.push(("Dtypes", dtypes(tensors)));
        rows.extend(self.told(Subject::Layout));
        let rows = rows.iter().map(|(label, value)| format!("{:<12} {value}", format!("{label}:")));
        rows.collect::<Vec<_>>().join("\n")
    }

    /// What `remember` prints when it knows how much there is to do.
    pub(super) fn counted(&self) -> String {
        let tensors = super::counted(self.info.tensor_count, "tensor");
        match self.wording.is_of_blocks {
            true => format!("  {tensors}"),
            false => format!("  {tensors}, {}", size(self.info.current_size)),
        }
    }

    /// What `remember` prints when it is done.
    pub(super) fn remembered(&self, decoded: usize, copied: usize, output: &str) -> String {
        let counts = format!("  {decoded} dequantized to {}, {copied} passed through\n", self.info.output_dtype);
        let counts = if self.wording.is_of_blocks || decoded > 0 { counts } else { String::new() };
        let last = if self.wording.is_of_blocks { format!("  Output: {output}") } else { "  Done.".to_owned() };
        counts + &last
    }
}

/// The types in the order they occur.
fn dtypes(tensors: &[TensorSummary<'_>]) -> String {
    let mut dtypes = Vec::new();
    for tensor in tensors {
        if !dtypes.contains(&tensor.dtype) {
            dtypes.push(tensor.dtype);
        }
    }
    comma_list(&dtypes)
}

/// What to call an input: the file it is, or what was typed where it is a model of a store or several files.
pub(super) fn input_name(path: &Path, checkpoint: &Checkpoint) -> String {
    match checkpoint.files() {
        _ if checkpoint.origin().is_store() => super::shown(path),
        [file] => short_name(file),
        _ => short_name(path),
    }
}

/// The last part of a path.
pub(super) fn short_name(path: &Path) -> String {
    path.file_name().map_or_else(|| super::shown(path), |name| printable(&name.to_string_lossy(), MAX_NAME_CHARS))
}
