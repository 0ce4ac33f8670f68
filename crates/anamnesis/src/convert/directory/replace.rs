//! Replacing the output of an earlier conversion: new files are completed in a folder inside the directory, then moved
//! over the old ones. Until then, or if that fails, the directory is unchanged; an interrupted run resumes when the
//! same command is repeated.

use std::path::Path;

use serde_json::Value;

use super::DirectoryPlan;
use super::shards::is_weight_of;
use super::write::DirectoryReport;
use crate::convert::resumable::{Stage, manifest};
use crate::error::{AnamnesisError, Result};
use crate::io::transaction::FileTransaction;
use crate::pipeline::{Progress, RememberOptions};

impl DirectoryPlan {
    /// Writes the output over an existing directory. Other files in it stay, except weights of the same base name and
    /// the leftovers of an unfinished conversion.
    pub(super) fn replace(
        &self,
        output: &Path,
        manifest: &Value,
        options: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<DirectoryReport> {
        let stage = Stage::begin(output.join(manifest::STAGE), manifest)?;
        let report = match self.write_missing(stage.folder(), options, watch) {
            Ok(report) => report,
            Err(error) => return Err(stage.abandon(self.shard_names(), error)),
        };
        let mut change = FileTransaction::begin(output);
        if let Err(error) = self.swap_in(output, stage.folder(), &mut change) {
            return Err(change.undo(error));
        }
        change.commit();
        stage.finish()?;
        Ok(report)
    }

    /// Moves old files away, beginning with those that loaders open first, then moves the new files in,
    /// ending with those.
    fn swap_in(&self, output: &Path, stage: &Path, change: &mut FileTransaction) -> Result<()> {
        let mut new = names_in(stage)?;
        new.retain(|name| name != manifest::FILE);
        let begun = manifest::read(output).ok().flatten();
        let begun: Vec<_> = begun.iter().flat_map(|begun| begun["outputs"].as_array().into_iter().flatten()).collect();
        let is_begun = |name: &str| begun.iter().any(|file| file["name"] == name);
        let index = super::shards::index_name(self.base);
        let is_old = |name: &String| {
            new.contains(name) || is_weight_of(self.base, name) || is_begun(name) || name == manifest::FILE
        };
        let mut old: Vec<_> = names_in(output)?.into_iter().filter(is_old).collect();
        let rank = |name: &str| (name != index, name != "config.json", !is_weight_of(self.base, name));
        old.sort_by_key(|name| rank(name));
        for name in &old {
            change.set_aside(&output.join(name))?;
        }
        new.sort_by_key(|name| std::cmp::Reverse(rank(name)));
        new.iter().try_for_each(|name| change.rename(&stage.join(name), &output.join(name)))
    }
}

/// The names of the files in a directory, without folders.
fn names_in(directory: &Path) -> Result<Vec<String>> {
    let at = |error| AnamnesisError::at_path(error, directory);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(at)? {
        let entry = entry.map_err(at)?;
        if !entry.file_type().map_err(at)?.is_dir() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort_unstable();
    Ok(names)
}
