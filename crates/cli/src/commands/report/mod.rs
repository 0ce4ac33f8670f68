//! `report`: a model as one page, with charts and a table of all tensors.

mod columns;
mod data;
mod errors;
mod page;
mod picture;

use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anamnesis::{
    AnamnesisError, Checkpoint, CpuLevel, InspectInfo, InspectOptions, ModelStats, Overview, RememberOptions,
};
use serde_json::json;

use super::described::input_name;
use super::{counted, forget, open, patterns, shown, small_file};
use crate::args::ReportArgs;
use crate::exit::Failure;
use crate::ui::{Printer, size};
use data::Measured;
use errors::Errors;
use page::Page;

pub(super) fn run(args: &ReportArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from("report.html"));
    refuse_existing(&output, args.force)?;
    let target = args.to.as_deref().map(forget::target).transpose()?;
    let run = args.run.options(cpu)?;
    let checkpoint = patterns::select(&args.choice, open::checkpoint(&args.input, printer)?)?;
    let info = checkpoint.inspect(&InspectOptions::new());
    let overview = checkpoint.overview();
    let mut notes = Vec::new();
    let stats = match args.headers_only {
        true => None,
        false => measure(&checkpoint, &run, &mut notes, printer)?,
    };
    let errors = match (&args.second, target) {
        (Some(second), _) => {
            let reference = open::checkpoint(&args.input.again(second), printer)?;
            Some(Errors::against(&checkpoint, &reference, &shown(second), &run, printer)?)
        }
        (None, Some(target)) => Some(Errors::of_target(&checkpoint, target, &run, printer)?),
        (None, None) => None,
    };
    let name = match checkpoint.directory().and(checkpoint.origin().model_name()) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => input_name(&args.input.path, &checkpoint),
    };
    let page = draft(
        &name,
        &checkpoint,
        &info,
        &overview,
        &Measured { stats: stats.as_ref(), errors: errors.as_ref() },
        notes,
    )?;
    let text = page.render();
    small_file::write(&output, args.force, |out| Ok(out.write_all(text.as_bytes()).map_err(AnamnesisError::Io)?))?;
    let tensors = counted(overview.contents.tensors.len(), "tensor");
    printer.text(format_args!("Wrote {} ({tensors}, {})", shown(&output), size(text.len() as u64)))?;
    printer.document(
        "report",
        json!({
            "path": args.input.path.to_string_lossy(),
            "second": args.second.as_ref().map(|second| second.to_string_lossy()),
            "to": target.map(|target| target.name()),
            "output": output.to_string_lossy(),
            "bytes": text.len(),
            "tensor_count": overview.contents.tensors.len(),
            "measured": stats.is_some(),
            "compared": errors.as_ref().map(|errors| errors.by_name.len()),
            "notes": page.notes,
        }),
    )
}

/// Statistics of all tensors. A model that cannot be decoded is shown without them.
fn measure(
    checkpoint: &Checkpoint,
    run: &RememberOptions,
    notes: &mut Vec<String>,
    printer: &Printer,
) -> Result<Option<ModelStats>, Failure> {
    let bar = printer.progress(0);
    let stats = checkpoint.stats(run, |progress| {
        bar.set_total(progress.total_bytes);
        bar.set(progress.bytes);
    });
    drop(bar);
    match stats {
        Ok(stats) => Ok(Some(stats)),
        Err(error @ (AnamnesisError::Cancelled | AnamnesisError::Io(_))) => Err(error.into()),
        Err(error) => {
            notes.push(format!("Values were not measured: {error}"));
            Ok(None)
        }
    }
}

