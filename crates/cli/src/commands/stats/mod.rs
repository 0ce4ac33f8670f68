//! `stats`: extremes, moments, counts and a histogram of every tensor's decoded values.

mod condition;

use anamnesis::error::printable;
use anamnesis::{CpuLevel, ModelStats, TensorStats};
use serde_json::{Value, json};

use super::{counted, natural, open, patterns};
use crate::args::StatsArgs;
use crate::exit::Failure;
use crate::ui::number::short;
use crate::ui::shades::sparkline;
use crate::ui::size::count;
use crate::ui::{Column, Printer, Table};
use condition::{Condition, Key, all_conditions};

/// Characters of a histogram, from a wide page to a narrow one.
const SPARKLINE_CHARS: [usize; 3] = [32, 16, 8];
/// Maximum characters of a name.
const MAX_NAME_CHARS: usize = 512;
/// Maximum number of names in a line.
const NAMES_SHOWN: usize = 5;

pub(super) fn run(args: &StatsArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let sort = args.sort.as_deref().map(|key| Key::parse(key, "--sort")).transpose()?;
    let conditions = all_conditions(&args.conditions, "--where", false)?;
    let alarms = all_conditions(&args.fail_on, "--fail-on", true)?;
    let run = args.run.options(cpu)?;
    let checkpoint = patterns::select(&args.choice, open::checkpoint(&args.input, printer)?)?;
    let bar = printer.progress(0);
    let stats = checkpoint.stats(&run, |progress| {
        bar.set_total(progress.total_bytes);
        bar.set(progress.bytes);
    });
    drop(bar);
    let stats = stats.map_err(|error| patterns::advise(error, &checkpoint))?;
    let mut listed: Vec<&TensorStats> =
        stats.tensors.iter().filter(|tensor| conditions.iter().all(|condition| condition.holds(tensor))).collect();
    sort_by(&mut listed, sort.unwrap_or(Key::Name));
    print(&stats, &listed, printer)?;
    if printer.is_json() {
        printer.document("stats", document(args, &stats, &listed))?;
    }
    let bad_scales = |condition: &Condition| match condition.key {
        Key::Nan => stats.bad_scales.iter().filter(|scales| condition.compares(scales.nan as f64)).count(),
        Key::Infinite => stats.bad_scales.iter().filter(|scales| condition.compares(scales.infinite as f64)).count(),
        _ => 0,
    };
    for alarm in alarms {
        let tensors = stats.tensors.iter().filter(|tensor| alarm.holds(tensor)).count() + bad_scales(&alarm);
        if tensors > 0 {
            return Err(Failure::Found { condition: alarm.text, tensors });
        }
    }
    Ok(())
}

/// Sorts by name, or by a key with the largest first and those without a value last.
fn sort_by(tensors: &mut [&TensorStats], key: Key) {
    let value = |tensor: &TensorStats| key.of(tensor).unwrap_or(f64::NEG_INFINITY);
    tensors.sort_by(|a, b| value(b).total_cmp(&value(a)).then_with(|| natural::compare(&a.name, &b.name)));
}

