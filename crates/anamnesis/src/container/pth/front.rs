//! The front matter of a file of either form: its tensors as views, and where their storages are.

use super::allow::Strict;
use super::archive::{TorchArchive, has_checksum};
use super::latin::Latin;
use super::legacy::{self, Stream};
use super::pickle::{self, PickleValues, Value};
use super::storage::{Kept, Storages};
use super::tree::{self, Tree, Wanted};
use super::view::View;
use crate::catalog::{Dtype, Note};
use crate::container::options::OpenOptions;
use crate::container::zip::{Entry, Method, begins_archive};
use crate::error::{AnamnesisError, Remedy, Result, quoted};
use crate::io::ReadAt;
use crate::limits::Budget;

/// How many times larger than the file all tensors may be together, where they share storages.
const PTH_MAX_SHARING_RATIO: u64 = 64;

/// Where the bytes of a storage are.
#[derive(Debug, Clone)]
pub(super) enum StoragePlace {
    /// In the file, from this byte on.
    At(u64),
    /// In an entry that is checked or compressed, by its index.
    In(u32),
    /// In the pickle, which is the storage of this index, as a text.
    Text { pickle: u32, latin: Box<Latin> },
}

/// What a file says before its numbers.
#[derive(Debug)]
pub(crate) struct Front {
    pub(super) tensors: Vec<(String, View)>,
    /// Where each storage is that a tensor needs.
    pub(super) places: Vec<Option<StoragePlace>>,
    /// The entries of an archive.
    pub(super) entries: Vec<Entry>,
    pub(crate) notes: Vec<Note>,
    pub(crate) big_endian: bool,
}

impl Front {
    /// Name, shape, type and bytes of each tensor.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, &[usize], Dtype, u64)> {
        self.tensors.iter().map(|(name, view)| (name.as_str(), &view.shape[..], view.dtype, view.bytes))
    }

    pub(crate) fn read(source: &(impl ReadAt + ?Sized), options: &OpenOptions, budget: &mut Budget) -> Result<Self> {
        let wanted =
            Wanted { select: options.select.as_deref(), all: options.all, skip_unsupported: options.skip_unsupported };
        let head = source.head()?;
        let front = if begins_archive(&head) {
            archive(source, wanted, budget)?
        } else if legacy::is_legacy(&head) {
            stream(source, wanted, budget)?
        } else {
            let why = "the file is neither a ZIP archive nor a legacy stream of torch.save";
            return Err(AnamnesisError::parse(why));
        };
        front.check_sharing(source.bytes())?;
        Ok(front)
    }

    /// Holds the bytes of all tensors against those that the file has. Tensors that share a storage are written once for
    /// each of their names: some for tied weights, thousands for a file that is made to grow.
    fn check_sharing(&self, file_bytes: u64) -> Result<()> {
        let unpacked = self.entries.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.bytes));
        let stored = file_bytes.max(unpacked);
        let bytes = self.tensors.iter().fold(0u64, |sum, (_, view)| sum.saturating_add(view.bytes));
        if bytes > stored.saturating_mul(PTH_MAX_SHARING_RATIO) {
            let message = format!(
                "the tensors take {bytes} bytes together, the file holds {stored}: {PTH_MAX_SHARING_RATIO} times are allowed"
            );
            return Err(AnamnesisError::limit("PTH_MAX_SHARING_RATIO", message));
        }
        Ok(())
    }
}

fn archive(source: &(impl ReadAt + ?Sized), wanted: Wanted<'_>, budget: &mut Budget) -> Result<Front> {
    let archive = TorchArchive::read(source, budget)?;
    let big_endian = archive.is_big_endian(source, budget)?;
    let script = archive.is_script();
    let (object, most) = archive.pickle("data.pkl", source, budget)?.unwrap_or_default();
    let constants = if script { archive.pickle("constants.pkl", source, budget)? } else { None };
    let wants_constants = wanted.select.is_some_and(|path| path == CONSTANTS || path.starts_with("CONSTANTS."));
    let mut front =
        Front { tensors: Vec::new(), places: Vec::new(), entries: Vec::new(), notes: Vec::new(), big_endian };
    if !wants_constants {
        read_tree((&object, most), script, wanted, budget, |tree, found, budget| {
            front.places = places(&archive, Folder::DATA, found, &tree.tensors, budget)?;
            (front.tensors, front.notes) = (tree.tensors, tree.notes);
            Ok(())
        })?;
    }
    drop(object);
    if let Some((constants, most)) = constants {
        front.constants(&archive, (&constants, most), wanted, budget)?;
    }
    front.notes.extend(match &archive.strays[..] {
        [] => None,
        [stray] => Some(Note::new(format!("the pickle {} is no part of the object and was not read", quoted(stray)))),
        [first, rest @ ..] => {
            let (first, more) = (quoted(first), rest.len());
            Some(Note::new(format!("the pickle {first} and {more} more are no part of the object and were not read")))
        }
    });
    front.entries = archive.entries;
    Ok(front)
}

