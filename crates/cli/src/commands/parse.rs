//! `parse`: lists the content of a file.

use std::path::Path;

use anamnesis::error::printable;
use anamnesis::{Checkpoint, Dtype, InspectInfo, InspectOptions, TensorRole, TensorSummary};
use serde_json::{Value, json};

use super::described::Described;
use super::writing::tensors;
use super::{MAX_NOTE_CHARS, comma_list, counted, counts, natural, notes, open, patterns, role_name, shown};
use crate::args::{ParseArgs, SortBy};
use crate::exit::Failure;
use crate::ui::{Column, Printer, Table, size};

pub(super) fn run(args: &ParseArgs, printer: &Printer) -> Result<(), Failure> {
    let checkpoint = open::checkpoint(&args.input, printer)?;
    let is_one_file = checkpoint.directory().is_none();
    let checkpoint = patterns::select(&args.choice, checkpoint)?;
    let info = checkpoint.inspect(&InspectOptions::new());
    let described = Described::of(&checkpoint, &info);
    let mut tensors = if described.is_some() { checkpoint.tensors_as_stored() } else { checkpoint.tensors() };
    // Formats with an order keep it; others are sorted by name.
    let by_name = described.is_none().then_some(SortBy::Name);
    sort(&mut tensors, args.sort.or(by_name));
    // `--sort` implies a list.
    let is_listed = args.list || args.sort.is_some();
    if let Some(described) = described {
        printer.text(described.parsed(&args.input.path, &checkpoint.tensors_as_stored()))?;
        notes(&checkpoint, "  Note:       ", printer)?;
        unclaimed(&checkpoint, "  Note:       ", printer)?;
        match is_listed {
            true => {
                tensors::list(table(&tensors, checkpoint.file_count() > 1, |tensor| described.shape(tensor)), printer)?
            }
            false => printer.text(format_args!("\n{}", described.tensor_lines(&tensors)))?,
        }
        return document(args, &checkpoint, &info, is_listed.then_some(&tensors), printer);
    }
    if is_one_file {
        printer.text(summary(&info, &tensors, "File"))?;
    } else {
        let files = counted(checkpoint.file_count(), "file");
        let place = checkpoint.directory().map_or_else(String::new, |directory| format!(" in {}", shown(directory)));
        printer.text(format_args!("{} in {files}{place}", summary(&info, &tensors, "Size")))?;
    }
    notes(&checkpoint, "Note: ", printer)?;
    unclaimed(&checkpoint, "Note: ", printer)?;
    if is_listed {
        tensors::list(table(&tensors, !is_one_file, |tensor| tensor.shape.to_vec()), printer)?;
    }
    document(args, &checkpoint, &info, is_listed.then_some(&tensors), printer)
}

/// Prints the unclaimed tensors: their number, and the first ones.
fn unclaimed(checkpoint: &Checkpoint, label: &str, printer: &Printer) -> Result<(), Failure> {
    let unclaimed = checkpoint.unclaimed();
    match unclaimed.len() {
        0 => return Ok(()),
        1 => printer.text(format_args!("{label}one tensor that no scheme claims is treated as plain data"))?,
        many => printer.text(format_args!("{label}{many} tensors that no scheme claims are treated as plain data"))?,
    }
    for tensor in unclaimed.iter().take(UNCLAIMED_SHOWN) {
        printer.text(format_args!("{label}{}", printable(&tensor.to_string(), MAX_NOTE_CHARS)))?;
    }
    match unclaimed.len().saturating_sub(UNCLAIMED_SHOWN) {
        0 => Ok(()),
        more => printer.text(format_args!("{label}and {more} more, listed by --json")),
    }
}

/// Maximum number of unclaimed tensors to print.
const UNCLAIMED_SHOWN: usize = 20;

/// Sorts tensors.
fn sort(tensors: &mut [TensorSummary<'_>], by: Option<SortBy>) {
    match by {
        None => {}
        Some(SortBy::Name) => tensors.sort_by(|a, b| natural::compare(a.name, b.name)),
        Some(SortBy::Size) => {
            tensors.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| natural::compare(a.name, b.name)));
        }
        Some(SortBy::Dtype) => {
            let key = |tensor: &TensorSummary<'_>| tensor.dtype.to_string();
            tensors.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| natural::compare(a.name, b.name)));
        }
    }
}

