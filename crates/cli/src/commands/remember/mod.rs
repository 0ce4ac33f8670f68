//! `remember`: decodes a model, or shows the plan. A file becomes a file, a checkpoint directory a directory.

mod directory;
mod file;

use std::path::PathBuf;

use anamnesis::{
    Cast, Checkpoint, Components, ConvertOptions, ConvertStats, ConvertTarget, CpuLevel, Format, InspectOptions,
    TargetDtype,
};

use super::writing::{self, becomes_directory, prepare_output, refuse_directory_options};
use super::{components, open, output_path, patterns, shown, to};
use crate::args::{InputArgs, RememberArgs, WriteArgs};
use crate::exit::Failure;
use crate::ui::Printer;

/// Accepted in place of a type for inputs of other formats; means the default type.
const OUTPUT_FORMAT: &str = "safetensors";

pub(super) fn run(args: &RememberArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let typed = args.to.as_deref();
    let is_format = typed.is_some_and(|to| to.eq_ignore_ascii_case(OUTPUT_FORMAT));
    let target = match typed {
        Some(to) if !is_format => to::dtype(to)?,
        _ => TargetDtype::BF16,
    };
    prepare_output(&args.write, ConvertTarget::Safetensors, printer)?;
    let options = options(args, target, cpu)?;
    if let Some(components) = components::of(&args.input)? {
        return run_components(args, &components, (target, &options), printer);
    }
    let checkpoint = open::checkpoint(&args.input, printer)?;
    if is_format && checkpoint.format() == Format::Safetensors {
        // Reports the known types.
        to::dtype(OUTPUT_FORMAT)?;
    }
    let info = checkpoint.inspect(&InspectOptions::new().with_output_dtype(target));
    if becomes_directory(&checkpoint, &args.write, ConvertTarget::Safetensors) {
        let document = directory::run(args, (&args.input, &args.write), &checkpoint, &info, &options, printer)?;
        return printer.document("remember", document);
    }
    let why = match checkpoint.directory() {
        Some(_) => "-o names one file".to_owned(),
        None => format!(
            "{} is a single file, which becomes a single file; name its directory to convert the whole checkpoint",
            shown(&args.input.path)
        ),
    };
    refuse_directory_options(&args.write, &why)?;
    file::run(args, &checkpoint, &info, &options, printer)
}

/// Decodes every component of a directory of several models.
fn run_components(
    args: &RememberArgs,
    components: &Components,
    (target, options): (TargetDtype, &ConvertOptions),
    printer: &Printer,
) -> Result<(), Failure> {
    let (input, write, suffix) = (&args.input, &args.write, target.to_string().to_ascii_lowercase());
    let writing =
        components::Writing { command: "remember", components, input, write, suffix: &suffix, must_quantise: false };
    let plan = |input: &InputArgs| {
        let checkpoint = open::checkpoint(input, printer)?;
        let plan = checkpoint.plan_convert_directory(ConvertTarget::Safetensors, options, &write.directory_options());
        Ok(plan.map_err(|error| patterns::advise(error, &checkpoint))?.stats())
    };
    let run = |input: &InputArgs, write: &WriteArgs| {
        let checkpoint = open::checkpoint(input, printer)?;
        let info = checkpoint.inspect(&InspectOptions::new().with_output_dtype(target));
        directory::run(args, (input, write), &checkpoint, &info, options, printer)
    };
    writing.run(plan, run, printer)
}

/// The default output of a checkpoint; `None` if it has no name to call the output by.
pub(super) fn default_output(checkpoint: &Checkpoint, target: TargetDtype) -> Option<PathBuf> {
    match checkpoint.directory().is_some() && !checkpoint.format().parts_are_one_file() {
        true => output_path::directory(checkpoint, &target.to_string().to_ascii_lowercase()).ok(),
        false => file::default_output(checkpoint, target).ok(),
    }
}

/// The requested conversion options.
fn options(args: &RememberArgs, target: TargetDtype, cpu: CpuLevel) -> Result<ConvertOptions, Failure> {
    let options = writing::options(&args.write, cpu)?.with_output_dtype(target.dtype());
    let cast = if args.cast.is_some() { Cast::All } else { Cast::Quantized };
    Ok(options.with_cast(cast).with_selection(args.select.selection()?))
}

/// Why there is nothing to decode. Inputs of other formats are converted anyway.
fn nothing_decoded(args: &RememberArgs, checkpoint: &Checkpoint, stats: ConvertStats) -> Option<String> {
    let is_asked = args.to.as_deref().is_some_and(|to| !to.eq_ignore_ascii_case(OUTPUT_FORMAT));
    let is_idle = stats.dequantized == 0 && args.cast.is_none();
    let is_told = is_idle && (is_asked || checkpoint.format() == Format::Safetensors);
    is_told.then(|| "nothing to decode; --cast all converts plain tensors".to_owned())
}

/// The numbers of tensors by treatment: `1 decoded to BF16, 2 copied`.
fn summary(stats: ConvertStats, target: TargetDtype) -> String {
    let cast = if stats.cast > 0 { format!("{} cast to {target}, ", stats.cast) } else { String::new() };
    format!("{} decoded to {target}, {cast}{} copied", stats.dequantized, stats.passthrough)
}