/// What the constants of a TorchScript archive are called, as its code calls them.
const CONSTANTS: &str = "CONSTANTS";

impl Front {
    /// Adds the tensors that the code of a TorchScript archive refers to: where they are asked for, or where they are all
    /// there is, as in a frozen module.
    fn constants(
        &mut self,
        archive: &TorchArchive,
        pickle: (&[u8], u64),
        wanted: Wanted<'_>,
        budget: &mut Budget,
    ) -> Result<()> {
        let selected = wanted.select.and_then(|path| path.strip_prefix(CONSTANTS));
        let every = Wanted { select: None, all: true, ..wanted };
        read_tree(pickle, true, every, budget, |mut tree, found, budget| {
            for (name, _) in &mut tree.tensors {
                *name = format!("{CONSTANTS}.c{name}");
            }
            if let Some(path) = selected.and_then(|path| path.strip_prefix('.')) {
                tree.tensors
                    .retain(|(name, _)| name.strip_prefix(CONSTANTS).is_some_and(|rest| rest == format!(".{path}")));
            }
            if tree.tensors.is_empty() {
                return Ok(());
            }
            let taken = wanted.all || selected.is_some() || (wanted.select.is_none() && self.tensors.is_empty());
            if !taken {
                if wanted.select.is_none() {
                    let count = tree.tensors.len();
                    let remedy = Remedy::TakeAllOrChoose { path: Some(CONSTANTS.to_owned()) };
                    self.notes.push(Note::new(format!("left out {count} constants of the code")).with_remedy(remedy));
                }
                return Ok(());
            }
            let mut places = places(archive, Folder::CONSTANTS, found, &tree.tensors, budget)?;
            // The storages of one pickle are fewer than its bytes.
            let before = self.places.len() as u32;
            for place in places.iter_mut().flatten() {
                if let StoragePlace::Text { pickle, .. } = place {
                    *pickle += before;
                }
            }
            self.places.extend(places);
            self.tensors.extend(tree.tensors.into_iter().map(|(name, mut view)| {
                view.storage += before;
                (name, view)
            }));
            Ok(())
        })
    }
}

/// The storages that a pickle declares, and the values that their keys are among.
#[derive(Debug, Clone, Copy)]
struct Found<'v, 'a> {
    storages: &'v Storages,
    values: &'v PickleValues<'a>,
}

/// Finds the tensors of a pickle and hands them on while its values are there.
fn read_tree(
    (bytes, most): (&[u8], u64),
    script: bool,
    wanted: Wanted<'_>,
    budget: &mut Budget,
    then: impl FnOnce(Tree, Found<'_, '_>, &mut Budget) -> Result<()>,
) -> Result<()> {
    let object = pickle::read_within(bytes, most, &mut Strict { script }, budget)?;
    // Python does not read them; what stands there is for another reader's eyes.
    if object.bytes < bytes.len() {
        let behind = bytes.len() - object.bytes;
        return Err(AnamnesisError::parse(format!(
            "{behind} bytes follow the end of the pickle and belong to nothing"
        )));
    }
    let root = object.root.ok_or_else(|| AnamnesisError::parse("the pickle holds nothing"))?;
    let mut storages = Storages::default();
    let tree = tree::tensors(root, &object.values, &mut storages, wanted, budget)?;
    then(tree, Found { storages: &storages, values: &object.values }, budget)
}

/// A pickle of an archive and the folder of its storages.
#[derive(Debug, Clone, Copy)]
struct Folder {
    pickle: &'static str,
    storages: &'static str,
}

