//! Planned tensors, for people and for programs.

use std::collections::HashMap;

use anamnesis::PlannedOutput;
use anamnesis::error::printable;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::ui::{Column, Printer, Table, size};

/// Prints tensors, with what all of them have in common below.
pub(crate) fn list(table: Table, printer: &Printer) -> Result<(), Failure> {
    let (table, common) = table.without_constants();
    printer.text("")?;
    printer.table(&table)?;
    match common {
        Some(common) => printer.text(format_args!("all of them: {common}")),
        None => Ok(()),
    }
}

/// The tensors of a plan, and how each comes about. Ways that take many words are numbered, so that the words stand below
/// the table, whole and once.
#[derive(Default)]
pub(crate) struct Forecast<'a> {
    rows: Vec<(Option<usize>, &'a PlannedOutput, String)>,
    ways: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl<'a> Forecast<'a> {
    /// Of an output file, or of the files it is split into, which have numbers.
    pub(crate) fn of_files(tensors: &'a [PlannedOutput], is_split: bool) -> Self {
        Self::of(tensors.iter().map(|tensor| (is_split.then_some(tensor.file + 1), tensor)))
    }

    /// Of an output directory, whose shards have numbers.
    pub(super) fn of_shards(tensors: &'a [(usize, PlannedOutput)]) -> Self {
        Self::of(tensors.iter().map(|(shard, tensor)| (Some(*shard), tensor)))
    }

    fn of(tensors: impl Iterator<Item = (Option<usize>, &'a PlannedOutput)>) -> Self {
        let mut forecast = Self::default();
        for (shard, tensor) in tensors {
            let way = forecast.way(tensor);
            forecast.rows.push((shard, tensor, way));
        }
        forecast
    }

    /// How a tensor comes about: a word, or the number of a line below.
    fn way(&mut self, tensor: &PlannedOutput) -> String {
        let sources: Vec<_> = tensor.sources.iter().map(|source| relative(source, &tensor.name)).collect();
        let is_itself = tensor.sources.len() == 1 && tensor.sources.first() == Some(&tensor.name);
        let way = match work(tensor) {
            None if is_itself => return "copied".to_owned(),
            None => format!("copied from {}", sources.join(" + ")),
            Some(work) if is_itself => work,
            Some(work) => format!("{work}, from {}", sources.join(" + ")),
        };
        let ways = &mut self.ways;
        let number = self.numbers.entry(way.clone()).or_insert_with(|| {
            ways.push(way);
            ways.len()
        });
        number.to_string()
    }

    pub(crate) fn print(&self, printer: &Printer) -> Result<(), Failure> {
        list(self.table(), printer)?;
        for (number, way) in (1..).zip(&self.ways) {
            printer.text(format_args!("how {number}: {}", printable(way, MAX_WAY_CHARS)))?;
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let columns =
            [Column::Flexible("NAME"), Column::Left("DTYPE"), Column::Left("SHAPE"), Column::Right("SIZE"), HOW];
        let has_shards = self.rows.iter().any(|(shard, ..)| shard.is_some());
        let shards = has_shards.then_some(Column::Right("SHARD"));
        let mut table = Table::new(shards.into_iter().chain(columns).collect::<Vec<_>>());
        for (shard, tensor, way) in &self.rows {
            let cells = [
                tensor.name.clone(),
                tensor.dtype.to_string(),
                format!("{:?}", tensor.shape),
                size(tensor.bytes),
                way.clone(),
            ];
            table.row(shard.iter().map(usize::to_string).chain(cells).collect::<Vec<_>>());
        }
        table
    }
}

const HOW: Column = Column::Left("HOW");

/// Longest description of how a tensor comes about, in characters.
const MAX_WAY_CHARS: usize = 4096;

/// What is done with a tensor; `None` where it is copied.
fn work(tensor: &PlannedOutput) -> Option<String> {
    match (&tensor.scheme, &tensor.encoding) {
        (None, None) => None,
        (Some(scheme), None) => Some(scheme.clone()),
        (None, Some(encoding)) => Some(encoding.clone()),
        (Some(scheme), Some(encoding)) => Some(format!("{scheme} -> {encoding}")),
    }
}

/// The name of a source, without the innermost module around its output that it is in, too: `.weight_scale` next to
/// `layers.0.weight` or `layers.0.weight.absmax`.
pub(crate) fn relative<'a>(source: &'a str, output: &str) -> &'a str {
    let modules = output.rmatch_indices('.').filter_map(|(end, _)| output.get(..end));
    let mut inside = modules.filter_map(|module| source.strip_prefix(module).filter(|rest| rest.starts_with('.')));
    inside.next().unwrap_or(source)
}

/// A tensor of a file, with its number where there are several.
pub(crate) fn document_in(tensor: &PlannedOutput, is_split: bool) -> Value {
    let mut document = document(tensor);
    if is_split {
        document["file"] = (tensor.file + 1).into();
    }
    document
}

pub(crate) fn document(tensor: &PlannedOutput) -> Value {
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype.to_string(),
        "shape": tensor.shape,
        "bytes": tensor.bytes,
        "offset": tensor.offset,
        "scheme": tensor.scheme,
        "encoding": tensor.encoding,
        "sources": tensor.sources,
    })
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn sources_are_named_within_their_module() {
        assert_eq!(relative("layers.0.weight_scale", "layers.0.weight"), ".weight_scale");
        assert_eq!(relative("layers.0.weight", "layers.0.weight"), ".weight");
        assert_eq!(relative("layers.0.weight", "layers.0.weight.absmax"), ".weight");
        assert_eq!(relative("layers.01.weight", "layers.0.weight"), ".01.weight");
        assert_eq!(relative("mlayers.0.weight", "layers.0.weight"), "mlayers.0.weight");
        assert_eq!(relative("scale", "weight"), "scale");
        assert_eq!(relative("ä.b", "ab.c"), "ä.b");
    }
}
