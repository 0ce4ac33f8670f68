//! Writing the parts of a split model: files that appear together, and are resumed if the run is interrupted.
//!
//! The parts are completed in the folder `.NAME.anamnesis.new` beside the output, then moved into place. While they are
//! moved, the folder has a mark: a part that is missing there has been moved already.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::plan_input::PlanInput;
use super::resumable::{NamedPlan, Stage, is_done, is_file, manifest, write_missing};
use super::split;
use super::target::ConvertTarget;
use super::write::refuse_inputs;
use crate::error::{AnamnesisError, Result};
use crate::io::output::check_target;
use crate::io::temporary::{directory_of, prefix};
use crate::io::transaction::{FileTransaction, retry};
use crate::io::{Existing, entry, is_mounted};
use crate::pipeline::{Distance, Plan, Progress, RememberOptions};

/// The file that marks a stage whose parts are being moved.
const MOVING: &str = ".moving";

/// The parts of a split model.
pub(super) struct Parts<'a> {
    output: &'a Path,
    input: &'a PlanInput,
    /// Their paths and plans, in order.
    files: Vec<(PathBuf, &'a Plan)>,
    names: Vec<String>,
}

impl<'a> Parts<'a> {
    /// The parts of `output`; `None` if it is a single file, or cannot be resumed: nothing can be moved in a store, and
    /// an input without a path is not recognised by a later run.
    pub(super) fn of(output: &'a Path, plans: &'a [Plan], input: &'a PlanInput) -> Option<Self> {
        let is_known = input.sources.iter().all(|source| !source.paths().is_empty());
        if plans.len() < 2 || is_mounted(output) || !is_known {
            return None;
        }
        let files: Vec<_> = split::names(output, plans.len()).into_iter().zip(plans).collect();
        let name = |(path, _): &(PathBuf, &Plan)| Some(path.file_name()?.to_str()?.to_owned());
        let names = files.iter().map(name).collect::<Option<_>>()?;
        Some(Self { output, input, files, names })
    }

    /// The folder in which the parts are completed.
    pub(super) fn folder(&self) -> PathBuf {
        let name = self.output.file_name().unwrap_or_default().to_string_lossy();
        self.output.with_file_name(format!("{}{}", prefix(&name), manifest::STAGE.trim_start_matches('.')))
    }

    fn named_plans(&self) -> Vec<NamedPlan<'_>> {
        self.names.iter().map(String::as_str).zip(self.files.iter().map(|(_, plan)| *plan)).collect()
    }

    /// Writes the parts, or those that an interrupted run has not completed. Returns the measurements of each part,
    /// `None` if it was complete before.
    pub(super) fn write(
        &self,
        target: ConvertTarget,
        options: &RememberOptions,
        watch: &mut dyn FnMut(&Progress),
    ) -> Result<Vec<Option<Vec<Distance>>>> {
        let files = self.named_plans();
        let sources = &self.input.sources;
        let paths = sources.iter().flat_map(|source| source.paths());
        let inputs: Vec<_> = paths.map(|path| (path.to_string_lossy().into_owned(), path.to_path_buf())).collect();
        refuse_inputs(self.files.iter().map(|(path, _)| path.as_path()), sources)?;
        let manifest = manifest::of(&manifest::Contents {
            target,
            dtype: None,
            inputs: &inputs,
            sources,
            files: &files,
            sidecars: &[],
        })?;
        let directory = directory_of(self.output);
        std::fs::metadata(directory).map_err(|error| AnamnesisError::at_path(error, directory))?;
        let stage = Stage::begin(self.folder(), &manifest)?;
        let mark = stage.folder().join(MOVING);
        let completed = match self.is_moving(&mark) {
            true => Ok(files.iter().map(|_| None).collect()),
            false => self.check_targets(options.existing).and_then(|()| {
                let runs = write_missing(stage.folder(), &files, sources, options, watch)?;
                File::create(&mark).map_err(|error| AnamnesisError::at_path(error, &mark))?;
                Ok(runs)
            }),
        };
        let runs = match completed {
            Ok(runs) => runs,
            Err(error) => return Err(stage.abandon(self.names.iter().map(String::as_str), error)),
        };
        let mut change = FileTransaction::begin(directory);
        if let Err(error) = self.move_in(stage.folder(), options.existing, &mut change) {
            return Err(change.undo(error));
        }
        change.commit();
        retry(|| std::fs::remove_file(&mark)).map_err(|error| AnamnesisError::at_path(error, &mark))?;
        stage.finish()?;
        Ok(runs)
    }

    /// Whether an earlier run has completed all parts and has begun to move them.
    fn is_moving(&self, mark: &Path) -> bool {
        let folder = directory_of(mark);
        let is_somewhere = |(path, plan): &(PathBuf, &Plan)| {
            path.file_name().is_some_and(|name| is_done(plan, &folder.join(name))) || is_done(plan, path)
        };
        if !is_file(mark) {
            return false;
        }
        let is_complete = self.files.iter().all(is_somewhere);
        if !is_complete {
            // A part was removed since.
            let _ = std::fs::remove_file(mark);
        }
        is_complete
    }

    fn check_targets(&self, existing: Existing) -> Result<()> {
        self.files.iter().try_for_each(|(path, _)| check_target(path, existing))
    }

    /// Moves old parts away, beginning with the one that loaders open, then moves the new ones in, ending with that.
    fn move_in(&self, folder: &Path, existing: Existing, change: &mut FileTransaction) -> Result<()> {
        let mut staged = Vec::with_capacity(self.files.len());
        for (name, (path, plan)) in self.names.iter().zip(&self.files) {
            let from = folder.join(name);
            match entry(&from)? {
                None if is_done(plan, path) => change.moved_before(path),
                _ => staged.push((from, path)),
            }
        }
        if existing == Existing::Replace {
            staged.iter().try_for_each(|(_, path)| change.set_aside(path))?;
        }
        staged.iter().rev().try_for_each(|(from, path)| change.rename(from, path))
    }
}
