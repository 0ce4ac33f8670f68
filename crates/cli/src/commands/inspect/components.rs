//! `inspect` for a directory of several models: a line for each component.

use anamnesis::error::printable;
use anamnesis::{Components, InspectOptions, TargetDtype};
use serde_json::{Value, json};

use super::document;
use crate::args::InspectArgs;
use crate::commands::{components as several, open, shown};
use crate::exit::Failure;
use crate::ui::{Column, Printer, Table, size};

/// Maximum characters of a name from the index.
const MAX_NAME_CHARS: usize = 60;

pub(super) fn run(
    args: &InspectArgs,
    components: &Components,
    target: TargetDtype,
    printer: &Printer,
) -> Result<(), Failure> {
    if args.metadata {
        let (path, names) = (shown(&args.input.path), open::component_names(components));
        return Err(Failure::Usage(format!("{path} has several models; name one of {names}")));
    }
    let columns = [
        Column::Left("COMPONENT"),
        Column::Flexible("CLASS"),
        Column::Left("FORMAT"),
        Column::Right("PARAMETERS"),
        Column::Right("SIZE"),
        Column::Right("DECODED"),
    ];
    let mut table = Table::new(columns);
    let mut documents = Vec::new();
    let (mut parameters, mut stored, mut decoded) = (Some(0), 0, Some(0));
    let unknown = || "unknown".to_owned();
    for component in components.iter() {
        let [name, class] = [&component.name, &component.class].map(|text| printable(text, MAX_NAME_CHARS));
        if !component.has_weights {
            table.row([name, class, "no weights".to_owned(), String::new(), String::new(), String::new()]);
            let mut document = json!({ "path": component.path.to_string_lossy() });
            several::describe(component, &mut document);
            documents.push(document);
            continue;
        }
        let checkpoint = open::checkpoint(&args.input.again(&component.path), printer)?;
        let info = checkpoint.inspect(&InspectOptions::new().with_output_dtype(target));
        let total = checkpoint.overview().parameters.total;
        parameters = parameters.zip(total).map(|(sum, total): (u64, _)| sum + total);
        stored += info.current_size;
        decoded = decoded.zip(info.decoded_size()).map(|(sum, bytes): (u64, _)| sum + bytes);
        table.row([
            name,
            class,
            info.scheme_name(),
            total.map_or_else(unknown, size::count),
            size(info.current_size),
            info.decoded_size().map_or_else(unknown, size),
        ]);
        let mut document = document(&component.path, &checkpoint, &info, args.context);
        several::describe(component, &mut document);
        documents.push(document);
    }
    let class = printable(components.class().unwrap_or("unknown"), MAX_NAME_CHARS);
    printer.text(format_args!("Pipeline:    {class}"))?;
    printer.text(format_args!(
        "Total:       {} parameters, {} -> {} ({target})\n",
        parameters.map_or_else(unknown, size::count),
        size(stored),
        decoded.map_or_else(unknown, size)
    ))?;
    printer.table(&table)?;
    let document = json!({
        "path": args.input.path.to_string_lossy(),
        "pipeline": components.class(),
        "to": target.to_string(),
        "bytes": stored,
        "decoded_bytes": decoded,
        "parameters": { "total": parameters },
        "components": Value::from(documents),
    });
    printer.document("inspect", document)
}
