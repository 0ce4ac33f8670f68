//! Planned tensors, for people and for programs.

use anamnesis::{PlannedOutput, format_bytes};
use serde_json::{Value, json};

use crate::ui::{Column, Table};

/// Every tensor of an output file.
pub(crate) fn table(tensors: &[PlannedOutput]) -> Table {
    let mut table = Table::new([NAME, DTYPE, SHAPE, SIZE, SCHEME, SOURCES]);
    for tensor in tensors {
        table.row(cells(tensor));
    }
    table
}

/// Every tensor of an output directory, with the number of its shard.
pub(super) fn numbered_table(tensors: &[(usize, PlannedOutput)]) -> Table {
    let mut table = Table::new([Column::Right("SHARD"), NAME, DTYPE, SHAPE, SIZE, SCHEME, SOURCES]);
    for (shard, tensor) in tensors {
        let [name, dtype, shape, size, scheme, sources] = cells(tensor);
        table.row([shard.to_string(), name, dtype, shape, size, scheme, sources]);
    }
    table
}

const NAME: Column = Column::Flexible("NAME");
const DTYPE: Column = Column::Left("DTYPE");
const SHAPE: Column = Column::Left("SHAPE");
const SIZE: Column = Column::Right("SIZE");
const SCHEME: Column = Column::Flexible("SCHEME");
const SOURCES: Column = Column::Flexible("SOURCES");

fn cells(tensor: &PlannedOutput) -> [String; 6] {
    let sources: Vec<_> = tensor.sources.iter().map(|source| relative(source, &tensor.name)).collect();
    [
        tensor.name.clone(),
        tensor.dtype.to_string(),
        format!("{:?}", tensor.shape),
        format_bytes(tensor.bytes),
        work(tensor),
        sources.join(" + "),
    ]
}

/// What is done with a tensor.
fn work(tensor: &PlannedOutput) -> String {
    match (&tensor.scheme, &tensor.encoding) {
        (None, None) => "copied".to_owned(),
        (Some(scheme), None) => scheme.clone(),
        (None, Some(encoding)) => encoding.clone(),
        (Some(scheme), Some(encoding)) => format!("{scheme} -> {encoding}"),
    }
}

/// The name of a source, without the module it shares with its output: `.weight` next to `layers.0.weight`.
pub(crate) fn relative<'a>(source: &'a str, output: &str) -> &'a str {
    let module = output.rfind('.').unwrap_or(0);
    match (source.get(..module), output.get(..module), source.get(module..)) {
        (Some(of_source), Some(of_output), Some(rest)) if of_source == of_output && rest.starts_with('.') => rest,
        _ => source,
    }
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
        assert_eq!(relative("layers.01.weight", "layers.0.weight"), "layers.01.weight");
        assert_eq!(relative("scale", "weight"), "scale");
        assert_eq!(relative("ä.b", "ab.c"), "ä.b");
    }
}
