//! PyTorch distributed checkpoints, written by `torch.distributed.checkpoint`: a directory of one pickle, `.metadata`,
//! and files of the ranks, `__RANK_N.distcp`.
//!
//! | in `.metadata` | content |
//! |---|---|
//! | `state_dict_metadata` | by name: type, shape and chunks of a tensor, or the mark of another value |
//! | `storage_data` | by name and offsets of a chunk: file, offset and length |
//!
//! Every chunk is an archive of `torch.save` with one tensor; other values are such archives too, which may contain
//! tensors. Names have dots between their levels. Chunks are put together while they are read.
//!
//! Refused by name: transformed (compressed) entries, and checkpoints without `.metadata`.

mod chunks;
mod metadata;

use crate::catalog::{Catalog, Facts, Note, Subject};
use crate::container::identity::{About, Format};
use crate::container::interface::{Container, Evidence, Opened};
use crate::container::layout::{Layout, OutputTensor};
use crate::container::options::OpenOptions;
use crate::container::zip::checksum_errors;
use crate::error::{AnamnesisError, Remedy, Result};
use crate::io::Source;
use crate::limits::Budget;

use chunks::ChunkFiles;
use metadata::Saved;

/// The format of distributed checkpoints.
pub(crate) struct Distributed;

/// The name of the format in messages.
const NAME: &str = "PyTorch distributed checkpoint";
/// The module of the records in the metadata, by which it is recognised.
const MODULE: &[u8] = b"torch.distributed.checkpoint.metadata";
/// Bytes before the name of the module.
const MAX_BEFORE_MODULE: usize = 64;

pub(in crate::container) const DISTRIBUTED: About = About {
    format: Format::Distributed,
    name: "dcp",
    file: "a PyTorch distributed checkpoint",
    extensions: &["distcp"],
    shared_extensions: &[],
    writes: false,
    parts_are_one_file: false,
    container: &Distributed,
};

impl Container for Distributed {
    fn recognises(&self, head: &[u8]) -> Evidence {
        let is_pickle = matches!(head, [0x80, 2..=5, ..]);
        let front = head.get(..MAX_BEFORE_MODULE + MODULE.len()).unwrap_or(head);
        match is_pickle && front.windows(MODULE.len()).any(|bytes| bytes == MODULE) {
            true => Evidence::Certain,
            false => Evidence::No,
        }
    }

    fn open(&self, source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
        let saved = Saved::read(&*source, budget)?;
        let mut facts = Facts::new(NAME);
        let pieces: usize = saved.tensors.iter().map(|tensor| tensor.chunks.len()).sum();
        if let Some(version) = &saved.version {
            facts = facts.with(Subject::Layout, "Version", version);
        }
        let training = training_state(&saved).filter(|_| options.select.is_none());
        let read = ChunkFiles::new(source).read(saved, file, options, budget)?;
        facts = facts.with(Subject::Layout, "Files", read.files.len().to_string()).with(
            Subject::Layout,
            "Pieces",
            pieces.to_string(),
        );
        let mut catalog = Catalog::new(read.tensors, None)?;
        catalog.types_are_final = true;
        catalog.facts = Some(facts);
        catalog.unreadable = read.unreadable;
        catalog.notes = read.notes;
        catalog.notes.extend(training.map(|name| {
            let text = format!("{name} and others look like the state of a training run");
            Note::new(text).with_remedy(Remedy::ChoosePart)
        }));
        catalog.more_files = read.files;
        Ok(Opened { source: read.source, catalog })
    }

    fn damage(&self, source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
        let saved = Saved::read(source, budget)?;
        let mut files = ChunkFiles::beside(source);
        let mut damage = Vec::new();
        for (name, place) in saved.places() {
            let found = files.slice(place).and_then(|slice| checksum_errors(&slice, budget));
            damage.extend(found.map_err(|error| error.within(name))?.into_iter().map(|why| format!("{name}: {why}")));
        }
        Ok(damage)
    }

    fn lay_out(&self, _: &[OutputTensor], _: Option<&crate::catalog::Metadata>) -> Result<Layout> {
        Err(AnamnesisError::unsupported("dcp", "distributed checkpoints are read, not written"))
    }
}

/// A tensor that belongs to the state of an optimizer, next to others that do not.
fn training_state(saved: &Saved) -> Option<String> {
    let is_training = |name: &str| name.starts_with("optim");
    let mut names = saved.tensors.iter().map(|tensor| tensor.name.as_str());
    let first = names.clone().find(|name| is_training(name))?;
    names.any(|name| !is_training(name)).then(|| crate::error::quoted(first))
}
