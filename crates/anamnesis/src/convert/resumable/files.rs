//! The files of an output: which are complete, and writing the missing ones.

use std::path::Path;

use crate::error::Result;
use crate::io::output::{PendingFile, check_space};
use crate::io::{Existing, Source, entry, open_file};
use crate::pipeline::{self, Distance, FileSink, Output, Plan, Progress, RememberOptions, TileSink};

/// A file name and the plan of the file.
pub(in crate::convert) type NamedPlan<'a> = (&'a str, &'a Plan);

/// Writes the missing files of an output into a folder that this run has locked. Returns the measurements of each file,
/// `None` if it is kept from an earlier run.
pub(in crate::convert) fn write_missing(
    folder: &Path,
    files: &[NamedPlan<'_>],
    sources: &[Box<dyn Source>],
    options: &RememberOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Vec<Option<Vec<Distance>>>> {
    let is_kept: Vec<bool> = files.iter().map(|(name, plan)| is_done(plan, &folder.join(name))).collect();
    let to_write: Vec<_> = files.iter().zip(&is_kept).filter(|(_, kept)| !**kept).map(|(file, _)| *file).collect();
    check_space(folder, to_write.iter().map(|(_, plan)| plan.total_bytes).sum())?;
    let begin = |(name, plan): NamedPlan<'_>| -> Result<Box<dyn TileSink>> {
        let file = PendingFile::create(&folder.join(name), Existing::Replace, plan.total_bytes)?;
        file.skip(&plan.gaps())?;
        Ok(Box::new(FileSink::new(file)))
    };
    let mut outputs = Vec::with_capacity(to_write.len());
    for &file in &to_write {
        outputs.push(Output { plan: file.1, begin: Box::new(move || begin(file)) });
    }
    let mut runs = pipeline::run_all(&outputs, sources, options, watch)?.into_iter();
    Ok(is_kept.into_iter().map(|kept| if kept { None } else { runs.next() }).collect())
}

/// Whether the file of a plan is complete. Files are named when complete, so size and header are sufficient evidence.
pub(in crate::convert) fn is_done(plan: &Plan, path: &Path) -> bool {
    let has_front = |file: &dyn Source| {
        plan.pieces.iter().all(|(offset, piece)| {
            let mut found = vec![0; piece.len()];
            file.read_at(*offset, &mut found).is_ok() && found == *piece
        })
    };
    is_file(path) && open_file(path).is_ok_and(|file| file.len() == plan.total_bytes && has_front(&*file))
}

/// Whether there is a file of this name.
pub(in crate::convert) fn is_file(path: &Path) -> bool {
    entry(path).is_ok_and(|entry| entry.is_some_and(|entry| entry.is_file()))
}