/// Prints the JSON document.
fn document(
    args: &ParseArgs,
    checkpoint: &Checkpoint,
    info: &InspectInfo,
    listed: Option<&Vec<TensorSummary<'_>>>,
    printer: &Printer,
) -> Result<(), Failure> {
    if printer.is_json() {
        let mut document = counts(&args.input.path, checkpoint, info);
        if let Some(tensors) = listed {
            document["tensors"] = tensors.iter().map(tensor_document).collect();
        }
        printer.document("parse", document)?;
    }
    Ok(())
}

/// The counts by role, without roles that do not occur.
fn summary(info: &InspectInfo, tensors: &[TensorSummary<'_>], label: &str) -> String {
    let passthrough = format!("{} (norms, embeddings, lm_head)", comma_list(&info.passthrough_dtypes));
    let lines = [
        (info.quantized, "quantized  ", info.scheme_name()),
        (info.scales, "scale      ", comma_list(&info.scale_dtypes)),
        (info.zeropoints, "zero-point ", zero_points(tensors)),
        (info.group_indices, "g_idx      ", "I32 (activation-order)".to_owned()),
        (info.passthrough, "passthrough", passthrough),
    ];
    let mut text = format!("{} tensors parsed\n", info.tensor_count);
    for (count, label, note) in lines.into_iter().filter(|(count, ..)| *count > 0) {
        text += &format!("  {count:>3} {label} {note}\n");
    }
    text + &format!("{label}: {}", size(info.current_size))
}

/// The types of zero points; I32 words hold several of them.
fn zero_points(tensors: &[TensorSummary<'_>]) -> String {
    let mut dtypes = Vec::new();
    for tensor in tensors.iter().filter(|tensor| tensor.role == TensorRole::ZeroPoint) {
        if !dtypes.contains(&tensor.dtype) {
            dtypes.push(tensor.dtype);
        }
    }
    match dtypes[..] {
        [Dtype::I32] => "I32 (packed)".to_owned(),
        _ => comma_list(&dtypes),
    }
}

/// A table of all tensors. With several files, a column has the file, shards by number.
fn table(tensors: &[TensorSummary<'_>], with_files: bool, shape: impl Fn(&TensorSummary<'_>) -> Vec<usize>) -> Table {
    let mut columns = vec![
        Column::Flexible("NAME"),
        Column::Left("DTYPE"),
        Column::Left("SHAPE"),
        Column::Left("ROLE"),
        Column::Right("SIZE"),
    ];
    columns.extend(with_files.then_some(Column::Left("FILE")));
    let mut table = Table::new(columns);
    for tensor in tensors {
        let mut row = vec![
            tensor.name.to_owned(),
            tensor.dtype.to_string(),
            format!("{:?}", shape(tensor)),
            role_name(tensor.role).to_owned(),
            size(tensor.bytes),
        ];
        row.extend(with_files.then(|| short_file(&file_name(tensor))));
        table.row(row);
    }
    table
}

/// `2/3` for `model-00002-of-00003.safetensors`; other names unchanged.
fn short_file(name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let numbered = stem.rsplit_once("-of-").and_then(|(front, count)| {
        let (_, index) = front.rsplit_once('-')?;
        Some((number(index)?, number(count)?))
    });
    numbered.map_or_else(|| name.to_owned(), |(index, count)| format!("{index}/{count}"))
}

fn file_name(tensor: &TensorSummary<'_>) -> String {
    tensor.file.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

fn tensor_document(tensor: &TensorSummary<'_>) -> Value {
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype.to_string(),
        "shape": tensor.shape,
        "role": role_name(tensor.role),
        "bytes": tensor.bytes,
        "file": file_name(tensor),
    })
}

#[cfg(test)]
mod tests {
    use super::short_file;

    #[test]
    fn shards_are_shown_by_number() {
        assert_eq!(short_file("model-00002-of-00003.safetensors"), "2/3");
        assert_eq!(short_file("pytorch_model-00010-of-00012.bin"), "10/12");
        for name in ["model.safetensors", "a-of-b.gguf", "out-of-3.bin", "x-+1-of-2.bin"] {
            assert_eq!(short_file(name), name);
        }
    }
}
