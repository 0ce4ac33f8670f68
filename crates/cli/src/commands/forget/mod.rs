//! `forget`: quantises the weights of a model, or shows the plan.

mod compare;
mod fit;

use anamnesis::{ConvertOptions, ConvertTarget, CpuLevel};

use super::convert::{Request, options, split};
use super::to;
use crate::args::ForgetArgs;
use crate::exit::{Failure, about};
use crate::ui::Printer;

pub(super) fn run(args: &ForgetArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    if !args.compare.is_empty() {
        return compare::run(args, cpu, printer);
    }
    if let Some(bytes) = args.fit {
        return fit::run(args, bytes, cpu, printer);
    }
    let target = target(args.to.as_deref().unwrap_or_default())?;
    let options = conversion_options(args, target, cpu)?;
    request(args, target, options).run(printer)
}

/// A target that quantises.
pub(super) fn target(text: &str) -> Result<ConvertTarget, Failure> {
    let target = to::target(text)?;
    if !target.is_quantized() {
        return Err(Failure::Usage(format!(
            "the target {target} does not quantise, amn convert writes it; bnb-nf4, fp8, q4_k_m and others listed by amn formats do"
        )));
    }
    Ok(target)
}

/// The requested conversion options.
fn conversion_options(args: &ForgetArgs, target: ConvertTarget, cpu: CpuLevel) -> Result<ConvertOptions, Failure> {
    let mut options = options(&args.write, &args.quantize, target, cpu)?.with_selection(args.names.selection()?);
    options.keep_names = args.keep_names;
    options.split = split(&args.split, target)?;
    options = args
        .include
        .iter()
        .try_fold(options, |options, glob| options.with_quantized(glob))
        .map_err(about("--include"))?;
    options =
        args.exclude.iter().try_fold(options, |options, glob| options.with_kept(glob)).map_err(about("--exclude"))?;
    Ok(options)
}

fn request(args: &ForgetArgs, target: ConvertTarget, options: ConvertOptions) -> Request<'_> {
    let (reports, allow_empty) = (args.quantize.report, args.quantize.allow_empty);
    let (input, write, quantize) = (&args.input, &args.write, &args.quantize);
    Request {
        command: "forget",
        input,
        write,
        quantize,
        target,
        options,
        reports,
        allow_empty,
        with_projector: false,
        fit: None,
    }
}
