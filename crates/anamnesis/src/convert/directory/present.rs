//! Detecting that a finished directory already has the output of this run, for commands that are repeated after
//! success, as job schedulers do. The manifest is gone by then, so the bytes themselves are compared.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::sidecars::SidecarFate;
use super::write::DirectoryReport;
use super::{DirectoryPlan, Shard};
use crate::checkpoint::read_bounded;
use crate::convert::resumable::is_done;
use crate::error::{AnamnesisError, Result};
use crate::io::{Source, open_file};
use crate::pipeline::{self, Output, Progress, RememberOptions, TileSink};

/// Bytes compared at a time.
const PIECE_BYTES: usize = 1 << 20;

impl DirectoryPlan {
    /// The report of a run whose output exists byte for byte; `None` if a file differs or is missing.
    pub(super) fn already_written(
        &self,
        output: &Path,
        options: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Option<DirectoryReport>> {
        let shards: Vec<&Shard> = self.shards_of_run().collect();
        if !shards.iter().all(|shard| is_done(&shard.plan, &output.join(&shard.name)))
            || !self.has_same_sidecars(output)?
        {
            return Ok(None);
        }
        let differs = AtomicBool::new(false);
        let mut outputs = Vec::with_capacity(shards.len());
        for shard in &shards {
            let differs = &differs;
            let begin = move || -> Result<Box<dyn TileSink + '_>> {
                Ok(Box::new(ComparingSink { file: open_file(&output.join(&shard.name))?, differs }))
            };
            outputs.push(Output { plan: &shard.plan, begin: Box::new(begin) });
        }
        let run = pipeline::run_all(&outputs, &self.input.sources, options, watch);
        drop(outputs);
        if differs.into_inner() {
            return Ok(None);
        }
        let mut report = DirectoryReport::default();
        let run = run?;
        let done: Vec<_> = shards.iter().zip(&run).map(|(shard, found)| (&shard.plan, &found[..])).collect();
        report.record(&done);
        report.kept = shards.iter().map(|shard| shard.name.clone()).collect();
        Ok(Some(report))
    }

    /// Whether the sidecars that this run would write exist with the same content.
    fn has_same_sidecars(&self, output: &Path) -> Result<bool> {
        if !self.writes_sidecars() {
            return Ok(true);
        }
        for (name, text) in self.generated_sidecars()? {
            if read_bounded(&output.join(&name), u64::MAX, None)?.as_ref() != Some(&text) {
                return Ok(false);
            }
        }
        let Some(directory) = &self.directory else { return Ok(true) };
        for sidecar in self.sidecars.iter().filter(|sidecar| sidecar.fate == SidecarFate::Copied) {
            if !has_same_content(&directory.join(&sidecar.name), &output.join(&sidecar.name))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether two files have the same bytes; false if the second is missing.
pub(in crate::convert) fn has_same_content(a: &Path, b: &Path) -> Result<bool> {
    let (a, b) = match open_file(b) {
        Ok(b) => (open_file(a)?, b),
        Err(_) => return Ok(false),
    };
    if a.len() != b.len() {
        return Ok(false);
    }
    let mut pieces = [vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]];
    let mut offset = 0;
    while offset < a.len() {
        let count = PIECE_BYTES.min(usize::try_from(a.len() - offset).unwrap_or(PIECE_BYTES));
        let [of_a, of_b] = &mut pieces;
        a.read_at(offset, &mut of_a[..count])?;
        b.read_at(offset, &mut of_b[..count])?;
        if of_a[..count] != of_b[..count] {
            return Ok(false);
        }
        offset += count as u64;
    }
    Ok(true)
}

/// A sink that compares tiles with an existing file instead of writing them.
struct ComparingSink<'a> {
    file: Box<dyn Source>,
    differs: &'a AtomicBool,
}

impl TileSink for ComparingSink<'_> {
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut found = vec![0; bytes.len()];
        self.file.read_at(offset, &mut found)?;
        if found == bytes {
            return Ok(());
        }
        self.differs.store(true, Ordering::Release);
        Err(AnamnesisError::Cancelled)
    }
}
