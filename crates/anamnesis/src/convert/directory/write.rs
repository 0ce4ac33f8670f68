//! Writing a planned directory.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::shards::index_name;
use super::sidecars::SidecarFate;
use super::{DirectoryPlan, Part, Shard};
use crate::checkpoint::read_sidecar;
use crate::convert::resumable::{self, Entry, is_done, is_file, is_vacant, manifest};
use crate::convert::stats::{ConvertReport, QuantizationError};
use crate::error::{AnamnesisError, Result};
use crate::io::output::{PendingFile, same_file};
use crate::io::{Existing, is_mounted, open_file, record};
use crate::pipeline::{Distance, Plan, Progress, RememberOptions};

/// The result of writing a directory.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct DirectoryReport {
    /// Weight files written by this run.
    pub written: Vec<String>,
    /// Weight files finished by an earlier run of the same conversion.
    pub kept: Vec<String>,
    /// The quantisation error of every weight quantised by this run, if measured.
    pub errors: Vec<QuantizationError>,
    /// NaN and infinite values that this run replaced by finite values before quantising.
    pub replaced: u64,
    /// Finite values that overflowed to infinity in the output of this run: the largest F16 value is 65504.
    pub overflowed: u64,
}

/// The state of an output directory before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputState {
    /// It does not exist, or is empty.
    Nothing,
    /// It has an unfinished conversion.
    Begun,
    /// It has files, but no unfinished conversion.
    Foreign,
}

impl DirectoryPlan {
    /// The state of the output directory before it is written.
    #[must_use]
    pub fn state_of(&self, output: impl AsRef<Path>) -> OutputState {
        let output = output.as_ref();
        match is_vacant(output) {
            _ if is_file(&output.join(manifest::FILE)) || output.join(manifest::STAGE).is_dir() => OutputState::Begun,
            Ok(false) => OutputState::Foreign,
            _ => OutputState::Nothing,
        }
    }

    /// Total size of the weight files that this run writes: all of them, or those of its part.
    #[must_use]
    pub fn bytes_of_run(&self) -> u64 {
        self.shards_of_run().map(|shard| shard.plan.total_bytes).sum()
    }

    /// For each weight file in order, whether this run writes it: all of them, or those of its part.
    #[must_use]
    pub fn shard_mask(&self) -> Vec<bool> {
        let sizes: Vec<_> = self.shards().map(|(_, bytes)| bytes).collect();
        self.options.part.map_or_else(|| vec![true; sizes.len()], |part| part.of(&sizes))
    }

    pub(super) fn shards_of_run(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().zip(self.shard_mask()).filter(|(_, mine)| *mine).map(|(shard, _)| shard)
    }

    /// Whether this run writes the sidecars.
    pub(super) fn writes_sidecars(&self) -> bool {
        self.options.part.is_none_or(Part::is_first)
    }

    /// Writes the directory, or resumes one that the same conversion has begun. Files to be replaced stay until the
    /// output is complete. `watch` is called on the calling thread.
    ///
    /// # Errors
    /// `Io` if a file cannot be read or written, the directory is not empty, another process is writing to it, or the
    /// disk is too small; `OtherPlan` if another conversion has begun the directory; `Cancelled`. Finished files stay,
    /// so that the same call can resume, unless the input itself is at fault.
    pub fn write(
        &self,
        output: impl AsRef<Path>,
        options: &RememberOptions,
        mut watch: impl FnMut(&Progress),
    ) -> Result<DirectoryReport> {
        let output = output.as_ref();
        if self.directory.as_ref().is_some_and(|directory| same_file(directory, output)) {
            let error = std::io::Error::new(ErrorKind::InvalidInput, "the output is the input itself");
            return Err(AnamnesisError::at_path(error, output));
        }
        let report = self.write_or_resume(output, options, &mut watch)?;
        record::exclude(output);
        self.file_names().for_each(|name| record::output(&output.join(name)));
        Ok(report)
    }

