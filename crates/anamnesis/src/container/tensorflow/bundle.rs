//! The tensors of a checkpoint: entries of the index with the bytes they refer to in data files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::crc32c::{combine, crc32c, masked};
use super::entry::{Entry, Header, dtype};
use super::slices::slice_key;
use super::table::{Pair, read_table};
use crate::catalog::dtype::elements;
use crate::catalog::{Catalog, Dtype, Extent, Facts, Note, StoredTensor, Subject, Unreadable};
use crate::container::checked::{Checked, Summed, is_same};
use crate::container::interface::Opened;
use crate::container::options::OpenOptions;
use crate::container::pages::Pages;
use crate::container::pieces::{Assembled, Piece};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{
    ArrangedSource, FilePool, JoinedSource, Links, MAX_OPEN_FILES, Region, Source, file_named_by, open_file,
    open_file_in,
};
use crate::limits::Budget;

/// The object graph of TensorFlow 2, which is no tensor of the model.
const OBJECT_GRAPH: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";
/// Maximum number of entries: a few bytes of an index are one, and each takes several hundred bytes of memory.
const TENSORFLOW_MAX_ENTRIES: usize = 1 << 18;
/// Maximum slices of one variable: each is compared with every other.
const MAX_SLICES: usize = 4096;
/// Bytes that are read at a time to verify checksums.
const PASS_BYTES: u64 = 1 << 20;

/// The bytes of a tensor with their checksum.
struct Stored {
    name: String,
    offset: u64,
    bytes: u64,
    /// Masked.
    crc: u32,
}

impl Summed for Stored {
    fn place(&self) -> (u64, u64) {
        (self.offset, self.bytes)
    }

    fn crc(bytes: &[u8]) -> u32 {
        crc32c(bytes)
    }

    fn combine(first: u32, second: u32, second_bytes: u64) -> u32 {
        combine(first, second, second_bytes)
    }

    fn check(&self, found: u32) -> Result<()> {
        let (found, wanted) = (masked(found), self.crc);
        if is_same(found, wanted) {
            return Ok(());
        }
        let name = quoted(&self.name);
        Err(AnamnesisError::parse(format!(
            "tensor {name} is damaged: its checksum is {found:08x}, {wanted:08x} was written"
        )))
    }
}

/// The index, parsed.
struct Index {
    header: Header,
    /// Tensors in order of their names.
    tensors: Vec<(String, Entry)>,
    /// Slices by their keys.
    slices: BTreeMap<Vec<u8>, Entry>,
}

impl Index {
    fn read(source: &dyn Source, budget: &mut Budget) -> Result<Self> {
        let pairs = read_table(&Pages::new(source), budget)?;
        if pairs.len() > TENSORFLOW_MAX_ENTRIES {
            let why = format!("{} entries, {TENSORFLOW_MAX_ENTRIES} are allowed", pairs.len());
            return Err(AnamnesisError::limit("TENSORFLOW_MAX_ENTRIES", why));
        }
        budget.items(pairs.len() as u64, "entries")?;
        budget.working_set((pairs.len() * size_of::<(String, Entry)>()) as u64, "the entries of the index")?;
        let mut pairs = pairs.into_iter();
        let header = match pairs.next() {
            Some(Pair { key, value }) if key.is_empty() => Header::parse(&value)?,
            _ => return Err(AnamnesisError::parse("the index has no header")),
        };
        if header.is_big_endian {
            return Err(AnamnesisError::unsupported(super::NAME, "it is big-endian"));
        }
        let (mut tensors, mut slices) = (Vec::new(), BTreeMap::new());
        for Pair { key, value } in pairs {
            let place = String::from_utf8_lossy(&key).into_owned();
            let entry = Entry::parse(&value).map_err(|error| error.in_tensor(&place))?;
            if entry.file >= header.files {
                let why = format!("it is in data file {} of {}", entry.file, header.files);
                return Err(AnamnesisError::parse(why).in_tensor(&place));
            }
            match key.first() {
                Some(0) => drop(slices.insert(key, entry)),
                _ => tensors.push((
                    String::from_utf8(key)
                        .map_err(|_| AnamnesisError::parse("a name is not UTF-8").in_tensor(&place))?,
                    entry,
                )),
            }
        }
        Ok(Self { header, tensors, slices })
    }

