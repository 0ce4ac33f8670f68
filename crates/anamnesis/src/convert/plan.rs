//! A planned conversion: what it will write, and the writing of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::drafts::{Instead, Outputs, Quantise, fit};
use super::mapped::MappedOutputs;
use super::options::{Cast, ConvertOptions};
use super::outputs::{Asked, plan_outputs};
use super::split::{self, Split};
use super::stats::{ConvertReport, ConvertStats};
use super::target::ConvertTarget;
use super::write::{to_bytes, write_files};
use crate::architecture::Architecture;
use crate::catalog::{Catalog, Dtype, Metadata, MetadataValue, Rounding, Selection, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::container::{Format, OutputTensor};
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::io::Source;
use crate::limits::ParseLimits;
use crate::pipeline::{
    self, Checks, Distance, Job, Origin, Placed, Plan, Planned, Progress, RememberOptions, SpoolSink, StreamSink, Work,
};
use crate::scheme::ggml::in_order;
use crate::scheme::{Keeping, Leftover, Made};

/// What the metadata of a file says whose numbers were not simply rounded once: the key and its value.
const ARITHMETIC: (&str, &str) = ("arithmetic", "reference");

impl Checkpoint {
    /// Plans a conversion into one file, or into several where a GGUF model is split. Nothing is written yet, and whatever cannot be converted is refused here.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ConvertOptions, ConvertTarget, ParseLimits};
    /// let checkpoint = Checkpoint::open("model.safetensors", &ParseLimits::default())?;
    /// let plan = checkpoint.plan_convert(ConvertTarget::Gguf, &ConvertOptions::new())?;
    /// println!("{} bytes", plan.total_bytes());
    /// plan.write("model.gguf", |_| {})?;
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Parse` or `Unsupported`, naming the tensors that cannot be converted; `Io` where the input cannot be read.
    pub fn plan_convert(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<ConvertPlan> {
        let Outline { planned, metadata, configuration, stats, kept, mut notes, architecture, .. } =
            self.outline(target, options)?;
        let is_told = target.encoding().is_none_or(|encoding| !encoding.quantiser.needs_configuration());
        if !is_told && !configuration.is_empty() {
            let needed = "loaders need a config.json beside it that tells of the quantisation";
            notes.push(format!("{needed}; the output of a directory has one"));
        }
        match self.files_beside()? {
            _ if architecture.is_some() => {}
            0 => {}
            1 => notes.push("one file beside the weights is not part of the output".to_owned()),
            many => notes.push(format!("{many} files beside the weights are not part of the output")),
        }
        let plans = split::lay_out(planned, options.split, target.container()?, metadata)?;
        let input = PlanInput::of(self);
        Ok(ConvertPlan { input, plans, stats, kept, notes, architecture, run: options.run() })
    }

    /// The tensors and the metadata of an output, without their places.
    pub(crate) fn outline(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<Outline> {
        if target == ConvertTarget::Hf {
            return Err(AnamnesisError::unsupported(target.name(), "it is written as a directory, not as one file"));
        }
        let container = target.container()?;
        self.check_split(target, options.split)?;
        let cast_all = options.cast == Cast::All;
        let encoding = target.encoding();
        match encoding {
            None => {
                options.quantise.check_unused(target.name())?;
                options.rules.check_unused(target.name())?;
            }
            Some(encoding) => options.rules.check_mixes(encoding)?,
        }
        let model = self.model_for(target, options)?;
        let of_model = match (encoding, &model) {
            (Some(_), None) => self.all_metadata()?,
            _ => None,
        };
        // A model for llama.cpp has types of its own.
        let dtype = if model.is_some() { None } else { options.target_dtype()? };
        let quantise = encoding.map(|encoding| Quantise {
            encoding,
            options: &options.quantise,
            chosen: &options.quantised,
            rules: &options.rules,
            metadata: of_model.as_ref(),
            checks: Checks { allow_nonfinite: options.allow_nonfinite, measure: options.measure },
            container,
            // As llama.cpp decodes what it quantises again.
            is_exact: dtype.is_none() && target.format() == Format::Gguf,
            keeps_blocks: dtype.is_none() && !cast_all,
            in_stored_order: options.split == Split::AsInput,
        });
        let (outputs, told_of_model, notes_of_model) = match &model {
            Some(model) => {
                let MappedOutputs { outputs, told, notes } = model.outputs(options, quantise)?;
                (outputs, Some(told.into_parts().0), notes)
            }
            None => {
                let asked = Asked {
                    dtype: dtype.unwrap_or_default(),
                    keeps_blocks: (encoding.is_none() && dtype.is_none() && !cast_all).then_some(container),
                    cast_all,
                    selection: &options.selection,
                    quantise,
                };
                (plan_outputs(&self.catalog, &self.sources, self.claimed(), &asked)?, None, Vec::new())
            }
        };
        let is_mapped = model.is_some();
        let Outputs { mut planned, mut stats, kept, instead, requantised, repacked, encoded_dtype, others, renamed } =
            outputs;
        let made = encoding.map(|encoding| {
            let encoded = planned.iter().filter(|planned| matches!(planned.work, Work::Encode { .. }));
            let made = Made {
                options: &options.quantise,
                quantised: encoded
                    .filter_map(|planned| Some(planned.outputs.first()?.name.as_str()))
                    .chain(repacked.iter().map(String::as_str))
                    .collect(),
                others: others.iter().map(|(name, encoding)| (name.as_str(), *encoding)).collect(),
                kept: kept.iter().map(|kept| (kept.output_name.as_str(), kept.why)).collect(),
                dtype: encoded_dtype.unwrap_or_default(),
            };
            let configuration = encoding.quantiser.configuration(&made).into_iter();
            let members = configuration
                .flat_map(|told| encoding.quantiser.members().iter().map(move |&name| (name, told.clone())));
            (members.collect::<Vec<_>>(), encoding.quantiser.metadata(&made), encoding.quantiser.documents(&made))
        });
        let (configuration, told, documents) = made.unwrap_or_default();
        let kept = kept.into_iter().map(|kept| (kept.name, kept.why)).collect();
        let reshaped = fit(&mut planned, container, target.extension())?;
        if !is_mapped {
            // The input's own order: what was together stays together, and reading goes from front to back.
            planned.sort_by_key(Planned::source);
        }
        let (mut metadata, dropped) = self.metadata_for(target, options, told_of_model)?;
        if !told.is_empty() {
            let mut all = metadata.unwrap_or_default();
            let is_of_llama_cpp = is_mapped || self.format() == Format::Gguf;
            if target.is_quantized() && target.format() == Format::Gguf && is_of_llama_cpp {
                // As llama.cpp has it: tensors by layer unless they stay where they are, keys as they are, what is new
                // behind them.
                if options.split != Split::AsInput {
                    planned.sort_by(|a, b| in_order(first_name(a)).cmp(&in_order(first_name(b))));
                }
                // Dimensions in front that are 1 are none to ggml.
                for output in planned.iter_mut().flat_map(|planned| &mut planned.outputs) {
                    let ones = output.shape.iter().take_while(|size| **size == 1).count();
                    output.shape.drain(..ones.min(output.shape.len().saturating_sub(1)));
                }
                let new: Vec<String> = told.written().map(|(key, _)| key.to_owned()).collect();
                let old: Vec<String> = match is_mapped {
                    true => all.written().map(|(key, _)| key.to_owned()).collect(),
                    false => self.metadata()?.into_iter().map(|(key, _)| key).collect(),
                };
                let old = old.into_iter().filter(|key| !new.contains(key));
                let order = old.chain(new.iter().cloned()).collect();
                all = all.in_order(order);
            }
            all.extend(told);
            metadata = Some(all);
        }
        stats.dropped_metadata = dropped;
        let mut notes = self.claimed().notes.clone();
        notes.extend(unclaimed_notes(self.unclaimed(), &options.selection));
        notes.extend(notes_of_model);
        notes.extend(instead_notes(&instead));
        match requantised {
            0 => {}
            1 => notes.push("one weight was quantized already: it is decoded first, and loses twice".to_owned()),
            many => {
                notes.push(format!("{many} weights were quantized already: they are decoded first, and lose twice"))
            }
        }
        match reshaped {
            0 => {}
            1 => notes.push("a scalar tensor is written with the shape [1]".to_owned()),
            many => notes.push(format!("{many} scalar tensors are written with the shape [1]")),
        }
        match dropped {
            0 => {}
            1 => notes.push("one metadata entry of the input is not kept".to_owned()),
            many => notes.push(format!("{many} metadata entries of the input are not kept")),
        }
        match stats.left_out {
            0 => {}
            1 => notes.push("one tensor of the input is left out by the selection".to_owned()),
            many => notes.push(format!("{many} tensors of the input are left out by the selection")),
        }
        if let Some([before, after]) = renamed.first() {
            let (before, after) = (quoted(before), quoted(after));
            notes.push(match renamed.len() {
                1 => format!("{before} is written as {after}, by which loaders find its scales"),
                many => {
                    format!(
                        "{many} weights get names by which loaders find their scales: {before} is written as {after}"
                    )
                }
            });
        }
        if target == ConvertTarget::Gguf {
            notes.extend(beyond_llama_cpp(&planned));
            if !metadata.as_ref().is_some_and(|metadata| metadata.contains_key("general.architecture")) {
                notes.push("llama.cpp will not load the output: it has no general.architecture".to_owned());
            }
        }
        let architecture = model.map(|model| model.architecture());
        Ok(Outline { planned, metadata, configuration, documents, stats, kept, notes, architecture })
    }

    /// Refuses to cut what cannot be cut.
    fn check_split(&self, target: ConvertTarget, split: Split) -> Result<()> {
        let refuse = |why: &str| {
            let (what, why) = ("an output of several files".to_owned(), why.to_owned());
            Err(AnamnesisError::Request(Request::Contradiction { what, why }))
        };
        match split {
            Split::Whole => Ok(()),
            _ if target.format() != Format::Gguf => refuse("only GGUF models are cut into files like that"),
            Split::AsInput if self.format() != Format::Gguf => refuse("the input is no GGUF model that was cut"),
            _ => Ok(()),
        }
    }

    /// The metadata of an output, and how many entries of the input's it does not have.
    /// `told` is what its architecture makes of a model.
    fn metadata_for(
        &self,
        target: ConvertTarget,
        options: &ConvertOptions,
        told: Option<Metadata>,
    ) -> Result<(Option<Metadata>, usize)> {
        let in_catalog = self.catalog.metadata.as_ref().map_or(0, |metadata| metadata.len());
        let is_kept = self.format() == target.format();
        let mut dropped = if is_kept || told.is_some() { 0 } else { in_catalog + self.catalog.unread_metadata };
        let mut metadata = match told {
            Some(told) => Some(told),
            None if is_kept => self.all_metadata()?,
            None => None,
        };
        if self.format() == Format::Pth && target.format() == Format::Safetensors {
            // Loaders refuse a safetensors file that does not say which library its tensors are of.
            metadata = Some(Metadata::from([("format".to_owned(), MetadataValue::String("pt".to_owned()))]));
        }
        if self.rounding() == Rounding::AsLibrary && target.format() == Format::Safetensors {
            let all = metadata.get_or_insert_default();
            all.insert(ARITHMETIC.0.to_owned(), MetadataValue::String(ARITHMETIC.1.to_owned()));
        }
        if target.format() == Format::Gguf {
            let all = metadata.get_or_insert_default();
            // These describe how the input's bytes lie, not the model.
            if !target.is_quantized() {
                all.remove("general.alignment");
            }
            if self.file_count() > 1 {
                all.retain(|key, _| !key.starts_with("split."));
            }
            // What it says of the weights' type is no longer true where they are decoded.
            if !target.is_quantized()
                && let Some(dtype) = self.decoded_gguf_type(options)?
                && let Some(value) = all.get_mut("general.file_type")
            {
                *value = MetadataValue::U32(file_type(dtype));
            }
            for key in &options.gguf_removed {
                let missing = || AnamnesisError::Request(Request::UnknownKey { key: key.clone() });
                all.remove(key).ok_or_else(missing)?;
                dropped += 1;
            }
            all.extend(options.gguf_metadata.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        Ok((metadata, dropped))
    }

    /// The type that the blocks of a GGUF input are decoded to on their way to GGUF; `None` where they stay.
    fn decoded_gguf_type(&self, options: &ConvertOptions) -> Result<Option<TargetDtype>> {
        if self.format() != Format::Gguf {
            return Ok(None);
        }
        let wanted = options.target_dtype()?;
        let is_decoded = wanted.is_some() || options.cast == Cast::All;
        Ok(is_decoded.then(|| wanted.unwrap_or_default()))
    }
}

/// The number by which ggml tells of files whose weights are mostly of a type.
fn file_type(dtype: TargetDtype) -> u32 {
    match dtype {
        TargetDtype::F32 => 0,
        TargetDtype::F16 => 1,
        TargetDtype::BF16 => 32,
    }
}

/// The name of the first tensor that is made.
fn first_name(planned: &Planned) -> &str {
    planned.outputs.first().map_or("", |output| &output.name)
}

/// Tensors that GGUF can hold and llama.cpp cannot read.
fn beyond_llama_cpp(planned: &[Planned]) -> Option<String> {
    let outputs = planned.iter().flat_map(|planned| &planned.outputs);
    let beyond = |output: &&OutputTensor| output.name.len() > 63 || output.shape.len() > 4;
    let count = outputs.filter(beyond).count();
    let more = if count == 1 { "one tensor has more".to_owned() } else { format!("{count} tensors have more") };
    (count > 0).then(|| format!("llama.cpp reads names of up to 63 bytes and 4 dimensions; {more}"))
}

/// Weights named in a note; the rest are counted.
const NAMED_IN_NOTE: usize = 3;

/// Which weights are of another type than they should be, by both types.
fn instead_notes(instead: &[Instead]) -> Vec<String> {
    let mut by_types: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for Instead { name, wanted, made } in instead {
        by_types.entry((made.to_string(), wanted.to_string())).or_default().push(name);
    }
    let note = |((made, wanted), names): ((String, String), Vec<&str>)| {
        let mut listed = names.iter().take(NAMED_IN_NOTE).map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        if names.len() > NAMED_IN_NOTE {
            listed += &format!(" and {} more", names.len() - NAMED_IN_NOTE);
        }
        format!("{made} instead of {wanted}, whose blocks do not divide the rows: {listed}")
    };
    by_types.into_iter().map(note).collect()
}

/// An output before it is laid out.
pub(crate) struct Outline {
    pub planned: Vec<Planned>,
    pub metadata: Option<Metadata>,
    /// The members of the model's configuration that tell of the quantised weights, where there are any.
    pub configuration: Vec<(&'static str, Value)>,
    /// Files beside the weights that tell of them.
    pub documents: Vec<(&'static str, Value)>,
    pub stats: ConvertStats,
    pub kept: Vec<(String, Keeping)>,
    pub notes: Vec<String>,
    /// The architecture whose names and keys the output has.
    pub architecture: Option<&'static Architecture>,
}

/// What a plan needs of its checkpoint, which may be gone when it is run.
pub(crate) struct PlanInput {
    pub sources: Arc<Vec<Box<dyn Source>>>,
    pub limits: ParseLimits,
    catalog: Arc<Catalog>,
}

impl PlanInput {
    pub(crate) fn of(checkpoint: &Checkpoint) -> Self {
        let Checkpoint { sources, catalog, limits, .. } = checkpoint;
        Self { sources: sources.clone(), catalog: catalog.clone(), limits: limits.clone() }
    }
}

/// A conversion that is known to the byte and has not begun. It needs nothing of its checkpoint any more.
pub struct ConvertPlan {
    input: PlanInput,
    /// One for every file.
    plans: Vec<Plan>,
    stats: ConvertStats,
    kept: Vec<(String, Keeping)>,
    notes: Vec<String>,
    architecture: Option<&'static Architecture>,
    run: RememberOptions,
}

/// One tensor that a conversion will write.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PlannedOutput {
    /// Its name in the output.
    pub name: String,
    /// Its type in the output.
    pub dtype: Dtype,
    /// Its shape in the output.
    pub shape: Vec<usize>,
    /// Its size in the output.
    pub bytes: u64,
    /// Its first byte in its file.
    pub offset: u64,
    /// Which of the output's files it is in, from 0.
    pub file: usize,
    /// The scheme it is decoded from, in detail; `None` where it is copied.
    pub scheme: Option<String>,
    /// What is made of the values, in detail: the scheme they are encoded to, or what they are cast from; `None` where they
    /// are only decoded or copied.
    pub encoding: Option<String>,
    /// The stored tensors it is made of.
    pub sources: Vec<String>,
}

impl ConvertPlan {
    /// The plans of its files, and what they are made of.
    pub(super) fn into_plans(self) -> (PlanInput, Vec<Plan>) {
        (self.input, self.plans)
    }

    /// Bytes of the output, in all its files.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.plans.iter().map(|plan| plan.total_bytes).sum()
    }

    /// The files that are written for this output, with their sizes: itself, or the parts it is split into.
    pub fn files(&self, output: impl AsRef<Path>) -> impl ExactSizeIterator<Item = (PathBuf, u64)> {
        let names = split::names(output.as_ref(), self.plans.len());
        names.into_iter().zip(&self.plans).map(|(name, plan)| (name, plan.total_bytes))
    }

    /// How the conversion runs.
    #[must_use]
    pub const fn run(&self) -> &RememberOptions {
        &self.run
    }

    /// What is done with how many tensors.
    #[must_use]
    pub const fn stats(&self) -> ConvertStats {
        self.stats
    }

    /// The weights that could be quantised and are not, and why.
    #[must_use]
    pub fn kept(&self) -> &[(String, Keeping)] {
        &self.kept
    }

    /// The architecture whose names and keys the output has, where a checkpoint becomes GGUF for llama.cpp.
    #[must_use]
    pub const fn architecture(&self) -> Option<&'static Architecture> {
        self.architecture
    }

    /// What the output does not have of the input, for people.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Every tensor of the output, in the order of its bytes.
    pub fn tensors(&self) -> impl Iterator<Item = PlannedOutput> {
        self.plans.iter().enumerate().flat_map(move |(file, plan)| {
            let mut tensors: Vec<_> = plan.tensors().collect();
            tensors.sort_by_key(|(_, placed)| placed.offset);
            tensors.into_iter().map(move |(job, placed)| describe(&self.input, file, job, placed))
        })
    }

    /// Writes the output file, or the files it is split into, which appear complete or not at all. `watch` is called on this thread as bytes are done.
    ///
    /// # Errors
    /// `Io` where a file cannot be read or written or the output is one of the inputs, `Parse` where a value cannot be
    /// quantised, `Cancelled` where the caller asked for it. The output is then as it was before.
    pub fn write(&self, output: impl AsRef<Path>, mut watch: impl FnMut(&Progress)) -> Result<ConvertReport> {
        let distances = self.write_as(output.as_ref(), &self.run, &mut watch)?;
        Ok(self.report(&distances))
    }

    /// [`write`](Self::write), run in another way.
    pub(crate) fn write_as(
        &self,
        output: &Path,
        run: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Vec<Vec<Distance>>> {
        let files: Vec<_> = self.plans.iter().zip(split::names(output, self.plans.len())).collect();
        write_files(&files, &self.input.sources, run, watch)
    }

    /// Writes the output into any writer, from front to back: a socket, a pipe, a compressor. Where the format or the target
    /// does not allow that, a temporary file comes first. What was written before a failure stays written.
    ///
    /// # Errors
    /// As [`write`](Self::write), and `Request` where the output is split into several files.
    pub fn write_to<W: Write + Send>(&self, mut writer: W, mut watch: impl FnMut(&Progress)) -> Result<ConvertReport> {
        let (sources, options) = (&self.input.sources, self.run.run_options());
        let plan = self.only_file()?;
        let distances = match StreamSink::new(plan, &mut writer) {
            Some(sink) => pipeline::run(plan, sources, &sink, &options, &mut watch)?,
            None => {
                let spool = SpoolSink::new(plan.total_bytes)?;
                let distances = pipeline::run(plan, sources, &spool, &options, &mut watch)?;
                spool.copy_to(&mut writer)?;
                distances
            }
        };
        Ok(self.report(&[distances]))
    }

    /// The bytes of the output file, in memory.
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to), and `LimitExceeded` where the output is larger than the limits given at opening.
    pub fn to_bytes(&self, mut watch: impl FnMut(&Progress)) -> Result<(Vec<u8>, ConvertReport)> {
        let (bytes, distances) = self.bytes_as(&self.run, &mut watch)?;
        Ok((bytes, self.report(&[distances])))
    }

    /// [`to_bytes`](Self::to_bytes), run in another way.
    pub(crate) fn bytes_as(
        &self,
        run: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<(Vec<u8>, Vec<Distance>)> {
        to_bytes(self.only_file()?, &self.input.sources, &self.input.limits, run, watch)
    }

    /// The plan of the output's file, where it is one.
    fn only_file(&self) -> Result<&Plan> {
        match &self.plans[..] {
            [plan] => Ok(plan),
            plans => {
                let what = format!("an output of {} files", plans.len());
                let why = "it can be written into files only, not into one stream".to_owned();
                Err(Request::Contradiction { what, why }.into())
            }
        }
    }

    fn report(&self, distances: &[Vec<Distance>]) -> ConvertReport {
        let done: Vec<_> = self.plans.iter().zip(distances).map(|(plan, found)| (plan, &found[..])).collect();
        ConvertReport { stats: self.stats, ..ConvertReport::of(&done) }
    }
}

/// A planned tensor for people.
pub(crate) fn describe(input: &PlanInput, file: usize, job: &Job, placed: &Placed) -> PlannedOutput {
    let name = |&id| input.catalog.get(id).name.clone();
    let (scheme, encoding, sources) = match &job.work {
        Work::Copy { source, .. } => (None, None, vec![name(source)]),
        Work::Decode(values) => {
            let sources = values.sources.iter().map(name).collect();
            match values.origin {
                Origin::Quantised => (Some(values.decoder.describe()), None, sources),
                Origin::Plain => (None, Some(format!("cast from {}", values.decoder.describe())), sources),
                Origin::Repacked => (None, Some(values.decoder.describe()), sources),
            }
        }
        Work::Encode { values, encoder, .. } => {
            let scheme = job.work.is_decoded().then(|| values.decoder.describe());
            (scheme, Some(encoder.describe()), values.sources.iter().map(name).collect())
        }
    };
    let output = placed.output.clone();
    PlannedOutput {
        name: output.name,
        dtype: output.dtype,
        shape: output.shape,
        bytes: output.bytes,
        offset: placed.offset,
        file,
        scheme,
        encoding,
        sources,
    }
}

/// What is copied although it looks like a part of a quantised weight: how many tensors, then each.
fn unclaimed_notes(unclaimed: &[Leftover], selection: &Selection) -> Vec<String> {
    let copied: Vec<_> = unclaimed.iter().filter(|tensor| selection.takes(&tensor.name)).collect();
    let count = match copied.len() {
        0 => None,
        1 => Some("one tensor that no scheme claims is plain data in the output".to_owned()),
        many => Some(format!("{many} tensors that no scheme claims are plain data in the output")),
    };
    count.into_iter().chain(copied.iter().map(|tensor| tensor.to_string())).collect()
}
