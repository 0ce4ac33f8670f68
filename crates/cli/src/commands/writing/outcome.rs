//! Results that all writing commands print: sizes, omitted data and losses.

use anamnesis::error::printable;
use anamnesis::{Checkpoint, ConvertStats, PlanNote};
use serde_json::Value;

use crate::commands::unclaimed_names;
use crate::exit::Failure;
use crate::ui::{Printer, size};

/// Maximum characters of a note.
const MAX_NOTE_CHARS: usize = 4096;

/// Maximum number of notes to print.
const NOTES_SHOWN: usize = 40;

/// The notes of a plan as text.
pub(crate) fn note_texts(notes: &[PlanNote]) -> Vec<String> {
    notes.iter().map(ToString::to_string).collect()
}

/// Prints the notes of a plan.
pub(crate) fn plan_notes(notes: &[String], printer: &Printer) -> Result<(), Failure> {
    for note in notes.iter().take(NOTES_SHOWN) {
        printer.text(format_args!("  Note: {}", printable(note, MAX_NOTE_CHARS)))?;
    }
    match notes.len().saturating_sub(NOTES_SHOWN) {
        0 => Ok(()),
        more => printer.text(format_args!("  Note: and {more} more, listed by --json")),
    }
}

/// Prints notes, overflows and sizes.
pub(crate) fn outcome(
    checkpoint: &Checkpoint,
    notes: &[String],
    overflowed: u64,
    output_bytes: u64,
    printer: &Printer,
) -> Result<(), Failure> {
    plan_notes(notes, printer)?;
    match overflowed {
        0 => {}
        1 => printer.text("  Note: one finite value is infinite in the output: the maximum of F16 is 65504")?,
        many => {
            printer.text(format_args!(
                "  Note: {many} finite values are infinite in the output: the maximum of F16 is 65504"
            ))?;
        }
    }
    printer.text(format_args!("  Size: {} -> {}", size(checkpoint.file_bytes()), size(output_bytes)))
}

/// The same as JSON.
pub(crate) fn shared_fields(checkpoint: &Checkpoint, stats: ConvertStats, notes: &[PlanNote], document: &mut Value) {
    document["input_bytes"] = checkpoint.file_bytes().into();
    document["cast"] = stats.cast.into();
    document["left_out"] = stats.left_out.into();
    document["dropped_metadata"] = stats.dropped_metadata.into();
    document["unclaimed"] = unclaimed_names(checkpoint);
    document["notes"] = note_texts(notes).into();
}
