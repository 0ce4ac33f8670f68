//! `parse`: what a file contains.

use std::path::Path;

use anamnesis::{InspectInfo, InspectOptions, TensorEntry, format_bytes};
use serde_json::{Value, json};

use super::{counted, counts, open, role_name, shown};
use crate::args::ParseArgs;
use crate::exit::Failure;
use crate::ui::{Column, Printer, Table};

pub(super) fn run(args: &ParseArgs, printer: &Printer) -> Result<(), Failure> {
    if is_tensor_file(&args.path) { file(args, printer) } else { whole(args, printer) }
}

/// Whether the path is one file of tensors. A shard is one too: what is asked here is what a file contains.
fn is_tensor_file(path: &Path) -> bool {
    path.is_file() && !path.to_string_lossy().ends_with(".index.json")
}

fn file(args: &ParseArgs, printer: &Printer) -> Result<(), Failure> {
    let model = open::file(&args.path)?;
    let info = model.inspect();
    let mut tensors: Vec<&TensorEntry> = if args.list { model.header.tensors.iter().collect() } else { Vec::new() };
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    printer.text(summary(&info, "File"))?;
    if args.list {
        printer.text(format_args!("\n{}", table(&tensors).render(printer.width())))?;
    }
    if printer.is_json() {
        let mut document = counts(&args.path, model.checkpoint(), &info);
        if args.list {
            document["tensors"] = tensors.iter().map(|tensor| tensor_document(tensor)).collect();
        }
        printer.document("parse", document)?;
    }
    Ok(())
}

/// The counts over all files of a checkpoint.
fn whole(args: &ParseArgs, printer: &Printer) -> Result<(), Failure> {
    let checkpoint = open::checkpoint(&args.path)?;
    if args.list {
        return Err(Failure::Usage(
            "--list lists one file: name a .safetensors file, or see the whole plan with amn remember PATH --dry-run"
                .to_owned(),
        ));
    }
    let info = checkpoint.inspect(&InspectOptions::new());
    let files = counted(checkpoint.file_count(), "file");
    let place = checkpoint.directory().map_or_else(String::new, |directory| format!(" in {}", shown(directory)));
    printer.text(format_args!("{} in {files}{place}", summary(&info, "Size")))?;
    printer.document("parse", counts(&args.path, &checkpoint, &info))
}

/// The counts by role; roles that do not occur are left out.
fn summary(info: &InspectInfo, size: &str) -> String {
    let passthrough = format!("{} (norms, embeddings, lm_head)", comma_list(&info.passthrough_dtypes));
    let lines = [
        (info.quantized, "quantized  ", info.format.to_string()),
        (info.scales, "scale      ", comma_list(&info.scale_dtypes)),
        (info.zeropoints, "zero-point ", "I32 (packed)".to_owned()),
        (info.group_indices, "g_idx      ", "I32 (activation-order)".to_owned()),
        (info.passthrough, "passthrough", passthrough),
    ];
    let mut text = format!("{} tensors parsed\n", info.tensor_count);
    for (count, label, note) in lines.into_iter().filter(|(count, ..)| *count > 0) {
        text += &format!("  {count:>3} {label} {note}\n");
    }
    text + &format!("{size}: {}", format_bytes(info.current_size))
}

fn comma_list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn table(tensors: &[&TensorEntry]) -> Table {
    let mut table = Table::new([
        Column::Flexible("NAME"),
        Column::Left("DTYPE"),
        Column::Left("SHAPE"),
        Column::Left("ROLE"),
        Column::Right("SIZE"),
    ]);
    for tensor in tensors {
        table.row([
            tensor.name.clone(),
            tensor.dtype.to_string(),
            format!("{:?}", tensor.shape),
            role_name(tensor.role).to_owned(),
            format_bytes(tensor.byte_len() as u64),
        ]);
    }
    table
}

fn tensor_document(tensor: &TensorEntry) -> Value {
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype.to_string(),
        "shape": tensor.shape,
        "role": role_name(tensor.role),
        "bytes": tensor.byte_len(),
    })
}
