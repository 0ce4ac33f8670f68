//! The front matter of a file of either format: tensors as views, and the places of their storages.

use super::allow::AllowedGlobals;
use super::archive::{TorchArchive, has_checksum};
use super::latin1::Latin1Text;
use super::legacy::{self, Stream};
use super::pickle::{self, PickleValues, Value};
use super::storage::{StorageData, Storages};
use super::tree::{self, NamedTensors, TensorRequest};
use super::view::View;
use crate::catalog::{Dtype, Note};
use crate::container::options::OpenOptions;
use crate::container::zip::{Entry, Method, begins_archive};
use crate::error::{AnamnesisError, Remedy, Result, quoted};
use crate::io::ReadAt;
use crate::limits::Budget;

/// Maximum ratio of the size of all tensors, which may share storages, to that of the file.
const PTH_MAX_SHARING_RATIO: u64 = 64;

/// Where the bytes of a storage are.
#[derive(Debug, Clone)]
pub(super) enum StoragePlace {
    /// In the file, from this offset on.
    At(u64),
    /// In the archive entry with this index, which is checksummed or compressed.
    In(u32),
    /// In the pickle, encoded as text. `pickle` is the storage that is the pickle itself.
    Text { pickle: u32, latin: Box<Latin1Text> },
}

/// The front matter of a file.
#[derive(Debug)]
pub(crate) struct Front {
    pub(super) tensors: Vec<(String, View)>,
    /// The places of the storages that tensors use.
    pub(super) places: Vec<Option<StoragePlace>>,
    /// The entries of an archive.
    pub(super) entries: Vec<Entry>,
    pub(crate) notes: Vec<Note>,
    pub(crate) big_endian: bool,
}

