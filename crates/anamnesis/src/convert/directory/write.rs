//! Writing a planned directory.

use std::io::ErrorKind;
use std::path::Path;

use super::entry::{Entry, is_vacant};
use super::shards::index_name;
use super::sidecars::SidecarFate;
use super::{DirectoryPlan, Part, Shard, manifest};
use crate::checkpoint::read_sidecar;
use crate::convert::stats::{ConvertReport, QuantizationError};
use crate::error::{AnamnesisError, Result};
use crate::io::output::{Existing, PendingFile, check_space, same_file};
use crate::io::{FileSource, Source};
use crate::pipeline::{self, Distance, FileSink, Output, Progress, RememberOptions, TileSink};

/// What a conversion of a directory did.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct DirectoryReport {
    /// Weight files written now.
    pub written: Vec<String>,
    /// Weight files that an earlier run of the same conversion had finished.
    pub kept: Vec<String>,
    /// The error of every weight quantised now, where it was measured.
    pub errors: Vec<QuantizationError>,
    /// Values quantised now that were no numbers.
    pub replaced: u64,
    /// Finite values written now that are infinite in the output, because F16 ends at 65504.
    pub overflowed: u64,
}

/// What is at the place of an output directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputState {
    /// Nothing, or an empty directory.
    Nothing,
    /// A directory that a conversion has begun.
    Begun,
    /// A directory with files, and none that a conversion has begun.
    Foreign,
}

impl DirectoryPlan {
    /// What is at the place of the output before it is written.
    #[must_use]
    pub fn state_of(&self, output: impl AsRef<Path>) -> OutputState {
        let output = output.as_ref();
        match is_vacant(output) {
            _ if output.join(manifest::FILE).is_file() || output.join(manifest::STAGE).is_dir() => OutputState::Begun,
            Ok(false) => OutputState::Foreign,
            _ => OutputState::Nothing,
        }
    }

    /// Bytes of the weight files that this run writes: all of them, or those of its part.
    #[must_use]
    pub fn bytes_of_run(&self) -> u64 {
        self.shards_of_run().map(|shard| shard.plan.total_bytes).sum()
    }

    /// Which of the weight files this run writes, in order: all of them, or those of its part.
    #[must_use]
    pub fn is_of_run(&self) -> Vec<bool> {
        let sizes: Vec<_> = self.shards().map(|(_, bytes)| bytes).collect();
        self.options.part.map_or_else(|| vec![true; sizes.len()], |part| part.of(&sizes))
    }

    pub(super) fn shards_of_run(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().zip(self.is_of_run()).filter(|(_, mine)| *mine).map(|(shard, _)| shard)
    }

    /// Whether this run writes what is not a weight file.
    pub(super) fn writes_beside(&self) -> bool {
        self.options.part.is_none_or(Part::is_first)
    }

    /// Writes the directory, or goes on with one that the same conversion has begun. What is replaced stays until everything
    /// is complete. `watch` is called on this thread.
    ///
    /// # Errors
    /// `Io` where files cannot be read or written, the directory is not empty, another process is writing into it, or the disk
    /// is too small; `OtherPlan` where another conversion has begun the directory; `Cancelled`. Finished files stay, so that the
    /// same call can go on, unless the input itself is at fault.
    pub fn write(
        &self,
        output: impl AsRef<Path>,
        options: &RememberOptions,
        mut watch: impl FnMut(&Progress),
    ) -> Result<DirectoryReport> {
        let output = output.as_ref();
        let refuse = |kind, text: &str| Err(AnamnesisError::at_path(std::io::Error::new(kind, text), output));
        if self.directory.as_ref().is_some_and(|directory| same_file(directory, output)) {
            return refuse(ErrorKind::InvalidInput, "the output is the input itself");
        }
        let manifest = manifest::of(self)?;
        if options.existing == Existing::Replace && !is_vacant(output)? {
            return self.replace(output, &manifest, options, &mut watch);
        }
        match Entry::begin(output, &manifest, self.options.part.is_some())? {
            Some(entry) => match self.fill(output, options, &mut watch) {
                Ok(report) => {
                    if self.options.part.is_none() || self.has_all(output) {
                        entry.finish(output)?;
                    }
                    Ok(report)
                }
                Err(error) => Err(entry.leave(self, output, error)),
            },
            None => match self.already_there(output, options, &mut watch)? {
                Some(report) => Ok(report),
                None => refuse(ErrorKind::AlreadyExists, "is not empty"),
            },
        }
    }