impl Folder {
    const DATA: Self = Self { pickle: "data.pkl", storages: "data" };
    const CONSTANTS: Self = Self { pickle: "constants.pkl", storages: "constants" };
}

/// Where a storage is that is a part of the pickle; `false` where it is beside it.
fn place_inside(index: u32, storages: &Storages, pickle: &StoragePlace, places: &mut [Option<StoragePlace>]) -> bool {
    let kept = &storages.get(index).kept;
    let (Some(whole), Kept::Pickle | Kept::Text(_)) = (storages.find_pickle(), kept) else { return false };
    places[whole as usize] = Some(pickle.clone());
    if let Kept::Text(latin) = kept {
        places[index as usize] = Some(StoragePlace::Text { pickle: whole, latin: latin.clone() });
    }
    true
}

/// Finds the entries of the storages that tensors need, and holds their sizes against what the pickle says.
fn places(
    archive: &TorchArchive,
    folder: Folder,
    Found { storages, values }: Found<'_, '_>,
    tensors: &[(String, View)],
    budget: &Budget,
) -> Result<Vec<Option<StoragePlace>>> {
    let mut places = vec![None; storages.len()];
    // Its checksum is known to be right, as all of it has been read.
    let pickle = archive.place(folder.pickle).map(|(index, entry)| match entry.method {
        Method::Stored => StoragePlace::At(entry.offset),
        _ => StoragePlace::In(index as u32),
    });
    for (name, view) in tensors {
        if view.bytes == 0 || places[view.storage as usize].is_some() {
            continue;
        }
        if pickle.as_ref().is_some_and(|pickle| place_inside(view.storage, storages, pickle, &mut places)) {
            continue;
        }
        let storage = storages.get(view.storage);
        let path = format!("{}/{}", folder.storages, storages.key(view.storage, values));
        let (index, entry) = archive.place(&path).ok_or_else(|| {
            AnamnesisError::parse(format!(
                "tensor {} needs {}, which the archive does not hold",
                quoted(name),
                quoted(&path)
            ))
        })?;
        if entry.bytes != storage.bytes {
            let (found, wanted) = (entry.bytes, storage.bytes);
            let why =
                format!("storage {} takes {wanted} bytes by the pickle, the archive holds {found}", quoted(&path));
            return Err(AnamnesisError::parse(why));
        }
        entry.check_readable("pth", budget)?;
        // Archives have fewer than 2^32 entries.
        places[view.storage as usize] = Some(match entry.method {
            Method::Stored if !has_checksum(entry) => StoragePlace::At(entry.offset),
            _ => StoragePlace::In(index as u32),
        });
    }
    Ok(places)
}

fn stream(source: &(impl ReadAt + ?Sized), wanted: Wanted<'_>, budget: &mut Budget) -> Result<Front> {
    let stream = Stream::read(source, legacy::PICKLES, budget)?;
    let object = legacy::object(&stream, budget)?;
    let root = object.root.ok_or_else(|| AnamnesisError::parse("the pickle holds nothing"))?;
    let mut storages = Storages::default();
    // The sizes of all storages are needed to find any of them.
    for id in object.values.ids() {
        if let Value::Persistent(pid) = object.values.get(id) {
            storages.declare(pid, &object.values)?;
        }
    }
    let Tree { tensors, mut notes } = tree::tensors(root, &object.values, &mut storages, wanted, budget)?;
    let (offsets, behind) = legacy::places(source, &stream, (&storages, &object.values), budget)?;
    let mut places: Vec<_> = offsets.into_iter().map(|offset| offset.map(StoragePlace::At)).collect();
    let pickle = StoragePlace::At(stream.object_start());
    for (name, view) in tensors.iter().filter(|(_, view)| view.bytes > 0) {
        if places[view.storage as usize].is_none() && !place_inside(view.storage, &storages, &pickle, &mut places) {
            return Err(AnamnesisError::parse(format!("the storage of tensor {} is not in the file", quoted(name))));
        }
    }
    if behind > 0 {
        notes.push(Note::new(format!("{behind} bytes behind the last storage were not read")));
    }
    Ok(Front { tensors, places, entries: Vec::new(), notes, big_endian: false })
}