/// The page of a model.
fn draft(
    name: &str,
    checkpoint: &Checkpoint,
    info: &InspectInfo,
    overview: &Overview<'_>,
    measured: &Measured<'_>,
    mut notes: Vec<String>,
) -> Result<Page, Failure> {
    let left_out = data::left_out(&overview.contents);
    if left_out > 0 {
        notes.push(format!("The table has the largest tensors only; {left_out} are left out of it and of the charts."));
    }
    if let Some(stats) = measured.stats {
        let count =
            |read: fn(&anamnesis::TensorStats) -> u64| stats.tensors.iter().filter(|tensor| read(tensor) > 0).count();
        for (tensors, word) in
            [(count(|tensor| tensor.nan), "NaN"), (count(|tensor| tensor.infinite), "infinite values")]
        {
            if tensors > 0 {
                notes.push(format!("{} with {word}.", counted(tensors, "tensor")));
            }
        }
        notes.extend(stats.bad_scales.iter().take(NOTES_SHOWN).map(|scales| {
            format!("The scales {} have {} NaN and {} infinite values.", scales.name, scales.nan, scales.infinite)
        }));
    }
    notes.extend(info.problems.iter().take(NOTES_SHOWN).cloned());
    let (meta, columns) = data::data(name, checkpoint, &overview.contents, measured)?;
    let parameters = overview.parameters.total.map(|total| format!("{} parameters", size::count(total)));
    let model = overview.model.as_ref().and_then(|model| model.model_type.clone());
    let words = [model, parameters, Some(size(info.current_size))];
    let lead = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Ok(Page { name: name.to_owned(), lead, facts: facts(info, overview), notes, meta, columns })
}

/// Problems and scales that are listed.
const NOTES_SHOWN: usize = 10;

/// The overview as labels and values.
fn facts(info: &InspectInfo, overview: &Overview<'_>) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |label: &str, value: Option<String>| facts.extend(value.map(|value| (label.to_owned(), value)));
    if let Some(model) = &overview.model {
        let both = |a: Option<u64>, b: Option<u64>, words: &str| match (a, b) {
            (Some(a), Some(b)) if a != b => Some(format!("{a} ({b} {words})")),
            (a, _) => a.map(|a| a.to_string()),
        };
        add("Class", model.class.clone());
        add("Layers", model.layers.map(|layers| layers.to_string()));
        add("Hidden size", model.hidden.map(|hidden| hidden.to_string()));
        add("Heads", both(model.heads, model.kv_heads, "of keys and values"));
        add("Experts", both(model.experts, model.experts_used, "used per token"));
        add("Context", model.context.map(|context| format!("{context} tokens")));
        add("Vocabulary", model.vocabulary.map(|tokens| format!("{tokens} tokens")));
    }
    let parameters = &overview.parameters;
    add(
        "Parameters",
        parameters.total.map(|total| match parameters.active {
            Some(active) => format!("{} ({} active per token)", size::count(total), size::count(active)),
            None => size::count(total),
        }),
    );
    add("Bits per weight", overview.contents.bits_per_weight().map(|bits| format!("{bits:.2}")));
    add("Tensors", Some(format!("{} ({} stored)", overview.contents.tensors.len(), info.tensor_count)));
    add("Scheme", Some(info.scheme_name()));
    let decoded = info.decoded_size().map(|bytes| format!(", {} decoded to {}", size(bytes), info.decoded_types()));
    add("Size", Some(size(info.current_size) + &decoded.unwrap_or_default()));
    if let Ok(cache) = &overview.cache {
        let context = overview.model.as_ref().and_then(|model| model.context);
        let whole = context.map(|tokens| format!(", {} at {tokens} tokens", size(cache.bytes_at(tokens))));
        let per_token = (cache.token_bytes() > 0).then(|| format!("{} per token", size(cache.token_bytes())));
        let state = (cache.state_bytes() > 0).then(|| format!("{} of state", size(cache.state_bytes())));
        let words = [per_token, state].into_iter().flatten().collect::<Vec<_>>().join(", ");
        add("Cache", Some(words + &whole.unwrap_or_default()));
    }
    facts
}

fn refuse_existing(output: &Path, force: bool) -> Result<(), Failure> {
    if output.is_dir() || (output.exists() && !force) {
        let error = Error::new(ErrorKind::AlreadyExists, format!("{}: exists already", output.display()));
        let advice =
            if output.is_dir() { "name a file with -o" } else { "--force replaces it, -o chooses another name" };
        return Err(Failure::Refused { error: AnamnesisError::Io(error), advice: Some(advice.to_owned()) });
    }
    Ok(())
}