    /// The numbers of the data files that tensors are in.
    fn files(&self) -> std::collections::BTreeSet<u32> {
        let stored = self.tensors.iter().map(|(_, entry)| entry).chain(self.slices.values());
        stored.filter(|entry| entry.slices.is_empty() && entry.bytes > 0).map(|entry| entry.file).collect()
    }
}

/// The data files of an index, by their numbers.
fn data_files(path: Option<&Path>, index: &Index) -> Result<BTreeMap<u32, PathBuf>> {
    let Some(path) = path else {
        let why = "its tensors are in files next to the index, so it is opened by its path";
        return Err(AnamnesisError::unsupported(super::NAME, why));
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = name.strip_suffix(".index").unwrap_or(&name);
    let directory = path.parent().unwrap_or(Path::new(""));
    let count = index.header.files;
    let file = |number: u32| {
        let name = format!("{prefix}.data-{number:05}-of-{count:05}");
        Ok((number, file_named_by("the index", directory, &name, Links::Inside)?))
    };
    index.files().into_iter().map(file).collect()
}

pub(super) fn open(source: Box<dyn Source>, file: u32, options: &OpenOptions, budget: &mut Budget) -> Result<Opened> {
    let index = Index::read(&*source, budget)?;
    let paths = data_files(source.path(), &index)?;
    let (pool, mut joined) = (FilePool::new(MAX_OPEN_FILES), JoinedSource::new(source));
    let mut files = BTreeMap::new();
    for (&number, path) in &paths {
        let data = open_file_in(&pool, path)?;
        let bytes = data.len();
        files.insert(number, (joined.add(data)?, bytes));
    }
    let mut bundle = Bundle { arranged: ArrangedSource::new(Box::new(joined)), files, slices: index.slices };
    let (mut tensors, mut notes, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    for (name, entry) in index.tensors {
        let dtype = match dtype(entry.kind) {
            Ok(dtype) => dtype,
            Err(_) if name == OBJECT_GRAPH => continue,
            Err(kind) => {
                let why = format!("tensor {} has type {kind}", quoted(&name));
                match options.skip_unsupported {
                    true => notes.push(Note::new(format!("left out: {why}"))),
                    false => unreadable.push(Unreadable { format: super::NAME, why }),
                }
                continue;
            }
        };
        let tensor = bundle.tensor(&name, &entry, dtype).map_err(|error| error.in_tensor(&name))?;
        let (offset, bytes, shape) = tensor;
        tensors.push(StoredTensor { name, dtype, shape, extent: Extent { file, offset, bytes } });
    }
    if let Some(key) = bundle.slices.keys().next() {
        let key = String::from_utf8_lossy(key);
        return Err(AnamnesisError::parse(format!("the slice {} belongs to no tensor", quoted(&key))));
    }
    let mut catalog = Catalog::new(tensors, None)?;
    catalog.holds_plain_arrays = true;
    catalog.types_are_final = true;
    (catalog.notes, catalog.unreadable) = (notes, unreadable);
    let count = index.header.files.to_string();
    catalog.facts = Some(Facts::new(super::NAME).with(Subject::Layout, "Data files", count));
    catalog.more_files = paths.into_values().collect();
    Ok(Opened { source: Box::new(bundle.arranged), catalog })
}

/// Every tensor whose checksum is not that of its bytes.
pub(super) fn damage(source: &dyn Source, budget: &mut Budget) -> Result<Vec<String>> {
    let Some(path) = source.path() else { return Ok(Vec::new()) };
    let index = open_file(path)?;
    let options = OpenOptions::new().with_skip_unsupported(true);
    let Opened { source, catalog, .. } = open(index, 0, &options, budget)?;
    let (mut damage, mut buffer) = (Vec::new(), vec![0; PASS_BYTES as usize]);
    for (_, tensor) in catalog.iter() {
        let Extent { offset, bytes, .. } = tensor.extent;
        let mut at = 0;
        while at < bytes {
            let piece = &mut buffer[..PASS_BYTES.min(bytes - at) as usize];
            match source.read_at(offset + at, piece) {
                Ok(()) => at += piece.len() as u64,
                Err(AnamnesisError::Parse { reason }) => {
                    damage.push(reason);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(damage)
}

/// The files of a checkpoint, and the slices that belong to no tensor yet.
struct Bundle {
    arranged: ArrangedSource,
    /// The offset and the length of each data file.
    files: BTreeMap<u32, (u64, u64)>,
    slices: BTreeMap<Vec<u8>, Entry>,
}

impl Bundle {
    /// The offset, the size and the shape of a tensor.
    fn tensor(&mut self, name: &str, entry: &Entry, dtype: Dtype) -> Result<(u64, u64, Vec<usize>)> {
        let shape = shape(&entry.shape)?;
        let (offset, bytes) = match entry.slices.is_empty() {
            true => self.stored(name, entry, &shape, dtype, true)?,
            false => self.partitioned(name, entry, dtype)?,
        };
        Ok((offset, bytes, shape))
    }

    /// The region of stored bytes and its size.
    fn stored(
        &mut self,
        name: &str,
        entry: &Entry,
        shape: &[usize],
        dtype: Dtype,
        is_whole: bool,
    ) -> Result<(u64, u64)> {
        let wanted = elements(shape).and_then(|elements| dtype.byte_len(elements));
        if wanted != Some(entry.bytes) {
            return Err(AnamnesisError::parse(format!(
                "its shape {shape:?} of {dtype} does not take {} bytes",
                entry.bytes
            )));
        }
        if entry.bytes == 0 {
            return Ok((0, 0));
        }
        let (start, length) = self.files.get(&entry.file).copied().unwrap_or_default();
        if entry.offset.checked_add(entry.bytes).is_none_or(|end| end > length) {
            return Err(AnamnesisError::parse(format!(
                "{} bytes at {} were expected, its data file ends at byte {length}",
                entry.bytes, entry.offset
            )));
        }
        let crc = entry.crc.unwrap_or_default();
        let stored = Stored { name: name.to_owned(), offset: start + entry.offset, bytes: entry.bytes, crc };
        let region: Box<dyn Region> = match is_whole {
            true => Box::new(Checked::incremental(0, stored)),
            false => Box::new(Checked::upfront(0, stored)),
        };
        Ok((self.arranged.add(region)?, entry.bytes))
    }

    /// The region of a partitioned tensor and its size.
    fn partitioned(&mut self, name: &str, entry: &Entry, dtype: Dtype) -> Result<(u64, u64)> {
        let fault = |why: String| AnamnesisError::parse(why);
        if entry.slices.len() > MAX_SLICES {
            let why = format!("{} slices, {MAX_SLICES} are allowed", entry.slices.len());
            return Err(AnamnesisError::limit("MAX_SLICES", why));
        }
        let mut pieces = Vec::with_capacity(entry.slices.len());
        for extents in &entry.slices {
            let slice = self
                .slices
                .remove(&slice_key(name.as_bytes(), extents))
                .ok_or_else(|| fault(format!("one of its {} slices is missing", entry.slices.len())))?;
            let offsets: Vec<u64> = extents.iter().map(|extent| extent.start).collect();
            let sizes: Vec<u64> =
                extents.iter().zip(&entry.shape).map(|(extent, &all)| extent.length.unwrap_or(all)).collect();
            if slice.kind != entry.kind || slice.shape != sizes || !slice.slices.is_empty() {
                return Err(fault(format!("a slice of shape {:?} at {offsets:?} does not fit it", slice.shape)));
            }
            let (at, bytes) = self.stored(name, &slice, &shape(&slice.shape)?, dtype, false)?;
            if bytes > 0 {
                pieces.push(Piece { offsets, sizes, at });
            }
        }
        let assembled = Assembled::new(&entry.shape, dtype.byte_size() as u64, pieces)?;
        let bytes = assembled.len();
        Ok((self.arranged.add(Box::new(assembled))?, bytes))
    }
}

fn shape(sizes: &[u64]) -> Result<Vec<usize>> {
    let size = |&size: &u64| usize::try_from(size).map_err(|_| AnamnesisError::parse(format!("a dimension is {size}")));
    sizes.iter().map(size).collect()
}
