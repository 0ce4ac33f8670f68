//! `diff`: names, shapes, types and values of two models.

use anamnesis::error::printable;
use anamnesis::{CpuLevel, DiffOptions, DiffOutcome, ModelDiff, TargetDtype, TensorDiff};
use serde_json::{Value, json};

use super::{counted, open, shown, to};
use crate::args::{DiffArgs, STREAM};
use crate::exit::Failure;
use crate::ui::number::short;
use crate::ui::size::count;
use crate::ui::{Column, Printer, Table};

/// Number of tensors in a table, unless all are requested.
const TENSORS_SHOWN: usize = 20;
/// Number of names in a list, unless all are requested.
const NAMES_SHOWN: usize = 10;
/// Maximum characters of a name.
const MAX_NAME_CHARS: usize = 512;

pub(super) fn run(args: &DiffArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    if args.input.is_stream() && args.second.as_os_str() == STREAM {
        return Err(Failure::Usage("only one of the two models can be standard input".to_owned()));
    }
    let mut options = DiffOptions::new().with_run(args.run.options(cpu)?).with_keep_names(args.keep_names);
    options.dtype = args.to.as_deref().map(to::dtype).transpose()?;
    let first = open::checkpoint(&args.input, printer)?;
    let second = open::checkpoint(&args.input.again(&args.second), printer)?;
    let bar = printer.progress(0);
    let diff = first.diff(&second, &options, |progress| {
        bar.set_total(progress.total_bytes);
        bar.set(progress.bytes);
    });
    drop(bar);
    let diff = diff?;
    let is_alike =
        |tensor: &&TensorDiff| args.tolerance.map_or_else(|| tensor.is_equal(), |most| tensor.is_within(most));
    let (alike, differing): (Vec<_>, Vec<_>) = diff.tensors.iter().partition(is_alike);
    print(args, &diff, &differing, alike.len(), printer)?;
    let is_same = diff.only_in_first.is_empty() && diff.only_in_second.is_empty() && differing.is_empty();
    if printer.is_json() {
        printer.document("diff", document(args, options.dtype, &diff, is_same))?;
    }
    if is_same {
        return Ok(());
    }
    let names = diff.only_in_first.len() + diff.only_in_second.len();
    if diff.tensors.is_empty() && names > 0 {
        return Err(Failure::Disjoint);
    }
    Err(Failure::Different { tensors: differing.len() + names })
}

fn print(
    args: &DiffArgs,
    diff: &ModelDiff,
    differing: &[&TensorDiff],
    alike: usize,
    printer: &Printer,
) -> Result<(), Failure> {
    printer.text(format_args!("first:  {}\nsecond: {}", shown(&args.input.path), shown(&args.second)))?;
    if let Some(why) = &diff.unmapped {
        printer.text(format_args!("names are compared as they are: {}", printable(why, MAX_NAME_CHARS)))?;
    }
    for (names, which) in [(&diff.only_in_first, "first"), (&diff.only_in_second, "second")] {
        if names.is_empty() {
            continue;
        }
        printer.text(format_args!("\nonly in the {which} ({}):", names.len()))?;
        let most = if args.list { usize::MAX } else { NAMES_SHOWN };
        for name in names.iter().take(most) {
            printer.text(format_args!("  {}", printable(name, MAX_NAME_CHARS)))?;
        }
        if names.len() > most {
            printer.text(format_args!("  and {} more, shown by --list", names.len() - most))?;
        }
    }
    let listed: Vec<&TensorDiff> = match args.list {
        true => diff.tensors.iter().collect(),
        false => differing.iter().take(TENSORS_SHOWN).copied().collect(),
    };
    if !listed.is_empty() {
        printer.text("")?;
        printer.table(&table(&listed))?;
        if !args.list && differing.len() > listed.len() {
            printer.text(format_args!("and {} more, shown by --list", differing.len() - listed.len()))?;
        }
    }
    let equal = diff.tensors.iter().filter(|tensor| tensor.is_equal()).count();
    let of = format!("{equal} of {} equal bit for bit", counted(diff.tensors.len(), "common tensor"));
    printer.text("")?;
    match args.tolerance {
        None => printer.text(of),
        Some(most) => printer.text(format_args!("{of}, {alike} within {most}")),
    }
}

fn table(tensors: &[&TensorDiff]) -> Table {
    let mut table = Table::new([
        Column::Flexible("NAME"),
        Column::Flexible("TYPES"),
        Column::Right("DIFFERENT"),
        Column::Right("MAX"),
        Column::Right("MEAN"),
        Column::Right("SQNR"),
        Column::Right("COSINE"),
    ]);
    for tensor in tensors {
        let name = match &tensor.name_in_second {
            Some(other) => format!("{} = {other}", tensor.name),
            None => tensor.name.clone(),
        };
        let [a, b] = &tensor.types;
        let types = if a == b { a.clone() } else { format!("{a} / {b}") };
        let without = |what: String| {
            let nothing = || "-".to_owned();
            vec![name.clone(), types.clone(), what, nothing(), nothing(), nothing(), nothing()]
        };
        table.row(match &tensor.outcome {
            DiffOutcome::Shapes([a, b]) => without(format!("{a:?} / {b:?}")),
            DiffOutcome::Values(values) => vec![
                name,
                types,
                match values.incomparable {
                    0 => format!("{} of {}", count(values.different), count(values.values)),
                    many => {
                        format!("{} of {}, {} NaN or inf", count(values.different), count(values.values), count(many))
                    }
                },
                short(values.max_absolute),
                short(values.mean_absolute),
                if values.sqnr.is_finite() { format!("{:.1} dB", values.sqnr) } else { "inf".to_owned() },
                format!("{:.6}", values.cosine),
            ],
            _ => without("types".to_owned()),
        });
    }
    table
}

fn document(args: &DiffArgs, dtype: Option<TargetDtype>, diff: &ModelDiff, is_same: bool) -> Value {
    json!({
        "first": args.input.path.to_string_lossy(),
        "second": args.second.to_string_lossy(),
        "decoded_to": dtype.unwrap_or(TargetDtype::F32).to_string(),
        "tolerance": args.tolerance,
        "same": is_same,
        "only_in_first": diff.only_in_first,
        "only_in_second": diff.only_in_second,
        "unmapped": diff.unmapped,
        "tensors": diff.tensors.iter().map(tensor_document).collect::<Vec<_>>(),
    })
}

fn tensor_document(tensor: &TensorDiff) -> Value {
    let (outcome, shapes) = match &tensor.outcome {
        DiffOutcome::Shapes(shapes) => ("shapes", Some(shapes)),
        DiffOutcome::Values(_) => ("values", None),
        _ => ("types", None),
    };
    let values = tensor.values();
    json!({
        "name": tensor.name,
        "name_in_second": tensor.name_in_second,
        "types": tensor.types,
        "compared": outcome,
        "shapes": shapes,
        "equal": tensor.is_equal(),
        "values": values.map(|values| values.values),
        "different": values.map(|values| values.different),
        "incomparable": values.map(|values| values.incomparable),
        "max_absolute": values.map(|values| values.max_absolute),
        "mean_absolute": values.map(|values| values.mean_absolute),
        // An infinite SQNR has no representation in JSON.
        "sqnr_db": values.map(|values| values.sqnr).filter(|sqnr| sqnr.is_finite()),
        "cosine": values.map(|values| values.cosine).filter(|cosine| cosine.is_finite()),
    })
}
