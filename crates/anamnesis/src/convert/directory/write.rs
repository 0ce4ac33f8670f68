//! Writing a planned directory.

use std::path::Path;

use super::sidecars::SidecarFate;
use super::{DirectoryPlan, Part, Shard, manifest};
use crate::checkpoint::read_sidecar;
use crate::convert::stats::{ConvertReport, QuantizationError};
use crate::error::{AnamnesisError, Result};
use crate::io::output::{Existing, PendingFile, check_space, same_file};
use crate::io::{FileSource, Source};
use crate::pipeline::RememberOptions;
use crate::pipeline::{self, FileSink, Output, Progress, TileSink};

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
    /// A directory with files of others.
    Foreign,
}

const INDEX: &str = "model.safetensors.index.json";

impl DirectoryPlan {
    /// What is at the place of the output before it is written.
    #[must_use]
    pub fn state_of(&self, output: impl AsRef<Path>) -> OutputState {
        let output = output.as_ref();
        match is_empty(output) {
            _ if output.join(manifest::FILE).is_file() => OutputState::Begun,
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

    fn shards_of_run(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().zip(self.is_of_run()).filter(|(_, mine)| *mine).map(|(shard, _)| shard)
    }

    /// Writes the directory, or goes on with one that the same conversion has begun. `watch` is called on this thread.
    ///
    /// # Errors
    /// `Io` where files cannot be read or written, the directory is not empty, or the disk is too small; `Parse` where
    /// another conversion has begun the directory; `Cancelled`. Finished files stay, so that the same call can go on.
    pub fn write(
        &self,
        output: impl AsRef<Path>,
        options: &RememberOptions,
        mut watch: impl FnMut(&Progress),
    ) -> Result<DirectoryReport> {
        let output = output.as_ref();
        self.enter(output, options.existing)?;
        let part = self.options.part;
        let mut report = DirectoryReport::default();
        let mut to_write = Vec::new();
        for shard in self.shards_of_run() {
            let target = output.join(&shard.name);
            if is_done(shard, &target) { report.kept.push(shard.name.clone()) } else { to_write.push(shard) }
        }
        let needed: u64 = to_write.iter().map(|shard| shard.plan.total_bytes).sum();
        check_space(output, needed)?;
        let begin = |shard: &Shard| -> Result<Box<dyn TileSink>> {
            remove_leftovers(output, &shard.name);
            let target = output.join(&shard.name);
            Ok(Box::new(FileSink::new(PendingFile::create(&target, Existing::Replace, shard.plan.total_bytes)?)))
        };
        let mut outputs = Vec::with_capacity(to_write.len());
        for &shard in &to_write {
            outputs.push(Output { plan: &shard.plan, begin: Box::new(|| begin(shard)) });
        }
        let distances = pipeline::run_all(&outputs, &self.input.sources, &options.run_options(), &mut watch)?;
        let done: Vec<_> = to_write.iter().zip(&distances).map(|(shard, found)| (&shard.plan, &found[..])).collect();
        let run = ConvertReport::of(&done);
        report.errors = run.errors;
        report.replaced = run.replaced;
        report.overflowed = run.overflowed;
        report.written = to_write.iter().map(|shard| shard.name.clone()).collect();
        if part.is_none_or(Part::is_first) {
            self.write_beside(output)?;
        }
        Ok(report)
    }

    /// Makes sure that the output directory is ours to fill.
    fn enter(&self, output: &Path, existing: Existing) -> Result<()> {
        let refuse = |kind, text: &str| Err(AnamnesisError::at_path(std::io::Error::new(kind, text), output));
        if self.directory.as_ref().is_some_and(|directory| same_file(directory, output)) {
            return refuse(std::io::ErrorKind::InvalidInput, "the output is the input itself");
        }
        match std::fs::create_dir(output) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && output.is_dir() => {}
            Err(error) => return Err(AnamnesisError::at_path(error, output)),
        }
        let manifest = manifest::of(self)?;
        if existing == Existing::Replace {
            return self.start_again(output, &manifest);
        }
        if manifest::read(output)?.is_none() && !is_empty(output)? {
            return refuse(std::io::ErrorKind::AlreadyExists, "is not empty");
        }
        manifest::claim_directory(output, &manifest)
    }

    /// Forgets what an earlier conversion left: its manifest and weights, not the files of others.
    fn start_again(&self, output: &Path, manifest: &serde_json::Value) -> Result<()> {
        let old = manifest::read(output).ok().flatten();
        let names = old.as_ref().and_then(|old| old["outputs"].as_array()).into_iter().flatten();
        let names: Vec<_> =
            names.filter_map(|file| file["name"].as_str()).filter(|name| !name.contains(['/', '\\'])).collect();
        let planned = self.shards.iter().map(|shard| shard.name.as_str());
        for name in names.into_iter().chain(planned).chain([INDEX, manifest::FILE]) {
            match std::fs::remove_file(output.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(AnamnesisError::at_path(error, &output.join(name)));
                }
                _ => {}
            }
        }
        manifest::claim_directory(output, manifest)
    }

