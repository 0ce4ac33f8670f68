//! `forget`: quantise the weights of a model.

use anamnesis::{AnamnesisError, ConvertTarget, CpuLevel};

use super::convert::{Request, options, split};
use super::to;
use crate::args::ForgetArgs;
use crate::exit::Failure;
use crate::ui::Printer;

pub(super) fn run(args: &ForgetArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let target = to::target(&args.to)?;
    if !target.is_quantized() {
        let names: Vec<_> =
            ConvertTarget::all().filter(|target| target.is_quantized()).map(ConvertTarget::name).collect();
        let detail = format!("it quantises nothing; {} do, amn convert writes all others", names.join(", "));
        return Err(Failure::Usage(AnamnesisError::Unsupported { format: args.to.clone(), detail }.to_string()));
    }
    let mut options = options(&args.write, &args.quantize, target, cpu)?.with_selection(args.names.selection()?);
    options.keep_names = args.keep_names;
    options.split = split(&args.split, target)?;
    options = args.include.iter().try_fold(options, |options, glob| options.with_quantized(glob))?;
    options = args.exclude.iter().try_fold(options, |options, glob| options.with_kept(glob))?;
    let (reports, allow_empty) = (args.quantize.report, args.quantize.allow_empty);
    let (input, write) = (&args.input, &args.write);
    Request { command: "forget", input, write, target, options, reports, allow_empty }.run(printer)
}
