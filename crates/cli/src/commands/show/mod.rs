//! `show`: values of one tensor, as a table, a heat map or a file.

mod export;
mod heat;
mod png;
mod slice;
mod table;
mod values;

use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Checkpoint, CpuLevel, Dtype, RememberOptions, Request};
use serde_json::{Value, json};

use super::open;
use crate::args::ShowArgs;
use crate::exit::Failure;
use crate::suggest::{closest, closest_dotted, did_you_mean};
use crate::ui::{Printer, size};
use export::Kind;
use slice::Slice;
use values::{Number, Reading, Selected};

/// Maximum characters of a name.
const MAX_NAME_CHARS: usize = 512;
/// Maximum number of suggested names.
const SUGGESTIONS: usize = 3;
/// Maximum number of values in a JSON document.
const MAX_JSON_VALUES: u64 = 1 << 20;

pub(super) fn run(args: &ShowArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let kind = args.output.as_deref().map(Kind::of).transpose()?;
    let run = args.run.options(cpu)?;
    let checkpoint = open::checkpoint(&args.input, printer)?;
    let (name, slice) = requested(&checkpoint, &args.tensor, args.stored)?;
    if args.stored
        && let Some(parts) = parts(&checkpoint, name)
    {
        return show_parts(args, &checkpoint, name, &parts, slice.as_ref(), &run, printer);
    }
    let (reading, shape, described) = described(&checkpoint, name, args.stored)?;
    let slice = slice.unwrap_or_default();
    let axes = slice.axes(&shape).map_err(|why| malformed(&args.tensor, &why))?;
    let mut selected = Selected::new(&checkpoint, name, reading, &run, &shape, axes);
    if let (Some(path), Some(kind)) = (&args.output, kind) {
        let bytes = export::write(&mut selected, path, kind, args.force)?;
        printer.text(format_args!("{} ({})", super::shown(path), size(bytes)))?;
        let document = document(args, name, &shape, &described, &selected);
        return printer.document("show", with(document, "output", json!(path.to_string_lossy())));
    }
    if printer.is_json() {
        let document = document(args, name, &shape, &described, &selected);
        let values = values_document(&mut selected)?;
        return printer.document("show", with(document, "data", values));
    }
    print(args, name, &shape, &described, &mut selected, printer)
}

/// The tensor and the slice. A name that ends in brackets is a name, if there is such a tensor.
fn requested<'a>(checkpoint: &Checkpoint, text: &'a str, is_stored: bool) -> Result<(&'a str, Option<Slice>), Failure> {
    let exists = |name: &str| checkpoint.weight(name).is_some() || checkpoint.stored(name).is_some();
    if exists(text) {
        return Ok((text, None));
    }
    let (name, inside) = match text.strip_suffix(']').and_then(|front| front.rsplit_once('[')) {
        Some((name, inside)) => (name, Some(inside)),
        None => (text, None),
    };
    if !exists(name) {
        return Err(unknown(checkpoint, name, is_stored));
    }
    let slice = inside.map(Slice::parse).transpose().map_err(|why| malformed(text, &why))?;
    Ok((name, slice))
}

fn malformed(text: &str, why: &str) -> Failure {
    Failure::Usage(format!("{}: {why}", printable(text, MAX_NAME_CHARS)))
}

/// A tensor that is not there, with similar names.
fn unknown(checkpoint: &Checkpoint, name: &str, is_stored: bool) -> Failure {
    let stored = checkpoint.tensors();
    let stored = stored.iter().map(|tensor| tensor.name).filter(|_| is_stored);
    let names: Vec<&str> = checkpoint.names().into_iter().chain(stored).collect();
    let mut near = closest(name, names.iter().copied(), SUGGESTIONS);
    if near.is_empty() {
        near = closest_dotted(name, names.iter().copied(), SUGGESTIONS);
    }
    let near: Vec<String> = near.iter().map(|name| printable(name, MAX_NAME_CHARS)).collect();
    let asked = did_you_mean(&near.iter().map(String::as_str).collect::<Vec<_>>());
    let error = AnamnesisError::Request(Request::UnknownTensor { name: name.to_owned() });
    Failure::Refused { error, advice: asked.or_else(|| Some("amn parse --list shows the names".to_owned())) }
}

/// The stored parts of a weight; `None` if the name is that of a stored tensor alone.
fn parts(checkpoint: &Checkpoint, name: &str) -> Option<Vec<String>> {
    checkpoint
        .weight(name)
        .map(|weight| weight.parts)
        .filter(|parts| parts.len() > 1 || parts.first().is_none_or(|part| part != name))
}

