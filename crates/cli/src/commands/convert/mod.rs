//! `convert`: converts any input to any target. `forget` is the same for targets that quantise.

mod directory;
mod file;
mod projector;
mod report;

pub(super) use report::{error_document, errors_table};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anamnesis::convert::{parse_gguf_kv_arg, read_gguf_metadata_json};
use anamnesis::{
    AnamnesisError, BlockOptions, Cast, Checkpoint, Components, ConvertOptions, ConvertStats, ConvertTarget, CpuLevel,
    Importance, Keeping, ModelPart, ParseLimits, Split,
};

use super::writing::{self, becomes_directory, prepare_output, refuse_directory_options};
use super::{components, notes, open, output_path, patterns, shown, to};
use crate::args::{ConvertArgs, InputArgs, QuantizeArgs, SplitArgs, WriteArgs};
use crate::exit::{Failure, about};
use crate::ui::Printer;
use serde_json::Value;

/// A conversion request.
pub(super) struct Request<'a> {
    /// The command, for the JSON document.
    pub(super) command: &'static str,
    pub(super) input: &'a InputArgs,
    pub(super) write: &'a WriteArgs,
    pub(super) quantize: &'a QuantizeArgs,
    pub(super) target: ConvertTarget,
    pub(super) options: ConvertOptions,
    /// Whether to print the error of every weight.
    pub(super) reports: bool,
    /// Whether to write an output without quantised weights.
    pub(super) allow_empty: bool,
    /// Whether the towers of a multimodal model are written too, into a file of their own.
    pub(super) with_projector: bool,
    /// The result of `--fit`, for the JSON document.
    pub(super) fit: Option<Value>,
}

pub(super) fn run(args: &ConvertArgs, cpu: CpuLevel, printer: &Printer) -> Result<(), Failure> {
    let target = target(args)?;
    let mut options = options(&args.write, &args.quantize, target, cpu)?.with_selection(args.select.selection()?);
    if let Some(dtype) = &args.out_dtype {
        options.output_dtype = to::matrix_type(dtype, target)?;
    }
    options.keep_names = args.keep_names;
    options.like.clone_from(&args.like);
    options.without_mtp = args.no_mtp;
    options.only_mtp = args.mtp;
    options.vocab_only = args.vocab_only;
    options.fp8_as_q8 = args.fp8_as_q8;
    options.dense_modules = args.sentence_transformers_dense_modules;
    options.target_model.clone_from(&args.target_model_dir);
    options.mistral_format = args.mistral_format;
    options.big_endian = args.bigendian;
    options.projector = args.mmproj;
    options.base.clone_from(&args.base);
    if args.cast.is_some() {
        options = options.with_cast(Cast::All);
    }
    options = args
        .quantized
        .iter()
        .try_fold(options, |options, glob| options.with_quantized(glob))
        .map_err(about("--quantize"))?;
    options = args.keep.iter().try_fold(options, |options, glob| options.with_kept(glob)).map_err(about("--keep"))?;
    refuse_inapplicable(args, target)?;
    if args.with_mmproj && args.write.output.as_deref().is_some_and(output_path::is_stream) {
        return Err(Failure::Usage("--with-mmproj writes two files, and -o - is one stream".to_owned()));
    }
    options.split = split(&args.split, target)?;
    options.gguf_removed.clone_from(&args.gguf_remove_kv);
    if let Some(path) = &args.gguf_metadata {
        options.gguf_metadata = read_gguf_metadata_json(path).map_err(|error| open::advise(error, path))?;
    }
    for pair in &args.gguf_kv {
        // The command line is at fault, not a file.
        let (key, value) = parse_gguf_kv_arg(pair).map_err(about("--gguf-kv"))?;
        options.gguf_metadata.insert(key, value);
    }
    let (reports, allow_empty) = (args.quantize.report, args.quantize.allow_empty);
    let native = args.mistral_format.then(|| InputArgs { path: consolidated(&args.input.path), ..args.input.clone() });
    let (input, write, quantize) = (native.as_ref().unwrap_or(&args.input), &args.write, &args.quantize);
    let with_projector = args.with_mmproj;
    Request {
        command: "convert",
        input,
        write,
        quantize,
        target,
        options,
        reports,
        allow_empty,
        with_projector,
        fit: None,
    }
    .run(printer)
}

