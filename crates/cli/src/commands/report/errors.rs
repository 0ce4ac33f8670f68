//! Errors of a model's weights: against another model, or of a quantisation that is not written.

use std::collections::HashMap;

use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, DiffOptions, DirectoryOptions, RememberOptions};

use crate::commands::{counted, patterns};
use crate::exit::Failure;
use crate::ui::Printer;

/// The error of a weight.
pub(super) struct WeightError {
    /// In decibels; infinite if there is no error.
    pub(super) sqnr: f64,
    /// The largest absolute difference.
    pub(super) largest: f64,
}

/// The errors of all weights that were compared.
pub(super) struct Errors {
    pub(super) by_name: HashMap<String, WeightError>,
    /// Whether largest differences were measured.
    pub(super) has_largest: bool,
    /// What was compared, in words.
    pub(super) text: String,
}

impl Errors {
    /// The differences between a model and a reference.
    pub(super) fn against(
        checkpoint: &Checkpoint,
        reference: &Checkpoint,
        named: &str,
        run: &RememberOptions,
        printer: &Printer,
    ) -> Result<Self, Failure> {
        let measure = |options: DiffOptions| {
            let bar = printer.progress(0);
            // The reference is the signal.
            let diff = reference.diff(checkpoint, &options, |progress| {
                bar.set_total(progress.total_bytes);
                bar.set(progress.bytes);
            });
            diff.map_err(|error| patterns::advise(error, checkpoint))
        };
        let options = DiffOptions::new().with_run(run.clone());
        let mut diff = measure(options.clone())?;
        // A GGUF file with the names of its source has none of its architecture's.
        if diff.tensors.is_empty() {
            diff = measure(options.with_keep_names(true))?;
        }
        let mut by_name = HashMap::new();
        let (mut equal, mut shapes) = (0, 0);
        for tensor in &diff.tensors {
            let Some(values) = tensor.values() else {
                shapes += 1;
                continue;
            };
            equal += usize::from(values.different == 0);
            let name = tensor.name_in_second.clone().unwrap_or_else(|| tensor.name.clone());
            by_name.insert(name, WeightError { sqnr: values.sqnr, largest: values.max_absolute });
        }
        let mut text = format!(
            "Decoded values against {named} as the reference: {} compared, {equal} of them equal bit for bit.",
            counted(by_name.len(), "tensor")
        );
        for (count, words) in [
            (diff.only_in_second.len(), "only in this model"),
            (diff.only_in_first.len(), "only in the reference"),
            (shapes, "of different shape or type"),
        ] {
            if count > 0 {
                text += &format!(" {} {words}.", counted(count, "tensor"));
            }
        }
        Ok(Self { by_name, has_largest: true, text })
    }

    /// The errors of quantising a model to a target.
    pub(super) fn of_target(
        checkpoint: &Checkpoint,
        target: ConvertTarget,
        run: &RememberOptions,
        printer: &Printer,
    ) -> Result<Self, Failure> {
        let mut options = ConvertOptions::new().with_keep_names(true);
        options.run = run.clone();
        let bar = printer.progress(0);
        let rows = checkpoint.compare(&[target], &options, &DirectoryOptions::new(), |progress| {
            bar.set_total(progress.total_bytes);
            bar.set(progress.bytes);
        });
        drop(bar);
        let mut rows = rows.map_err(|error| patterns::advise(error, checkpoint))?;
        let Some(row) = rows.pop() else { return Err(Failure::Usage("no target to compare with".to_owned())) };
        let measured = row.outcome.map_err(|error| patterns::advise(error, checkpoint))?;
        let error = |weight: &anamnesis::MeasuredWeight| {
            (weight.error.name.clone(), WeightError { sqnr: weight.error.sqnr, largest: f64::NAN })
        };
        let by_name: HashMap<_, _> = measured.weights.iter().map(error).collect();
        let text = format!(
            "Errors that quantising to {} would make, measured without writing: {}, of {} in all.",
            target.name(),
            counted(by_name.len(), "weight"),
            crate::ui::size(measured.bytes)
        );
        Ok(Self { by_name, has_largest: false, text })
    }
}