/// How a tensor is read, its shape, and its type or scheme.
fn described(checkpoint: &Checkpoint, name: &str, is_stored: bool) -> Result<(Reading, Vec<usize>, String), Failure> {
    if !is_stored && let Some(weight) = checkpoint.weight(name) {
        // A weight without a shape has companions that cannot be read, which decoding reports.
        let shape = weight.shape.map_or_else(|| checkpoint.decode::<f32>(name).map(|values| vec![values.len()]), Ok)?;
        return Ok((Reading::Decoded, shape, weight.scheme));
    }
    let Some(tensor) = checkpoint.stored(name) else { return Err(unknown(checkpoint, name, is_stored)) };
    let dtype = tensor.dtype;
    let is_decoded = matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) && !is_stored;
    let elements: u64 = tensor.shape.iter().map(|&length| length as u64).product();
    let is_whole = dtype.byte_len(elements) == elements.checked_mul(dtype.byte_size() as u64);
    Ok(match is_whole && !matches!(dtype, Dtype::Block(_)) {
        _ if is_decoded => (Reading::Decoded, tensor.shape.to_vec(), dtype.to_string()),
        true => (Reading::Stored(dtype), tensor.shape.to_vec(), dtype.to_string()),
        // Blocks and packed elements are shown as bytes, one line per row.
        false => {
            let rows = tensor.shape.iter().rev().skip(1).product::<usize>().max(1);
            let row = (tensor.bytes / rows as u64) as usize;
            let shape =
                if row as u64 * rows as u64 == tensor.bytes { vec![rows, row] } else { vec![tensor.bytes as usize] };
            (Reading::Bytes, shape, format!("{dtype}, as bytes"))
        }
    })
}

fn print(
    args: &ShowArgs,
    name: &str,
    shape: &[usize],
    described: &str,
    selected: &mut Selected<'_>,
    printer: &Printer,
) -> Result<(), Failure> {
    let of = selected.shape();
    let is_whole = of.len() == shape.len() && of.iter().zip(shape).all(|(a, b)| *a == *b as u64);
    let taken = if is_whole { String::new() } else { format!(", showing {of:?}") };
    printer.text(printable(&format!("{name}  {shape:?}  {described}{taken}"), 2 * MAX_NAME_CHARS))?;
    let (.., matrices) = selected.matrix();
    if matrices > 1 {
        printer.text(format_args!("the first of {matrices} matrices; an index in front shows another"))?;
    }
    match args.heat {
        true => heat::print(selected, printer),
        false => table::print(selected, printer),
    }
}

/// Shows every stored part of a weight.
fn show_parts(
    args: &ShowArgs,
    checkpoint: &Checkpoint,
    name: &str,
    parts: &[String],
    slice: Option<&Slice>,
    run: &RememberOptions,
    printer: &Printer,
) -> Result<(), Failure> {
    let names = || parts.iter().map(|part| printable(part, MAX_NAME_CHARS)).collect::<Vec<_>>().join(", ");
    if slice.is_some() || args.output.is_some() {
        let text = printable(name, MAX_NAME_CHARS);
        return Err(Failure::Usage(format!("{text} is stored in {}; with --stored, name one of them", names())));
    }
    let mut documents = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let (reading, shape, described) = described(checkpoint, part, true)?;
        let axes = Slice::default().axes(&shape).map_err(|why| malformed(part, &why))?;
        let mut selected = Selected::new(checkpoint, part, reading, run, &shape, axes);
        if printer.is_json() {
            let document = document(args, part, &shape, &described, &selected);
            documents.push(with(document, "data", values_document(&mut selected)?));
            continue;
        }
        if number > 0 {
            printer.text("")?;
        }
        print(args, part, &shape, &described, &mut selected, printer)?;
    }
    printer.document("show", json!({ "path": args.input.path.to_string_lossy(), "name": name, "parts": documents }))
}

fn document(args: &ShowArgs, name: &str, shape: &[usize], described: &str, selected: &Selected<'_>) -> Value {
    json!({
        "path": args.input.path.to_string_lossy(),
        "name": name,
        "shape": shape,
        "type": described,
        "shown_shape": selected.shape(),
    })
}

fn with(mut document: Value, key: &str, value: Value) -> Value {
    document[key] = value;
    document
}

/// The selected values as nested arrays.
fn values_document(selected: &mut Selected<'_>) -> Result<Value, Failure> {
    if selected.len() > MAX_JSON_VALUES {
        let count = selected.len();
        return Err(Failure::Usage(format!(
            "{count} values are too many for a document; select fewer, or write a file with -o"
        )));
    }
    let (rows, columns, matrices) = selected.matrix();
    let each = selected.reading.each();
    let mut all = Vec::new();
    let is_dense = selected.is_dense();
    for row in 0..if columns == 0 { 0 } else { rows * matrices } {
        let bytes = selected.row(row, 0..columns, is_dense)?;
        all.extend(bytes.chunks(each).map(|bytes| value(&selected.reading.number(bytes))));
    }
    Ok(nested(&selected.shape(), &mut all.into_iter()))
}

/// A number in JSON, which has no NaN and infinities: they are text.
fn value(number: &Number) -> Value {
    match number {
        Number::Float(value) if value.is_finite() => json!(value),
        Number::Float(value) if value.is_nan() => json!("NaN"),
        Number::Float(value) => json!(if *value > 0.0 { "Infinity" } else { "-Infinity" }),
        Number::Integer(value) => {
            i64::try_from(*value).map_or_else(|_| json!(u64::try_from(*value).ok()), |value| json!(value))
        }
        Number::Code(code) => json!(code),
    }
}

/// Values as arrays of a shape.
fn nested(shape: &[u64], values: &mut impl Iterator<Item = Value>) -> Value {
    match shape {
        [] => values.next().unwrap_or(Value::Null),
        [count, inner @ ..] => (0..*count).map(|_| nested(inner, values)).collect(),
    }
}