    /// Writes what is not there yet into a directory that is ours.
    pub(super) fn fill(
        &self,
        output: &Path,
        options: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<DirectoryReport> {
        let mut report = DirectoryReport::default();
        let mut to_write = Vec::new();
        for shard in self.shards_of_run() {
            let target = output.join(&shard.name);
            if is_done(shard, &target) { report.kept.push(shard.name.clone()) } else { to_write.push(shard) }
        }
        let needed: u64 = to_write.iter().map(|shard| shard.plan.total_bytes).sum();
        check_space(output, needed)?;
        let begin = |shard: &Shard| -> Result<Box<dyn TileSink>> {
            let target = output.join(&shard.name);
            Ok(Box::new(FileSink::new(PendingFile::create(&target, Existing::Replace, shard.plan.total_bytes)?)))
        };
        let mut outputs = Vec::with_capacity(to_write.len());
        for &shard in &to_write {
            outputs.push(Output { plan: &shard.plan, begin: Box::new(|| begin(shard)) });
        }
        let distances = pipeline::run_all(&outputs, &self.input.sources, options, watch)?;
        drop(outputs);
        report.take(&to_write, &distances);
        report.written = to_write.iter().map(|shard| shard.name.clone()).collect();
        if self.writes_beside() {
            self.write_beside(output)?;
        }
        Ok(report)
    }

    /// Whether every file of the output is there, whoever wrote it.
    fn has_all(&self, output: &Path) -> bool {
        let names = self.sidecars.iter().filter(|sidecar| !matches!(sidecar.fate, SidecarFate::Dropped(_)));
        let names = names.map(|sidecar| sidecar.name.clone()).chain(self.index.iter().map(|_| index_name(self.base)));
        self.shards.iter().all(|shard| is_done(shard, &output.join(&shard.name)))
            && names.into_iter().all(|name| output.join(name).is_file())
    }

    /// The texts that are written anew beside the weights, by name: the index and what is changed of the configuration.
    pub(super) fn written_beside(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut texts: Vec<_> = self.index.iter().map(|index| (index_name(self.base), index.clone())).collect();
        texts.extend(self.made.iter().cloned());
        let Some(directory) = &self.directory else { return Ok(texts) };
        for sidecar in self.sidecars.iter().filter(|sidecar| matches!(sidecar.fate, SidecarFate::Changed { .. })) {
            let text = read_sidecar(directory, &sidecar.name)?;
            texts.push((sidecar.name.clone(), self.config.apply(&sidecar.name, &text)?.text));
        }
        Ok(texts)
    }

    /// Index, configuration and the files that are copied.
    fn write_beside(&self, output: &Path) -> Result<()> {
        for (name, text) in self.written_beside()? {
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
    /// Takes over what the run of these weight files found.
    pub(super) fn take(&mut self, shards: &[&Shard], distances: &[Vec<Distance>]) {
        let done: Vec<_> = shards.iter().zip(distances).map(|(shard, found)| (&shard.plan, &found[..])).collect();
        let run = ConvertReport::of(&done);
        self.errors = run.errors;
        self.replaced = run.replaced;
        self.overflowed = run.overflowed;
    }
}

/// Whether a weight file of this plan is there: one that appears at all is complete, so that its size and its front tell.
pub(super) fn is_done(shard: &Shard, target: &Path) -> bool {
    let has_front = |file: &FileSource| {
        shard.plan.pieces.iter().all(|(offset, piece)| {
            let mut found = vec![0; piece.len()];
            file.read_at(*offset, &mut found).is_ok() && found == *piece
        })
    };
    FileSource::open(target).is_ok_and(|file| file.len() == shard.plan.total_bytes && has_front(&file))
}

fn write_whole(target: &Path, text: &[u8]) -> Result<()> {
    let file = PendingFile::create(target, Existing::Replace, text.len() as u64)?;
    file.write_at(0, text)?;
    file.commit()
}

/// Copies a file in pieces, so that a large one takes no more memory than a small one.
fn copy(from: &Path, to: &Path, name: &str) -> Result<()> {
    let source = FileSource::open(&from.join(name))?;
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
