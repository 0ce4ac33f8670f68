//! Tensors of a plan, as text and JSON.

use std::collections::HashMap;

use anamnesis::PlannedOutput;
use anamnesis::error::printable;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::ui::{Column, Printer, Table, size};

/// Prints a table, and below it the columns that are equal in all rows.
pub(crate) fn list(table: Table, printer: &Printer) -> Result<(), Failure> {
    let (table, common) = table.without_constants();
    printer.text("")?;
    printer.table(&table)?;
    match common {
        Some(common) => printer.text(format_args!("all tensors: {common}")),
        None => Ok(()),
    }
}

/// The tensors of a plan and how each is produced. Long descriptions are numbered and printed once below the table.
#[derive(Default)]
pub(crate) struct Forecast<'a> {
    rows: Vec<(Option<usize>, &'a PlannedOutput, String)>,
    descriptions: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl<'a> Forecast<'a> {
    /// The tensors of a file, or of the numbered files it is split into.
    pub(crate) fn of_files(tensors: &'a [PlannedOutput], is_split: bool) -> Self {
        Self::of(tensors.iter().map(|tensor| (is_split.then_some(tensor.file + 1), tensor)))
    }

    /// The tensors of a directory with numbered shards.
    pub(super) fn of_shards(tensors: &'a [(usize, PlannedOutput)]) -> Self {
        Self::of(tensors.iter().map(|(shard, tensor)| (Some(*shard), tensor)))
    }

    fn of(tensors: impl Iterator<Item = (Option<usize>, &'a PlannedOutput)>) -> Self {
        let mut forecast = Self::default();
        for (shard, tensor) in tensors {
            let description = forecast.describe(tensor);
            forecast.rows.push((shard, tensor, description));
        }
        forecast
    }

    /// How a tensor is produced: a word, or the number of a description below the table.
    fn describe(&mut self, tensor: &PlannedOutput) -> String {
        let sources: Vec<_> = tensor.sources.iter().map(|source| relative(source, &tensor.name)).collect();
        let is_itself = tensor.sources.len() == 1 && tensor.sources.first() == Some(&tensor.name);
        let description = match work(tensor) {
            None if is_itself => return "copied".to_owned(),
            None => format!("copied from {}", sources.join(" + ")),
            Some(work) if is_itself => work,
            Some(work) => format!("{work}, from {}", sources.join(" + ")),
        };
        let descriptions = &mut self.descriptions;
        let number = self.numbers.entry(description.clone()).or_insert_with(|| {
            descriptions.push(description);
            descriptions.len()
        });
        number.to_string()
    }

    pub(crate) fn print(&self, printer: &Printer) -> Result<(), Failure> {
        list(self.table(), printer)?;
        for (number, description) in (1..).zip(&self.descriptions) {
            printer.text(format_args!("how {number}: {}", printable(description, MAX_DESCRIPTION_CHARS)))?;
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let columns =
            [Column::Flexible("NAME"), Column::Left("DTYPE"), Column::Left("SHAPE"), Column::Right("SIZE"), HOW];
        let has_shards = self.rows.iter().any(|(shard, ..)| shard.is_some());
        let shards = has_shards.then_some(Column::Right("SHARD"));
        let mut table = Table::new(shards.into_iter().chain(columns).collect::<Vec<_>>());
        for (shard, tensor, description) in &self.rows {
            let cells = [
                tensor.name.clone(),
                tensor.dtype.to_string(),
                format!("{:?}", tensor.shape),
                size(tensor.bytes),
                description.clone(),
            ];
            table.row(shard.iter().map(usize::to_string).chain(cells).collect::<Vec<_>>());
        }
        table
    }
}

const HOW: Column = Column::Left("HOW");

/// Maximum characters of a description.
const MAX_DESCRIPTION_CHARS: usize = 4096;

/// The treatment of a tensor; `None` if it is copied.
fn work(tensor: &PlannedOutput) -> Option<String> {
    match (&tensor.scheme, &tensor.encoding) {
        (None, None) => None,
        (Some(scheme), None) => Some(scheme.clone()),
        (None, Some(encoding)) => Some(encoding.clone()),
        (Some(scheme), Some(encoding)) => Some(format!("{scheme} -> {encoding}")),
    }
}

/// The name of a source, without the innermost module that it shares with its output: `.weight_scale` for
/// `layers.0.weight` or `layers.0.weight.absmax`.
pub(crate) fn relative<'a>(source: &'a str, output: &str) -> &'a str {
    let modules = output.rmatch_indices('.').filter_map(|(end, _)| output.get(..end));
    let mut inside = modules.filter_map(|module| source.strip_prefix(module).filter(|rest| rest.starts_with('.')));
    inside.next().unwrap_or(source)
}

/// A tensor of a file as JSON, with the number of the file if there are several.
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
