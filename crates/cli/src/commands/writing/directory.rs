//! Writing a checkpoint directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anamnesis::error::printable;
use anamnesis::{
    AnamnesisError, Checkpoint, DirectoryPlan, DirectoryReport, OutputState, Part, RememberOptions, Sidecar,
    SidecarFate,
};
use serde_json::{Value, json};

use super::advice::advise_on_values;
use super::{print_machine, shared_fields};
use crate::args::{InputArgs, WriteArgs};
use crate::commands::{counted, output_path, shown};
use crate::exit::Failure;
use crate::ui::Printer;

/// Maximum number of omitted files to name.
const DROPPED_SHOWN: usize = 10;
/// Maximum characters of a file name.
const MAX_NAME_CHARS: usize = 255;

/// A directory to be written.
pub(crate) struct DirectoryJob<'a> {
    pub(crate) input: &'a InputArgs,
    pub(crate) write: &'a WriteArgs,
    /// The requested target.
    pub(crate) to: String,
    pub(crate) output: PathBuf,
}

impl DirectoryJob<'_> {
    /// The output directory: by default next to the input, with `suffix` appended to its name.
    pub(crate) fn output(write: &WriteArgs, checkpoint: &Checkpoint, suffix: &str) -> Result<PathBuf, Failure> {
        let output = write.output.clone().map_or_else(|| output_path::directory(checkpoint, suffix), Ok)?;
        // The path of a weight file inside the directory may be given.
        let output = match output_path::is_file(&output) && !output_path::is_stream(&output) {
            true => {
                output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
            }
            false => output,
        };
        if !write.is_inside {
            output_path::check_directory(&output)?;
        }
        Ok(output)
    }

    pub(crate) fn write(
        &self,
        plan: &DirectoryPlan,
        options: &RememberOptions,
        printer: &Printer,
    ) -> Result<DirectoryReport, Failure> {
        print_machine(options, printer);
        let started = Instant::now();
        let bar = printer.progress(plan.total_bytes());
        let mut written = 0;
        let result = plan.write(&self.output, options, |progress| {
            written = progress.bytes;
            // Shards kept from an earlier run and those of other parts are not written.
            bar.set_total(progress.total_bytes);
            bar.set(progress.bytes);
        });
        drop(bar);
        let report = result.map_err(|error| self.advise(error, plan))?;
        printer.throughput(written, started);
        Ok(report)
    }

    /// Adds advice to the error of writing the directory.
    fn advise(&self, error: AnamnesisError, plan: &DirectoryPlan) -> Failure {
        let cause = match &error {
            AnamnesisError::Io(cause) => cause,
            AnamnesisError::Cancelled => {
                let is_begun = plan.state_of(&self.output) == OutputState::Begun;
                return Failure::Interrupted { kept: is_begun.then(|| self.output.clone()) };
            }
            _ => return advise_on_values(error),
        };
        // Errors of an input are not fixed by another output.
        if !error.path().is_some_and(|path| path.starts_with(&self.output)) {
            return error.into();
        }
        let advice = match cause.kind() {
            ErrorKind::AlreadyExists => {
                "--force writes into it and replaces files of the same names, -o chooses another directory".to_owned()
            }
            ErrorKind::InvalidInput | ErrorKind::NotADirectory => "choose another directory with -o".to_owned(),
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                format!("cannot write {}, choose another place with -o", shown(&self.output))
            }
            ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded => {
                "finished shards are kept; free disk space and run the same command to resume".to_owned()
            }
            _ => return error.into(),
        };
        Failure::Refused { error, advice: Some(advice) }
    }

    /// Whether this run writes the sidecars: the first part does.
    pub(super) fn writes_sidecars(&self) -> bool {
        self.write.part.is_none_or(Part::is_first)
    }

    /// The result in short lines.
    pub(crate) fn outcome(&self, plan: &DirectoryPlan, report: &DirectoryReport) -> Vec<String> {
        let mut shards = format!("{} written", counted(report.written.len(), "shard"));
        if !report.kept.is_empty() {
            shards += &format!(", {} kept from an earlier run", report.kept.len());
        }
        let mut lines = match self.write.part {
            Some(part) => vec![format!("part {} of {}: {shards}", part.number(), part.count())],
            None => vec![shards],
        };
        if self.writes_sidecars() {
            lines.extend(sidecar_lines(plan.sidecars()));
        } else {
            lines.push("sidecar files are written by part 1".to_owned());
        }
        lines
    }

    pub(crate) fn document(&self, checkpoint: &Checkpoint, plan: &DirectoryPlan) -> Value {
        let mut document = json!({
            "path": self.input.path.to_string_lossy(),
            "output": self.output.to_string_lossy(),
            "to": self.to,
            "dry_run": self.write.dry_run,
            "decoded": plan.decoded(),
            "copied": plan.stats().passthrough,
            "bytes": plan.total_bytes(),
            "part": self.write.part.map(|part| json!({ "number": part.number(), "count": part.count() })),
            "shards": plan.shards().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect::<Value>(),
            "sidecars": plan.sidecars().iter().map(sidecar_document).collect::<Value>(),
        });
        shared_fields(checkpoint, plan.stats(), plan.notes(), &mut document);
        document
    }
}

/// Lines about copied, changed and omitted sidecars.
pub(crate) fn sidecar_lines(sidecars: &[Sidecar]) -> Vec<String> {
    let (mut copied, mut changed, mut dropped, mut made) = (0, Vec::new(), Vec::new(), Vec::new());
    for sidecar in sidecars {
        let name = printable(&sidecar.name, MAX_NAME_CHARS);
        match &sidecar.fate {
            SidecarFate::Changed { removed, changed: set } if !(removed.is_empty() && set.is_empty()) => {
                let edits = [("removed", removed), ("set", set)];
                let edits = edits.iter().filter(|(_, members)| !members.is_empty());
                let edits: Vec<_> = edits.map(|(verb, members)| format!("{verb} {}", members.join(", "))).collect();
                changed.push(format!("{name}: {}", edits.join("; ")));
            }
            SidecarFate::Dropped(why) => dropped.push(format!("left out {name}: {why}")),
            SidecarFate::Generated => made.push(name),
            _ => copied += 1,
        }
    }
    let more = dropped.len().saturating_sub(DROPPED_SHOWN);
    dropped.truncate(DROPPED_SHOWN);
    let mut lines = match made.is_empty() {
        true => vec![format!("{} copied", counted(copied, "file"))],
        false => vec![format!("made {}", made.join(", "))],
    };
    lines.extend(changed);
    lines.extend(dropped);
    if more > 0 {
        lines.push(format!("left out {more} more"));
    }
    lines
}

pub(crate) fn sidecar_document(sidecar: &Sidecar) -> Value {
    let name = &sidecar.name;
    match &sidecar.fate {
        SidecarFate::Changed { removed, changed } => {
            json!({ "name": name, "fate": "changed", "removed": removed, "set": changed })
        }
        SidecarFate::Generated => json!({ "name": name, "fate": "made" }),
        SidecarFate::Dropped(why) => json!({ "name": name, "fate": "dropped", "reason": why }),
        _ => json!({ "name": name, "fate": "copied" }),
    }
}