    /// The texts that are written anew beside the weights, by name: the index and what is changed of the configuration.
    pub(super) fn written_beside(&self) -> Result<Vec<(&str, Vec<u8>)>> {
        let mut texts: Vec<_> = self.index.iter().map(|index| (INDEX, index.clone())).collect();
        texts.extend(self.made.iter().map(|(name, text)| (name.as_str(), text.clone())));
        let Some(directory) = &self.directory else { return Ok(texts) };
        for sidecar in self.sidecars.iter().filter(|sidecar| matches!(sidecar.fate, SidecarFate::Changed { .. })) {
            let text = read_sidecar(directory, &sidecar.name)?;
            texts.push((&sidecar.name, self.config.apply(&sidecar.name, &text)?.text));
        }
        Ok(texts)
    }

    /// Index, configuration and the files that are copied.
    fn write_beside(&self, output: &Path) -> Result<()> {
        remove_leftovers(output, manifest::FILE);
        for (name, text) in self.written_beside()? {
            remove_leftovers(output, name);
            write_whole(&output.join(name), &text)?;
        }
        let Some(directory) = &self.directory else { return Ok(()) };
        for sidecar in self.sidecars.iter().filter(|sidecar| sidecar.fate == SidecarFate::Copied) {
            remove_leftovers(output, &sidecar.name);
            copy(directory, output, &sidecar.name)?;
        }
        Ok(())
    }
}

/// Whether a weight file of this plan is there: one that appears at all is complete, so that its size and its front tell.
fn is_done(shard: &Shard, target: &Path) -> bool {
    let has_front = |file: &FileSource| {
        shard.plan.pieces.iter().all(|(offset, piece)| {
            let mut found = vec![0; piece.len()];
            file.read_at(*offset, &mut found).is_ok() && found == *piece
        })
    };
    FileSource::open(target).is_ok_and(|file| file.len() == shard.plan.total_bytes && has_front(&file))
}

/// Whether nothing is there, or nothing but a manifest that a killed run had begun to write.
fn is_empty(directory: &Path) -> Result<bool> {
    let entries = std::fs::read_dir(directory).map_err(|error| AnamnesisError::at_path(error, directory))?;
    let is_ours = |name: &str| is_leftover(name, manifest::FILE);
    Ok(entries.flatten().all(|entry| entry.file_name().to_str().is_some_and(is_ours)))
}

/// Removes temporary forms of this file that a killed run left.
fn remove_leftovers(output: &Path, name: &str) {
    for entry in std::fs::read_dir(output).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|found| is_leftover(found, name)) {
            // What cannot be removed is in nobody's way.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether `found` is a temporary form of the file `name`.
fn is_leftover(found: &str, name: &str) -> bool {
    let rest = found.strip_prefix('.').and_then(|found| found.strip_prefix(name));
    rest.is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".partial"))
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
