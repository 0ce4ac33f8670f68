//! Running plans: into files that appear together or not at all, and into memory.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{AnamnesisError, Result};
use crate::io::output::{CompleteFile, PendingFile, check_space, check_target, same_file};
use crate::io::transaction::commit_together;
use crate::io::{Existing, Source, is_mounted};
use crate::limits::{Budget, ParseLimits};
use crate::pipeline::{
    self, Distance, FileSink, Job, MemorySink, Output, Plan, Progress, RememberOptions, TileSink, UnnamedFileSink,
};

/// [`write_files`] for a single file.
pub(crate) fn write_file(
    plan: &Plan,
    sources: &[Box<dyn Source>],
    output: &Path,
    options: &RememberOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Vec<Distance>> {
    let files = [(plan, output.to_path_buf())];
    Ok(write_files(&files, sources, options, watch)?.pop().unwrap_or_default())
}

/// Writes plans to files, none of which may be one of the inputs. The files are renamed into place in one transaction
/// once all are complete.
pub(super) fn write_files(
    files: &[(&Plan, PathBuf)],
    sources: &[Box<dyn Source>],
    options: &RememberOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Vec<Vec<Distance>>> {
    refuse_inputs(files.iter().map(|(_, output)| output.as_path()), sources)?;
    for (_, output) in files {
        // A store cannot replace several files at once.
        let is_set = files.len() > 1 && is_mounted(output);
        check_target(output, if is_set { Existing::Refuse } else { options.existing })?;
    }
    if let Some((_, first)) = files.first() {
        check_space(first, files.iter().fold(0, |sum, (plan, _)| sum.saturating_add(plan.total_bytes)))?;
    }
    let complete: Mutex<Vec<(usize, CompleteFile)>> = Mutex::new(Vec::new());
    let keep = |number: usize, file| complete.lock().unwrap_or_else(PoisonError::into_inner).push((number, file));
    let begin = |number: usize| -> Result<Box<dyn TileSink + '_>> {
        let (plan, output) = &files[number];
        let file = PendingFile::create(output, options.existing, plan.total_bytes)?;
        file.skip(&plan.gaps())?;
        Ok(Box::new(UnnamedFileSink::new(FileSink::new(file), move |file| keep(number, file))))
    };
    let begin = &begin;
    let mut outputs = Vec::with_capacity(files.len());
    for (number, (plan, _)) in files.iter().enumerate() {
        outputs.push(Output { plan, begin: Box::new(move || begin(number)) });
    }
    let distances = pipeline::run_all(&outputs, sources, options, watch)?;
    drop(outputs);
    let mut complete = complete.into_inner().unwrap_or_else(PoisonError::into_inner);
    complete.sort_by_key(|(number, _)| *number);
    commit_together(complete.into_iter().map(|(_, file)| file).collect())?;
    Ok(distances)
}

/// Refuses an output that is one of the inputs.
pub(super) fn refuse_inputs<'a>(
    mut outputs: impl Iterator<Item = &'a Path>,
    sources: &[Box<dyn Source>],
) -> Result<()> {
    let is_input =
        |output: &&Path| sources.iter().flat_map(|source| source.paths()).any(|path| same_file(path, output));
    let Some(output) = outputs.find(is_input) else { return Ok(()) };
    let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "the output is the input itself");
    Err(AnamnesisError::at_path(error, output))
}

/// Runs a plan into memory, within limits.
pub(crate) fn to_bytes(
    plan: &Plan,
    sources: &[Box<dyn Source>],
    limits: &ParseLimits,
    options: &RememberOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<(Vec<u8>, Vec<Distance>)> {
    // The size of the tensors depends on the input; the header is no larger than the input's own.
    Budget::new(limits).buffer(plan.jobs.iter().map(Job::bytes).sum(), "the output")?;
    let bytes = usize::try_from(plan.total_bytes)
        .map_err(|_| AnamnesisError::limit("available_memory", format!("{} bytes", plan.total_bytes)))?;
    let sink = MemorySink::new(bytes)?;
    let distances = pipeline::run(plan, sources, &sink, options, watch)?;
    Ok((sink.into_bytes(), distances))
}
