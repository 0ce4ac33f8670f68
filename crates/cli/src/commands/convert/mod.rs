//! `convert`: any input to any target. `forget` is the same for targets that quantise.

mod directory;
mod file;
mod report;

use std::path::Path;

use anamnesis::convert::{parse_gguf_kv_arg, parse_gguf_metadata_json};
use anamnesis::error::printable;
use anamnesis::{AnamnesisError, Cast, Checkpoint, ConvertOptions, ConvertTarget, CpuLevel, Existing};

use super::writing::refuse_options_of_directories;
use super::{notes, open, patterns, shown, to};
use crate::args::{ConvertArgs, InputArgs, QuantizeArgs, WriteArgs};
use crate::exit::Failure;
use crate::interrupt;
use crate::ui::Printer;

/// What was typed, and what it means.
pub(super) struct Request<'a> {
    /// The command, for programs that read the result.
    pub(super) command: &'static str,
    pub(super) input: &'a InputArgs,
    pub(super) write: &'a WriteArgs,
    pub(super) target: ConvertTarget,
    pub(super) options: ConvertOptions,
    /// Whether the error of every weight is shown.
    pub(super) reports: bool,
}

pub(super) fn run(args: &ConvertArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let target = to::target(&args.to)?;
    let mut options = options(&args.write, &args.quantize, target, cpu)?.with_selection(args.select.selection()?);
    if let Some(dtype) = &args.out_dtype {
        options = options.with_output_dtype(to::dtype(dtype)?.dtype());
    }
    if args.cast.is_some() {
        options = options.with_cast(Cast::All);
    }
    options = args.quantized.iter().try_fold(options, |options, glob| options.with_quantized(glob))?;
    options = args.keep.iter().try_fold(options, |options, glob| options.with_kept(glob))?;
    refuse_misplaced(args, target)?;
    options.gguf_removed.clone_from(&args.gguf_remove_kv);
    if let Some(path) = &args.gguf_metadata {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let error = std::io::Error::new(error.kind(), format!("{}: {error}", path.display()));
            open::advise(AnamnesisError::Io(error), path)
        })?;
        options.gguf_metadata = parse_gguf_metadata_json(&text)?;
    }
    for pair in &args.gguf_kv {
        let (key, value) = parse_gguf_kv_arg(pair)?;
        options.gguf_metadata.insert(key, value);
    }
    let reports = args.quantize.report;
    Request { command: "convert", input: &args.input, write: &args.write, target, options, reports }.run(printer)
}

/// Options that the target has no use for are a mistake, not a wish.
fn refuse_misplaced(args: &ConvertArgs, target: ConvertTarget) -> Result<(), Failure> {
    let gguf = [
        (args.gguf_metadata.is_some(), "--gguf-metadata"),
        (!args.gguf_kv.is_empty(), "--gguf-kv"),
        (!args.gguf_remove_kv.is_empty(), "--gguf-remove-kv"),
    ];
    let quantising = [
        (args.quantize.double_quant, "--double-quant"),
        (args.quantize.block_size.is_some(), "--block-size"),
        (args.quantize.allow_nonfinite, "--allow-nonfinite"),
        (args.quantize.report, "--report"),
        (!args.quantized.is_empty(), "--quantize"),
        (!args.keep.is_empty(), "--keep"),
    ];
    let given = |options: &[(bool, &'static str)]| options.iter().find(|(given, _)| *given).map(|(_, name)| *name);
    let misplaced = match target {
        ConvertTarget::Gguf => given(&quantising),
        other if other.is_quantized() => given(&gguf),
        _ => given(&gguf).or_else(|| given(&quantising)),
    };
    match misplaced {
        None => Ok(()),
        Some(option) => Err(Failure::Usage(format!("{option} has no meaning for the target {target}"))),
    }
}

/// How the conversion runs, as typed.
pub(super) fn options(
    write: &WriteArgs,
    quantize: &QuantizeArgs,
    target: ConvertTarget,
    cpu: CpuLevel,
) -> Result<ConvertOptions, Failure> {
    let existing = if write.force { Existing::Replace } else { Existing::Refuse };
    let mut options = ConvertOptions::new().with_existing(existing).with_cancel(interrupt::token()?);
    options.threads = write.threads.map(usize::from);
    options.cpu = Some(cpu);
    options.quantise.bnb.block_size = quantize.block_size;
    options = options.with_double_quant(quantize.double_quant).with_allow_nonfinite(quantize.allow_nonfinite);
    Ok(options.with_measure(target.is_quantized()))
}

impl Request<'_> {
    pub(super) fn run(&self, printer: &Printer) -> Result<(), Failure> {
        let checkpoint = open::checkpoint(self.input, printer)?;
        let is_cut_file = checkpoint.format().parts_are_one_file() && self.write.option_of_directories().is_none();
        let is_directory = checkpoint.directory().is_some() && self.target.extension() == "safetensors";
        if is_directory && !is_cut_file {
            return self.convert_directory(&checkpoint, printer);
        }
        refuse_options_of_directories(self.write, "this conversion writes one file")?;
        self.convert_file(&checkpoint, printer)
    }

    /// Adds what the user can do about a conversion that cannot be planned.
    fn advise(&self, error: AnamnesisError, checkpoint: &Checkpoint) -> Failure {
        match &error {
            // The format of the output: it is what cannot hold some tensor.
            AnamnesisError::Unsupported { format, .. } if format == self.target.extension() => {
                let advice = Some("--exclude leaves tensors out".to_owned());
                Failure::Refused { error, advice }
            }
            _ => patterns::unfit(error, checkpoint),
        }
    }

    /// The type of decoded weights.
    fn dtype(&self) -> String {
        self.options.output_dtype.map_or_else(|| "BF16".to_owned(), |dtype| dtype.to_string())
    }

    fn announce(&self, checkpoint: &Checkpoint, output: &Path, printer: &Printer) -> Result<(), Failure> {
        printer.text(format_args!("Converting {} -> {}", shown(&self.input.path), shown(output)))?;
        notes(checkpoint, "  Note: ", printer)
    }

    fn notes(&self, notes: &[String], printer: &Printer) -> Result<(), Failure> {
        for note in notes {
            printer.text(format_args!("  Note: {}", printable(note, MAX_NOTE_CHARS)))?;
        }
        Ok(())
    }
}

/// Longest note printed, in characters.
const MAX_NOTE_CHARS: usize = 4096;