fn print(stats: &ModelStats, listed: &[&TensorStats], printer: &Printer) -> Result<(), Failure> {
    printer.text(summary(stats))?;
    if !listed.is_empty() {
        printer.text("")?;
        printer.table(&fitting(listed, printer))?;
    }
    if listed.len() < stats.tensors.len() {
        printer.text(format_args!("{} of {} tensors match", listed.len(), stats.tensors.len()))?;
    }
    for scales in &stats.bad_scales {
        let of = scales.weight.as_ref().map_or_else(String::new, |weight| format!(" of {weight}"));
        let text = format!("scales {}{of}: {} NaN, {} infinite", scales.name, scales.nan, scales.infinite);
        printer.text(printable(&text, 2 * MAX_NAME_CHARS))?;
    }
    if !stats.not_floats.is_empty() {
        let names = stats.not_floats.iter().take(NAMES_SHOWN).map(|name| printable(name, MAX_NAME_CHARS));
        let more = stats.not_floats.len().saturating_sub(NAMES_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = names.collect::<Vec<_>>().join(", ");
        printer.text(format_args!("not floats, and not measured: {names}{more}"))?;
    }
    Ok(())
}

/// The number of tensors and values, and how many values are special.
fn summary(stats: &ModelStats) -> String {
    let values: u64 = stats.tensors.iter().map(|tensor| tensor.values).sum();
    let special = |one: &str, many: &str, of: fn(&TensorStats) -> u64| {
        let counts: Vec<u64> = stats.tensors.iter().map(of).filter(|count| *count > 0).collect();
        match counts.iter().sum() {
            0 => format!("no {many}"),
            sum => {
                format!("{} {} in {}", count(sum), if sum == 1 { one } else { many }, counted(counts.len(), "tensor"))
            }
        }
    };
    format!(
        "{}, {} values: {}, {}, {}",
        counted(stats.tensors.len(), "tensor"),
        count(values),
        special("NaN", "NaN", |tensor| tensor.nan),
        special("infinity", "infinities", |tensor| tensor.infinite),
        special("outlier", "outliers", |tensor| tensor.outliers),
    )
}

/// A column of counts: its title and the count of a tensor.
type CountColumn = (&'static str, fn(&TensorStats) -> u64);

/// The table with the widest histograms with which no name is cut, or with the narrowest.
fn fitting(listed: &[&TensorStats], printer: &Printer) -> Table {
    let mut tables = SPARKLINE_CHARS.into_iter().map(|width| table(listed, width));
    let narrowest = || table(listed, SPARKLINE_CHARS[SPARKLINE_CHARS.len() - 1]);
    tables.find(|table| !table.is_cut(printer.page())).unwrap_or_else(narrowest)
}

fn table(listed: &[&TensorStats], width: usize) -> Table {
    // Columns of counts that are all zero are left out.
    let counts: [CountColumn; 4] = [
        ("ZEROS", |tensor| tensor.zeros),
        ("NAN", |tensor| tensor.nan),
        ("INF", |tensor| tensor.infinite),
        ("OUT", |tensor| tensor.outliers),
    ];
    let counts: Vec<_> = counts.into_iter().filter(|(_, of)| listed.iter().any(|tensor| of(tensor) > 0)).collect();
    let mut columns =
        vec![Column::Flexible("NAME"), Column::Right("VALUES"), Column::Right("MIN"), Column::Right("MAX")];
    columns.extend([Column::Right("MEAN"), Column::Right("STD")]);
    columns.extend(counts.iter().map(|(title, _)| Column::Right(title)));
    columns.push(Column::Left("HISTOGRAM"));
    let mut table = Table::new(columns);
    for tensor in listed {
        let numbers = match tensor.finite {
            None => vec!["-".to_owned(); 4],
            Some(finite) => [finite.min, finite.max, finite.mean, finite.deviation].map(short).to_vec(),
        };
        let mut row = vec![tensor.name.clone(), count(tensor.values)];
        row.extend(numbers);
        row.extend(counts.iter().map(|(_, of)| count(of(tensor))));
        row.push(sparkline(tensor.histogram.counts(), width));
        table.row(row);
    }
    table
}

fn document(args: &StatsArgs, stats: &ModelStats, listed: &[&TensorStats]) -> Value {
    json!({
        "path": args.input.path.to_string_lossy(),
        "tensor_count": stats.tensors.len(),
        "tensors": listed.iter().map(|tensor| tensor_document(tensor)).collect::<Vec<_>>(),
        "bad_scales": stats.bad_scales.iter().map(|scales| json!({
            "name": scales.name,
            "weight": scales.weight,
            "nan": scales.nan,
            "infinite": scales.infinite,
        })).collect::<Vec<_>>(),
        "not_floats": stats.not_floats,
    })
}

fn tensor_document(tensor: &TensorStats) -> Value {
    let finite = tensor.finite;
    json!({
        "name": tensor.name,
        "shape": tensor.shape,
        "values": tensor.values,
        "zeros": tensor.zeros,
        "nan": tensor.nan,
        "infinite": tensor.infinite,
        "outliers": tensor.outliers,
        "min": finite.map(|finite| finite.min),
        "max": finite.map(|finite| finite.max),
        "mean": finite.map(|finite| finite.mean),
        "deviation": finite.map(|finite| finite.deviation),
        "histogram": {
            "start": tensor.histogram.start(),
            "width": tensor.histogram.width(),
            "counts": tensor.histogram.counts(),
        },
    })
}