/// The first weight file of Mistral's own format in a directory that may have others, or the path itself.
fn consolidated(path: &Path) -> PathBuf {
    let is_one = |name: &str| name.starts_with("consolidated") && name.ends_with(".safetensors");
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_one(name)).min().map_or_else(|| path.to_path_buf(), |name| path.join(name))
}

/// Refuses options that do not apply to the target.
fn refuse_inapplicable(args: &ConvertArgs, target: ConvertTarget) -> Result<(), Failure> {
    let gguf = [
        (args.keep_names, "--keep-names"),
        (args.like.is_some() && target != ConvertTarget::Hf, "--like"),
        (args.no_mtp, "--no-mtp"),
        (args.mtp, "--mtp"),
        (args.vocab_only, "--vocab-only"),
        (args.fp8_as_q8, "--fp8-as-q8"),
        (args.sentence_transformers_dense_modules, "--sentence-transformers-dense-modules"),
        (args.target_model_dir.is_some(), "--target-model-dir"),
        (args.mistral_format, "--mistral-format"),
        (args.bigendian, "--bigendian"),
        (args.mmproj, "--mmproj"),
        (args.with_mmproj, "--with-mmproj"),
        (args.base.is_some(), "--base"),
        (args.gguf_metadata.is_some(), "--gguf-metadata"),
        (!args.gguf_kv.is_empty(), "--gguf-kv"),
        (!args.gguf_remove_kv.is_empty(), "--gguf-remove-kv"),
    ];
    let quantising = [
        (args.quantize.double_quant, "--double-quant"),
        (args.quantize.block_size.is_some(), "--block-size"),
        (args.quantize.group_size.is_some(), "--group-size"),
        (args.quantize.same_codes, "--same-codes"),
        (!args.quantize.rule.is_empty(), "--rule"),
        (args.quantize.allow_nonfinite, "--allow-nonfinite"),
        (args.quantize.report, "--report"),
        (args.quantize.allow_empty, "--allow-empty"),
        (!args.quantized.is_empty(), "--quantize"),
        (!args.keep.is_empty(), "--keep"),
    ];
    let given = |options: &[(bool, &'static str)]| options.iter().find(|(given, _)| *given).map(|(_, name)| *name);
    let blocks = [
        (args.quantize.imatrix.is_some(), "--imatrix"),
        (args.quantize.pure, "--pure"),
        (args.quantize.leave_output_tensor, "--leave-output-tensor"),
        (args.quantize.output_tensor_type.is_some(), "--output-tensor-type"),
        (args.quantize.token_embedding_type.is_some(), "--token-embedding-type"),
        (!args.quantize.tensor_type.is_empty(), "--tensor-type"),
    ];
    let is_gguf = target.extension() == ConvertTarget::Gguf.extension();
    let misplaced = match target {
        other if other.is_quantized() && is_gguf => given(&quantising[..4]),
        _ if given(&blocks).is_some() => given(&blocks),
        ConvertTarget::Gguf => given(&quantising),
        other if other.is_quantized() => given(&gguf),
        _ => given(&gguf).or_else(|| given(&quantising)),
    };
    match misplaced {
        None => Ok(()),
        Some(option) => Err(Failure::Usage(format!("{option} does not apply to the target {target}"))),
    }
}

/// The requested split of the output.
pub(super) fn split(args: &SplitArgs, target: ConvertTarget) -> Result<Split, Failure> {
    match args.option() {
        Some(option) if target.extension() != ConvertTarget::Gguf.extension() => {
            Err(Failure::Usage(format!("{option} does not apply to the target {target}, only to GGUF")))
        }
        _ => Ok(args.split()),
    }
}

/// The requested conversion options.
pub(super) fn options(
    write: &WriteArgs,
    quantize: &QuantizeArgs,
    target: ConvertTarget,
    cpu: CpuLevel,
) -> Result<ConvertOptions, Failure> {
    let mut options = writing::options(write, cpu)?;
    options.quantise.bnb.block_size = quantize.block_size;
    options.quantise.groups.size = quantize.group_size;
    options.quantise.groups.same_codes = quantize.same_codes;
    options.quantise.blocks = blocks(quantize)?;
    let mut rules = quantize.rule.iter();
    options =
        rules.try_fold(options, |options, (glob, spec)| options.with_rule(glob, spec)).map_err(about("--rule"))?;
    options = options.with_double_quant(quantize.double_quant).with_allow_nonfinite(quantize.allow_nonfinite);
    Ok(options.with_measure(target.is_quantized()))
}

/// The requested block options.
fn blocks(quantize: &QuantizeArgs) -> Result<BlockOptions, Failure> {
    let mut options = BlockOptions::new().with_pure(quantize.pure).with_keep_output(quantize.leave_output_tensor);
    options.output_type = quantize.output_tensor_type;
    options.embedding_type = quantize.token_embedding_type;
    options.tensor_types.clone_from(&quantize.tensor_type);
    if let Some(path) = &quantize.imatrix {
        let importance = Importance::read(path, &ParseLimits::default()).map_err(|error| in_file(error, path))?;
        options = options.with_importance(Arc::new(importance));
    }
    Ok(options)
}

/// Adds the path to the error of a file given by an option.
fn in_file(error: AnamnesisError, path: &Path) -> Failure {
    let is_placed = error.path().is_some();
    match error {
        AnamnesisError::Io(error) if !is_placed => {
            let error = std::io::Error::new(error.kind(), format!("{}: {error}", path.display()));
            open::advise(AnamnesisError::Io(error), path)
        }
        AnamnesisError::Parse { reason } => {
            AnamnesisError::Parse { reason: format!("{}: {reason}", shown(path)) }.into()
        }
        error => error.into(),
    }
}

/// The given target, or that of the output's extension.
fn target(args: &ConvertArgs) -> Result<ConvertTarget, Failure> {
    let named = || args.write.output.as_deref().and_then(output_path::target_of);
    match &args.to {
        Some(text) => to::target(text),
        None => named().ok_or_else(|| {
            let files = ConvertTarget::all().filter(|target| !target.is_quantized()).map(ConvertTarget::name);
            let files: Vec<_> = files.collect();
            let files = files.join(", ");
            Failure::Usage(format!("--to is needed unless -o implies it: {files}, or a target listed by amn formats"))
        }),
    }
}

impl Request<'_> {
    pub(super) fn run(&self, printer: &Printer) -> Result<(), Failure> {
        prepare_output(self.write, self.target, printer)?;
        if let Some(components) = components::of(self.input)? {
            return self.convert_components(&components, printer);
        }
        let checkpoint = open::checkpoint(self.input, printer)?;
        self.convert(&checkpoint, printer)
    }

    /// Converts every component of a directory of several models.
    fn convert_components(&self, components: &Components, printer: &Printer) -> Result<(), Failure> {
        if self.target.extension() != "safetensors" || self.target == ConvertTarget::Hf {
            let (input, names) = (shown(&self.input.path), open::component_names(components));
            let text =
                format!("{input} has several models, which a {} file cannot hold; name one of {names}", self.target);
            return Err(Failure::Usage(text));
        }
        let suffix = self.suffix();
        let (command, input, write) = (self.command, self.input, self.write);
        let must_quantise = self.target.is_quantized() && !self.allow_empty;
        let writing = components::Writing { command, components, input, write, suffix: &suffix, must_quantise };
        let plan = |input: &InputArgs| {
            let checkpoint = open::checkpoint(input, printer)?;
            let cut = write.directory_options();
            let plan = checkpoint.plan_convert_directory(self.target, &self.options, &cut);
            Ok(plan.map_err(|error| self.advise(error, &checkpoint))?.stats())
        };
        let run = |input: &InputArgs, write: &WriteArgs| {
            let options = self.options.clone();
            // A component without weights to quantise, such as a VAE, is copied.
            let one = Request { input, write, options, allow_empty: true, fit: None, ..*self };
            one.convert_directory(&open::checkpoint(input, printer)?, printer)
        };
        writing.run(plan, run, printer)
    }

    /// Converts an open checkpoint.
    pub(super) fn convert(&self, checkpoint: &Checkpoint, printer: &Printer) -> Result<(), Failure> {
        if becomes_directory(checkpoint, self.write, self.target) {
            return printer.document(self.command, self.convert_directory(checkpoint, printer)?);
        }
        refuse_directory_options(self.write, "this conversion writes one file")?;
        self.convert_file(checkpoint, printer)
    }

    /// Adds advice to the error of a conversion that cannot be planned.
    pub(super) fn advise(&self, error: AnamnesisError, checkpoint: &Checkpoint) -> Failure {
        let advice = match &error {
            AnamnesisError::UnsupportedModel { part: ModelPart::PreTokenizer, .. } => {
                Some("--gguf-kv tokenizer.ggml.pre=NAME sets it".to_owned())
            }
            AnamnesisError::UnsupportedModel { part: ModelPart::Base, .. } => {
                Some("--base DIR names its directory; --keep-names writes the tensors as they are".to_owned())
            }
            AnamnesisError::UnsupportedModel { part: ModelPart::Target, .. } => {
                Some("--target-model-dir DIR names it; --keep-names writes the tensors as they are".to_owned())
            }
            AnamnesisError::UnsupportedModel { part: ModelPart::Class | ModelPart::Architecture, .. }
                if self.target.extension() == ConvertTarget::Gguf.extension()
                    && !self.options.projector
                    && !self.with_projector =>
            {
                Some("--keep-names writes the file anyway, but llama.cpp will not load it".to_owned())
            }
            error if self.target.cannot_hold(error) => Some("--exclude omits tensors".to_owned()),
            AnamnesisError::Request(anamnesis::Request::Indivisible { .. }) => {
                let keep = if self.command == "forget" { "--exclude" } else { "--keep" };
                Some(format!("{keep} keeps them unquantised, --group-size may change the groups"))
            }
            AnamnesisError::Request(anamnesis::Request::Contradiction { .. }) => self.given(),
            _ => return patterns::advise(error, checkpoint),
        };
        Failure::Refused { error, advice }
    }

    /// The given options, some of which contradict one another.
    fn given(&self) -> Option<String> {
        let given: Vec<_> = self.quantize.given_options().collect();
        (!given.is_empty()).then(|| format!("given: --to {} and {}", self.target, given.join(", ")))
    }

    /// Refuses an output without quantised weights.
    fn refuse_empty(&self, stats: ConvertStats, kept: &[(String, Keeping)]) -> Result<(), Failure> {
        if !self.target.is_quantized() || stats.quantized + stats.repacked > 0 || self.allow_empty {
            return Ok(());
        }
        let reasons: Vec<_> = report::reasons(kept).iter().map(|(why, count)| format!("{count} {why}")).collect();
        let why = if reasons.is_empty() { "there are no floats".to_owned() } else { reasons.join(", ") };
        Err(Failure::Nothing(format!("no weight would be quantised ({why}); --allow-empty writes the output anyway")))
    }

    /// The suffix of a default output directory.
    fn suffix(&self) -> String {
        match self.target {
            ConvertTarget::Safetensors => self.dtype().to_ascii_lowercase(),
            other => other.suffix().to_owned(),
        }
    }

    /// The output type of decoded weights.
    fn dtype(&self) -> String {
        self.options.output_dtype.map_or_else(|| "BF16".to_owned(), |dtype| dtype.to_string())
    }

    fn announce(&self, checkpoint: &Checkpoint, output: &Path, printer: &Printer) -> Result<(), Failure> {
        printer.text(format_args!("Converting {} -> {}", shown(&self.input.path), shown(output)))?;
        notes(checkpoint, "  Note: ", printer)
    }
}
