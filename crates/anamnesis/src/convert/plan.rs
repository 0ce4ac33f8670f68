//! A planned conversion: its description, and writing it.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::notes::PlanNote;
use super::options::ConvertOptions;
use super::outline::Outline;
use super::parts::Parts;
use super::plan_input::PlanInput;
use super::split;
use super::stats::{ConvertReport, ConvertStats};
use super::target::ConvertTarget;
use super::write::{to_bytes, write_files};
use crate::architecture::Architecture;
use crate::catalog::Dtype;
use crate::checkpoint::Checkpoint;
use crate::error::{Request, Result};
use crate::io::record;
use crate::pipeline::{
    self, Distance, Job, Origin, PlacedTensor, Plan, Progress, RememberOptions, SpoolSink, StreamSink, Work,
};
use crate::scheme::Keeping;

impl Checkpoint {
    /// Plans a conversion into one file, or into several if a GGUF model is split. Nothing is written yet; tensors that
    /// cannot be converted are refused here.
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
    /// `Parse` or `Unsupported`, naming the tensors that cannot be converted; `Io` if the input cannot be read.
    pub fn plan_convert(&self, target: ConvertTarget, options: &ConvertOptions) -> Result<ConvertPlan> {
        let Outline { planned, metadata, configuration, stats, kept, mut notes, architecture, .. } =
            self.outline(target, options)?;
        let is_told = target.encoding().is_none_or(|encoding| !encoding.quantiser.needs_configuration());
        if !is_told && !configuration.is_empty() {
            notes.push(PlanNote::NeedsConfiguration);
        }
        match self.sidecar_count()? {
            _ if architecture.is_some() => {}
            0 => {}
            count => notes.push(PlanNote::SidecarsLeftOut { count }),
        }
        let plans = split::lay_out(planned, options.split, options.container(target)?, metadata)?;
        let input = PlanInput::of(self);
        let configuration = configuration.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Ok(ConvertPlan {
            input,
            target,
            plans,
            stats,
            kept,
            notes,
            architecture,
            configuration,
            run: options.run.clone(),
        })
    }
}

/// A planned conversion: all sizes are known, nothing is written yet. It does not borrow from its checkpoint.
pub struct ConvertPlan {
    input: PlanInput,
    target: ConvertTarget,
    /// One per output file.
    plans: Vec<Plan>,
    stats: ConvertStats,
    kept: Vec<(String, Keeping)>,
    notes: Vec<PlanNote>,
    architecture: Option<&'static Architecture>,
    /// The members of a `config.json` that describe the quantisation.
    configuration: serde_json::Map<String, Value>,
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
    /// Index of its output file.
    pub file: usize,
    /// Description of the scheme it is decoded from; `None` if it is copied.
    pub scheme: Option<String>,
    /// Description of the scheme the values are encoded to, or of the type they are cast from; `None` if they are only
    /// decoded or copied.
    pub encoding: Option<String>,
    /// The stored tensors it is made of.
    pub sources: Vec<String>,
}

impl ConvertPlan {
    /// The plans of the output files, and the input they read.
    pub(super) fn into_plans(self) -> (PlanInput, Vec<Plan>) {
        (self.input, self.plans)
    }

