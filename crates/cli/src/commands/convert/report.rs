//! Results of a conversion, as text and JSON.

use anamnesis::error::printable;
use anamnesis::{Architecture, ConvertReport, ConvertStats, ConvertTarget, Keeping, QuantizationError};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::ui::{Column, Printer, Table};

/// The numbers of tensors by treatment, in short lines.
pub(super) fn lines(
    target: ConvertTarget,
    dtype: &str,
    stats: ConvertStats,
    architecture: Option<&Architecture>,
) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(architecture) = architecture {
        lines.push(format!("names and keys of {} in llama.cpp", architecture.name()));
    }
    if stats.dequantized > 0 {
        lines.push(format!("{} dequantized to {dtype}", stats.dequantized));
    }
    if stats.repacked > 0 {
        lines.push(format!("{} repacked: the same codes and scales, nothing decoded", stats.repacked));
    }
    if stats.nearly_repacked > 0 {
        let why = "except for rounding of libraries in half precision";
        lines.push(format!("{} could keep their codes and scales with --same-codes, {why}", stats.nearly_repacked));
    }
    if stats.folded_scales > 0 {
        lines.push(format!("{} scales folded into their weights", stats.folded_scales));
    }
    if stats.cast > 0 {
        // llama.cpp needs norms and some others in F32.
        let types = if architecture.is_some() { "the types of llama.cpp" } else { dtype };
        lines.push(format!("{} cast to {types}", stats.cast));
    }
    if target == ConvertTarget::Gguf && stats.quantized > 0 {
        lines.push(format!("{} quantized to {dtype}", stats.quantized));
    }
    if let Some(name) = target.short_name() {
        let usual = stats.quantized.saturating_sub(stats.by_rules);
        let others = match stats.by_rules {
            0 => String::new(),
            others => format!("{others} to other targets by rules, "),
        };
        lines.push(format!("{usual} quantized to {name}, {others}{} passed through", stats.passthrough));
    }
    lines
}

pub(super) fn counts(target: ConvertTarget, stats: ConvertStats, kept: &[(String, Keeping)], document: &mut Value) {
    document["tensor_count"] = stats.tensors.into();
    document["dequantized"] = stats.dequantized.into();
    document["quantized"] = stats.quantized.into();
    document["quantized_by_rules"] = stats.by_rules.into();
    document["passthrough"] = stats.passthrough.into();
    document["repacked"] = stats.repacked.into();
    document["nearly_repacked"] = stats.nearly_repacked.into();
    document["folded_scales"] = stats.folded_scales.into();
    if target.is_quantized() {
        let weight = |(name, keeping): &(String, Keeping)| json!({ "name": name, "reason": keeping.reason() });
        document["kept_weights"] = kept.iter().map(weight).collect();
        let count = |(reason, count): (&str, usize)| (reason.to_owned(), count);
        document["kept_by_reason"] = reasons(kept).into_iter().map(count).collect();
    }
}

/// Prints the quantisation error.
pub(super) fn distance(report: &ConvertReport, reports: bool, printer: &Printer) -> Result<(), Failure> {
    match report.replaced {
        0 => {}
        1 => printer.text("  Note: one NaN or infinity was replaced")?,
        many => printer.text(format_args!("  Note: {many} NaNs or infinities were replaced"))?,
    }
    match report.overflowed {
        0 => {}
        1 => printer.text("  Note: one finite value decodes to an infinity or to NaN")?,
        many => printer.text(format_args!("  Note: {many} finite values decode to infinities or to NaN"))?,
    }
    let Some(mean) = report.mean_absolute_error() else { return Ok(()) };
    if reports {
        let mut errors: Vec<_> = report.errors.iter().collect();
        errors.sort_by(|a, b| a.sqnr.total_cmp(&b.sqnr));
        let table = errors_table(errors);
        printer.text("")?;
        printer.table(&table)?;
        printer.text("")?;
    }
    printer.text(format_args!("  Lethe distance: {mean:.3e} (mean absolute error of the quantized values)"))
}

/// A table of quantisation errors.
pub(in crate::commands) fn errors_table<'a>(errors: impl IntoIterator<Item = &'a QuantizationError>) -> Table {
    let mut table = Table::new([
        Column::Flexible("WEIGHT"),
        Column::Right("VALUES"),
        Column::Right("MAE"),
        Column::Right("MSE"),
        Column::Right("SQNR"),
        Column::Right("COSINE"),
    ]);
    for error in errors {
        table.row([
            error.name.clone(),
            error.values.to_string(),
            format!("{:.3e}", error.mean_absolute),
            format!("{:.3e}", error.mean_squared),
            format!("{:.2} dB", error.sqnr),
            format!("{:.6}", error.cosine),
        ]);
    }
    table
}

/// A quantisation error as JSON.
pub(in crate::commands) fn error_document(error: &QuantizationError) -> Value {
    json!({
        "name": error.name,
        "values": error.values,
        "mean_absolute": error.mean_absolute,
        "mean_squared": error.mean_squared,
        // An infinite SQNR has no representation in JSON.
        "sqnr_db": error.sqnr.is_finite().then_some(error.sqnr),
        "cosine": error.cosine,
    })
}

pub(super) fn document(report: &ConvertReport, reports: bool, document: &mut Value) {
    document["lethe_distance"] = report.mean_absolute_error().into();
    document["replaced_values"] = report.replaced.into();
    document["overflowed_values"] = report.overflowed.into();
    if !report.kept.is_empty() {
        document["kept"] = report.kept.iter().map(|path| path.to_string_lossy()).collect();
    }
    if reports {
        document["errors"] = report.errors.iter().map(error_document).collect();
    }
}

/// The number of weights that are not quantised, by reason.
pub(super) fn reasons(kept: &[(String, Keeping)]) -> Vec<(&'static str, usize)> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for (_, keeping) in kept {
        match reasons.iter_mut().find(|(reason, _)| *reason == keeping.reason()) {
            Some((_, count)) => *count += 1,
            None => reasons.push((keeping.reason(), 1)),
        }
    }
    reasons
}

/// The same in short lines; the weights are details.
pub(super) fn kept(kept: &[(String, Keeping)], printer: &Printer) -> Vec<String> {
    for (name, keeping) in kept {
        let line = format!("{name}: not quantized, {}", keeping.reason());
        printer.detail(printable(&line, MAX_LINE_CHARS));
    }
    reasons(kept).iter().map(|(reason, count)| format!("{count} not quantized: {reason}")).collect()
}

/// Maximum characters of a detail.
const MAX_LINE_CHARS: usize = 4096;