impl Front {
    /// Name, shape, dtype and size of each tensor.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, &[usize], Dtype, u64)> {
        self.tensors.iter().map(|(name, view)| (name.as_str(), &view.shape[..], view.dtype, view.bytes))
    }

    pub(crate) fn read(source: &(impl ReadAt + ?Sized), options: &OpenOptions, budget: &mut Budget) -> Result<Self> {
        Self::read_as(source, options, false, budget)
    }

    /// [`read`](Self::read) of any value, which need not contain tensors.
    pub(super) fn read_value(
        source: &(impl ReadAt + ?Sized),
        options: &OpenOptions,
        budget: &mut Budget,
    ) -> Result<Self> {
        Self::read_as(source, options, true, budget)
    }

    fn read_as(
        source: &(impl ReadAt + ?Sized),
        options: &OpenOptions,
        accepts_any: bool,
        budget: &mut Budget,
    ) -> Result<Self> {
        let wanted = TensorRequest {
            select: options.select.as_deref(),
            all: options.all,
            skip_unsupported: options.skip_unsupported,
            accepts_any,
        };
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

    /// Checks the size of all tensors against that of the file. Tensors that share a storage are written once per
    /// name: tied weights do so a few times, a decompression bomb thousands of times.
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

fn archive(source: &(impl ReadAt + ?Sized), wanted: TensorRequest<'_>, budget: &mut Budget) -> Result<Front> {
    let archive = TorchArchive::read(source, budget)?;
    let big_endian = archive.is_big_endian(source, budget)?;
    let script = archive.is_script();
    let (object, max_value_bytes) = archive.pickle("data.pkl", source, budget)?.unwrap_or_default();
    let constants = if script { archive.pickle("constants.pkl", source, budget)? } else { None };
    let wants_constants = wanted.select.is_some_and(|path| path == CONSTANTS || path.starts_with("CONSTANTS."));
    let mut front =
        Front { tensors: Vec::new(), places: Vec::new(), entries: Vec::new(), notes: Vec::new(), big_endian };
    if !wants_constants {
        read_tree((&object, max_value_bytes), script, wanted, budget, |tree, found, budget| {
            front.places = locate_storages(&archive, Folder::DATA, found, &tree.tensors, budget)?;
            (front.tensors, front.notes) = (tree.tensors, tree.notes);
            Ok(())
        })?;
    }
    drop(object);
    if let Some((constants, max_value_bytes)) = constants {
        front.constants(&archive, (&constants, max_value_bytes), wanted, budget)?;
    }
    front.notes.extend(match &archive.extra_pickles[..] {
        [] => None,
        [stray] => Some(Note::new(format!("the pickle {} is not part of the object and was not read", quoted(stray)))),
        [first, rest @ ..] => {
            let (first, more) = (quoted(first), rest.len());
            Some(Note::new(format!("the pickle {first} and {more} more are not part of the object and were not read")))
        }
    });
    front.entries = archive.entries;
    Ok(front)
}

/// Prefix of the names of TorchScript constants, as in the code of the archive.
const CONSTANTS: &str = "CONSTANTS";

impl Front {
    /// Adds the constants of a TorchScript archive, if they are selected or if there are no other tensors, as in a
    /// frozen module.
    fn constants(
        &mut self,
        archive: &TorchArchive,
        pickle: (&[u8], u64),
        wanted: TensorRequest<'_>,
        budget: &mut Budget,
    ) -> Result<()> {
        let selected = wanted.select.and_then(|path| path.strip_prefix(CONSTANTS));
        let every = TensorRequest { select: None, all: true, ..wanted };
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
            let mut places = locate_storages(archive, Folder::CONSTANTS, found, &tree.tensors, budget)?;
            // A pickle has fewer storages than bytes.
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

/// The storages that a pickle declares, and the values that contain their keys.
#[derive(Debug, Clone, Copy)]
struct PickleStorages<'v, 'a> {
    storages: &'v Storages,
    values: &'v PickleValues<'a>,
}

/// Finds the tensors of a pickle and passes them on while its values are alive.
fn read_tree(
    (bytes, max_value_bytes): (&[u8], u64),
    script: bool,
    wanted: TensorRequest<'_>,
    budget: &mut Budget,
    then: impl FnOnce(NamedTensors, PickleStorages<'_, '_>, &mut Budget) -> Result<()>,
) -> Result<()> {
    let object = pickle::read_within(bytes, max_value_bytes, &mut AllowedGlobals { script }, budget)?;
    // Python ignores trailing bytes; another reader might not.
    if object.bytes < bytes.len() {
        let trailing_bytes = bytes.len() - object.bytes;
        return Err(AnamnesisError::parse(format!(
            "{trailing_bytes} bytes follow the end of the pickle and belong to nothing"
        )));
    }
    let root = object.root.ok_or_else(|| AnamnesisError::parse("the pickle is empty"))?;
    let mut storages = Storages::default();
    let tree = tree::tensors(root, &object.values, &mut storages, wanted, budget)?;
    then(tree, PickleStorages { storages: &storages, values: &object.values }, budget)
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

/// Sets the place of a storage inside the pickle; `false` if it is outside.
fn locate_in_pickle(
    index: u32,
    storages: &Storages,
    pickle: &StoragePlace,
    places: &mut [Option<StoragePlace>],
) -> bool {
    let kept = &storages.get(index).data;
    let (Some(whole), StorageData::Pickle | StorageData::Text(_)) = (storages.find_pickle(), kept) else {
        return false;
    };
    places[whole as usize] = Some(pickle.clone());
    if let StorageData::Text(latin) = kept {
        places[index as usize] = Some(StoragePlace::Text { pickle: whole, latin: latin.clone() });
    }
    true
}

/// Finds the entries of the storages that tensors use, and checks their sizes against the pickle.
fn locate_storages(
    archive: &TorchArchive,
    folder: Folder,
    PickleStorages { storages, values }: PickleStorages<'_, '_>,
    tensors: &[(String, View)],
    budget: &Budget,
) -> Result<Vec<Option<StoragePlace>>> {
    let mut places = vec![None; storages.len()];
    // The pickle was read completely, so its checksum is verified.
    let pickle = archive.find_indexed(folder.pickle).map(|(index, entry)| match entry.method {
        Method::Stored => StoragePlace::At(entry.offset),
        _ => StoragePlace::In(index as u32),
    });
    for (name, view) in tensors {
        if view.bytes == 0 || places[view.storage as usize].is_some() {
            continue;
        }
        if pickle.as_ref().is_some_and(|pickle| locate_in_pickle(view.storage, storages, pickle, &mut places)) {
            continue;
        }
        let storage = storages.get(view.storage);
        let path = format!("{}/{}", folder.storages, storages.key(view.storage, values));
        let (index, entry) = archive.find_indexed(&path).ok_or_else(|| {
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

fn stream(source: &(impl ReadAt + ?Sized), wanted: TensorRequest<'_>, budget: &mut Budget) -> Result<Front> {
    let stream = Stream::read(source, legacy::PICKLES, budget)?;
    let object = legacy::object(&stream, budget)?;
    let root = object.root.ok_or_else(|| AnamnesisError::parse("the pickle is empty"))?;
    let mut storages = Storages::default();
    // A storage is located by the sizes of all storages before it.
    for id in object.values.ids() {
        if let Value::Persistent(pid) = object.values.get(id) {
            storages.declare(pid, &object.values)?;
        }
    }
    let NamedTensors { tensors, mut notes } = tree::tensors(root, &object.values, &mut storages, wanted, budget)?;
    let (offsets, trailing_bytes) = legacy::locate_storages(source, &stream, (&storages, &object.values), budget)?;
    let mut places: Vec<_> = offsets.into_iter().map(|offset| offset.map(StoragePlace::At)).collect();
    let pickle = StoragePlace::At(stream.object_start());
    for (name, view) in tensors.iter().filter(|(_, view)| view.bytes > 0) {
        if places[view.storage as usize].is_none() && !locate_in_pickle(view.storage, &storages, &pickle, &mut places) {
            return Err(AnamnesisError::parse(format!("the storage of tensor {} is not in the file", quoted(name))));
        }
    }
    if trailing_bytes > 0 {
        notes.push(Note::new(format!("{trailing_bytes} bytes after the last storage were not read")));
    }
    Ok(Front { tensors, places, entries: Vec::new(), notes, big_endian: false })
}