    /// Size of the output in bytes, over all its files.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.plans.iter().map(|plan| plan.total_bytes).sum()
    }

    /// The output files with their sizes: `output` itself, or the parts it is split into.
    pub fn files(&self, output: impl AsRef<Path>) -> impl ExactSizeIterator<Item = (PathBuf, u64)> {
        let names = split::names(output.as_ref(), self.plans.len());
        names.into_iter().zip(&self.plans).map(|(name, plan)| (name, plan.total_bytes))
    }

    /// The options of the run.
    #[must_use]
    pub const fn run(&self) -> &RememberOptions {
        &self.run
    }

    /// Number of tensors by operation.
    #[must_use]
    pub const fn stats(&self) -> ConvertStats {
        self.stats
    }

    /// Weights that could be quantised but stay unquantised, each with the reason.
    #[must_use]
    pub fn kept(&self) -> &[(String, Keeping)] {
        &self.kept
    }

    /// The architecture whose names and keys the output has, if a checkpoint is converted to GGUF for llama.cpp.
    #[must_use]
    pub const fn architecture(&self) -> Option<&'static Architecture> {
        self.architecture
    }

    /// The quantisation members of the output's `config.json`, as JSON for
    /// [`OpenOptions::with_config`](crate::OpenOptions::with_config); `None` if the file describes itself or nothing is
    /// quantised.
    #[must_use]
    pub fn configuration(&self) -> Option<String> {
        let is_any = !self.configuration.is_empty();
        is_any.then(|| Value::Object(self.configuration.clone()).to_string())
    }

    /// Remarks on the planned output, such as metadata that is dropped.
    #[must_use]
    pub fn notes(&self) -> &[PlanNote] {
        &self.notes
    }

    /// Every output tensor, in order of offset.
    pub fn tensors(&self) -> impl Iterator<Item = PlannedOutput> {
        self.plans.iter().enumerate().flat_map(move |(file, plan)| {
            let mut tensors: Vec<_> = plan.tensors().collect();
            tensors.sort_by_key(|(_, placed)| placed.offset);
            tensors.into_iter().map(move |(job, placed)| describe(&self.input, file, job, placed))
        })
    }

    /// Writes the output file, or the files it is split into, which appear complete or not at all. `watch` is called on
    /// the calling thread as bytes are written.
    ///
    /// Split files are completed in a [folder beside the output](Self::unfinished), from which the same call resumes
    /// after an interruption.
    ///
    /// # Errors
    /// `Io` if a file cannot be read or written or the output is one of the inputs, `Parse` if a value cannot be
    /// quantised, `Cancelled` if the run is cancelled. The output path is then as it was before.
    pub fn write(&self, output: impl AsRef<Path>, mut watch: impl FnMut(&Progress)) -> Result<ConvertReport> {
        let output = output.as_ref();
        let runs = self.write_as(output, &self.run, &mut watch)?;
        if let Some(parts) = Parts::of(output, &self.plans, &self.input) {
            record::exclude(&parts.folder());
        }
        self.files(output).for_each(|(path, _)| record::output(&path));
        let kept = self.files(output).zip(&runs).filter(|(_, run)| run.is_none());
        let kept = kept.map(|((path, _), _)| path).collect();
        let runs: Vec<_> = runs.into_iter().map(Option::unwrap_or_default).collect();
        Ok(ConvertReport { kept, ..self.report(&runs) })
    }

    /// The folder with the finished files of an interrupted run that splits its output, if there is one.
    #[must_use]
    pub fn unfinished(&self, output: impl AsRef<Path>) -> Option<PathBuf> {
        let folder = Parts::of(output.as_ref(), &self.plans, &self.input)?.folder();
        folder.is_dir().then_some(folder)
    }

    /// [`write`](Self::write) with other run options. The measurements of a file that an earlier run finished are `None`.
    pub(crate) fn write_as(
        &self,
        output: &Path,
        run: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Vec<Option<Vec<Distance>>>> {
        if let Some(parts) = Parts::of(output, &self.plans, &self.input) {
            return parts.write(self.target, run, watch);
        }
        let files: Vec<_> = self.plans.iter().zip(split::names(output, self.plans.len())).collect();
        Ok(write_files(&files, &self.input.sources, run, watch)?.into_iter().map(Some).collect())
    }

    /// Writes the output to a writer sequentially: a socket, a pipe, a compressor. If the format or the target does not
    /// allow that, a temporary file is written first. Bytes written before an error stay written.
    ///
    /// # Errors
    /// As [`write`](Self::write), and `Request` if the output is split into several files.
    pub fn write_to<W: Write + Send>(&self, mut writer: W, mut watch: impl FnMut(&Progress)) -> Result<ConvertReport> {
        let (sources, options) = (&self.input.sources, &self.run);
        let plan = self.only_file()?;
        let distances = match StreamSink::new(plan, &mut writer, &options.cancel_token()) {
            Some(sink) => pipeline::run(plan, sources, &sink, options, &mut watch)?,
            None => {
                let spool = SpoolSink::new(plan.total_bytes)?;
                let distances = pipeline::run(plan, sources, &spool, options, &mut watch)?;
                spool.copy_to(&mut writer)?;
                distances
            }
        };
        Ok(self.report(&[distances]))
    }

    /// The output file in memory.
    ///
    /// # Errors
    /// As [`write_to`](Self::write_to), and `LimitExceeded` if the output exceeds the limits that the checkpoint
    /// was opened with.
    pub fn to_bytes(&self, mut watch: impl FnMut(&Progress)) -> Result<(Vec<u8>, ConvertReport)> {
        let (bytes, distances) = self.bytes_as(&self.run, &mut watch)?;
        Ok((bytes, self.report(&[distances])))
    }

    /// [`to_bytes`](Self::to_bytes) with other run options.
    pub(crate) fn bytes_as(
        &self,
        run: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<(Vec<u8>, Vec<Distance>)> {
        to_bytes(self.only_file()?, &self.input.sources, &self.input.limits, run, watch)
    }

    /// The plan of the output file, if there is only one.
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

/// The public description of a planned tensor.
pub(crate) fn describe(input: &PlanInput, file: usize, job: &Job, placed: &PlacedTensor) -> PlannedOutput {
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