    fn write_or_resume(
        &self,
        output: &Path,
        options: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<DirectoryReport> {
        let manifest = self.manifest()?;
        if options.existing == Existing::Replace && !is_vacant(output)? {
            if is_mounted(output) {
                let why = "has objects, and a folder of a store is not replaced";
                return Err(AnamnesisError::at_path(std::io::Error::new(ErrorKind::Unsupported, why), output));
            }
            return self.replace(output, &manifest, options, watch);
        }
        match Entry::begin(output, &manifest, self.options.part.is_some())? {
            Some(entry) => match self.write_missing(output, options, watch) {
                Ok(report) => {
                    if self.options.part.is_none() || self.is_complete(output) {
                        entry.finish(output)?;
                    }
                    Ok(report)
                }
                Err(error) => Err(entry.abandon(self.shard_names(), output, error)),
            },
            None => match self.already_written(output, options, watch)? {
                Some(report) => Ok(report),
                None => {
                    let error = std::io::Error::new(ErrorKind::AlreadyExists, "is not empty");
                    Err(AnamnesisError::at_path(error, output))
                }
            },
        }
    }

    /// Writes the missing files into a directory that this run has locked.
    pub(super) fn write_missing(
        &self,
        output: &Path,
        options: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<DirectoryReport> {
        let files: Vec<_> = self.shards_of_run().map(Shard::named_plan).collect();
        let runs = resumable::write_missing(output, &files, &self.input.sources, options, watch)?;
        let mut report = DirectoryReport::default();
        let mut done = Vec::new();
        for ((name, plan), run) in files.into_iter().zip(&runs) {
            let Some(distances) = run else {
                report.kept.push(name.to_owned());
                continue;
            };
            report.written.push(name.to_owned());
            done.push((plan, &distances[..]));
        }
        report.record(&done);
        if self.writes_sidecars() {
            self.write_sidecars(output)?;
        }
        Ok(report)
    }

    pub(super) fn shard_names(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().map(|shard| shard.name.as_str())
    }

    /// The manifest of this plan.
    fn manifest(&self) -> Result<Value> {
        let files: Vec<_> = self.shards.iter().map(Shard::named_plan).collect();
        manifest::of(&manifest::Contents {
            target: self.target,
            dtype: self.dtype,
            inputs: &self.files,
            sources: &self.input.sources,
            files: &files,
            sidecars: &self.generated_sidecars()?,
        })
    }

    /// Whether every output file exists, including those of other parts.
    fn is_complete(&self, output: &Path) -> bool {
        self.shards.iter().all(|shard| is_done(&shard.plan, &output.join(&shard.name)))
            && self.file_names().all(|name| is_file(&output.join(name)))
    }

    /// The names of all output files, those of other parts included.
    fn file_names(&self) -> impl Iterator<Item = String> {
        let sidecars = self.sidecars.iter().filter(|sidecar| !matches!(sidecar.fate, SidecarFate::Dropped(_)));
        let shards = self.shards.iter().map(|shard| shard.name.clone());
        let index = self.index.iter().map(|_| index_name(self.base));
        shards.chain(sidecars.map(|sidecar| sidecar.name.clone())).chain(index)
    }

    /// The generated sidecars, by name: the index, new files and edited configurations.
    pub(super) fn generated_sidecars(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut texts: Vec<_> = self.index.iter().map(|index| (index_name(self.base), index.clone())).collect();
        texts.extend(self.generated.iter().cloned());
        let Some(directory) = &self.directory else { return Ok(texts) };
        for sidecar in self.sidecars.iter().filter(|sidecar| matches!(sidecar.fate, SidecarFate::Changed { .. })) {
            let text = read_sidecar(directory, &sidecar.name)?;
            texts.push((sidecar.name.clone(), self.config.apply(&sidecar.name, &text)?.text));
        }
        Ok(texts)
    }

    /// Writes the index and the configuration, and copies the other sidecars.
    fn write_sidecars(&self, output: &Path) -> Result<()> {
        for (name, text) in self.generated_sidecars()? {
            write_whole(&output.join(name), &text)?;
        }
        let Some(directory) = &self.directory else { return Ok(()) };
        for sidecar in self.sidecars.iter().filter(|sidecar| sidecar.fate == SidecarFate::Copied) {
            copy(directory, output, &sidecar.name)?;
        }
        Ok(())
    }
}

impl DirectoryReport {
    /// Sets errors and counts from the measurements of weight files.
    pub(super) fn record(&mut self, done: &[(&Plan, &[Distance])]) {
        let run = ConvertReport::of(done);
        self.errors = run.errors;
        self.replaced = run.replaced;
        self.overflowed = run.overflowed;
    }
}

fn write_whole(target: &Path, text: &[u8]) -> Result<()> {
    let file = PendingFile::create(target, Existing::Replace, text.len() as u64)?;
    file.write_at(0, text)?;
    file.commit()
}

/// Copies a file in chunks, so that memory does not depend on its size.
pub(in crate::convert) fn copy(from: &Path, to: &Path, name: &str) -> Result<()> {
    let source = open_file(&from.join(name))?;
    let bytes = source.len();
    let file = PendingFile::create(&to.join(name), Existing::Replace, bytes)?;
    let mut buffer = vec![0; (1 << 20).min(bytes as usize)];
    let mut offset = 0;
    while offset < bytes {
        let piece = buffer.len().min((bytes - offset) as usize);
        source.read_at(offset, &mut buffer[..piece])?;
        file.write_at(offset, &buffer[..piece])?;
        offset += piece as u64;
    }
    file.commit()
}
