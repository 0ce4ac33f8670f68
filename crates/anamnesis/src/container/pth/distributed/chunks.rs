//! Reading the archives of a distributed checkpoint, and putting chunks together.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::NAME;
use super::metadata::{Place, Saved, SavedObject, SavedTensor};
use crate::catalog::{Dtype, Extent, Note, StoredTensor, Unreadable};
use crate::container::options::OpenOptions;
use crate::container::pieces::{Assembled, Piece};
use crate::container::pth::{Front, PthFile, arrange};
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::io::{
    ArrangedSource, FilePool, JoinedSource, Links, MAX_OPEN_FILES, SlicedSource, Source, file_named_by, open_file_in,
};
use crate::limits::{Budget, ParseLimits};

/// Maximum ratio of the sizes of all tensors, and of all archives, to that of all files.
const DCP_MAX_SHARING_RATIO: u64 = 64;
/// Bytes of an opened chunk.
const CHUNK_BYTES: u64 = 1 << 10;

/// A checkpoint whose tensors can be read.
pub(super) struct ReadChunks {
    pub(super) source: Box<dyn Source>,
    pub(super) tensors: Vec<StoredTensor>,
    pub(super) notes: Vec<Note>,
    pub(super) unreadable: Vec<Unreadable>,
    /// The files of the ranks.
    pub(super) files: Vec<PathBuf>,
}

/// The files of the ranks.
pub(super) struct ChunkFiles {
    /// The metadata, followed by the archives of all chunks.
    joined: Option<JoinedSource>,
    directory: Option<PathBuf>,
    pool: Arc<FilePool>,
    open: HashMap<Arc<str>, Arc<dyn Source>>,
    paths: Vec<PathBuf>,
    /// The bytes of all files, and of the archives that were read from them.
    file_bytes: u64,
    archive_bytes: u64,
}

impl ChunkFiles {
    /// The files next to the metadata, and a source for their chunks.
    pub(super) fn new(metadata: Box<dyn Source>) -> Self {
        let files = Self::beside(&*metadata);
        Self { joined: Some(JoinedSource::new(metadata)), ..files }
    }

    /// The files next to the metadata.
    pub(super) fn beside(metadata: &dyn Source) -> Self {
        let directory = metadata.path().map(|path| path.parent().unwrap_or(Path::new("")).to_path_buf());
        Self {
            joined: None,
            directory,
            pool: FilePool::new(MAX_OPEN_FILES),
            open: HashMap::new(),
            paths: Vec::new(),
            file_bytes: 0,
            archive_bytes: 0,
        }
    }

    /// A range of a file.
    pub(super) fn slice(&mut self, place: &Place) -> Result<SlicedSource<Arc<dyn Source>>> {
        let file = match self.open.get(&place.file) {
            Some(file) => Arc::clone(file),
            None => self.open(&place.file)?,
        };
        let held = file.len();
        SlicedSource::new(file, place.offset, place.bytes).ok_or_else(|| {
            let Place { file, offset, bytes } = place;
            let why = format!("it is {bytes} bytes from byte {offset} of {}, which has {held}", quoted(file));
            AnamnesisError::parse(why)
        })
    }

    fn open(&mut self, name: &Arc<str>) -> Result<Arc<dyn Source>> {
        let Some(directory) = &self.directory else {
            let why = "its chunks are in other files, and the metadata was not opened as a file";
            return Err(AnamnesisError::unsupported(NAME, why));
        };
        let path = file_named_by("the metadata", directory, name, Links::Inside)?;
        let file: Arc<dyn Source> = Arc::from(open_file_in(&self.pool, &path)?);
        self.file_bytes = self.file_bytes.saturating_add(file.len());
        self.paths.push(path);
        self.open.insert(Arc::clone(name), Arc::clone(&file));
        Ok(file)
    }

    /// Reads the archive of a chunk, and adds it to the joined source: its tensors with their offsets there.
    fn archive(&mut self, place: &Place, options: &OpenOptions, budget: &mut Budget) -> Result<Vec<StoredTensor>> {
        let slice = self.slice(place)?;
        self.archive_bytes = self.archive_bytes.saturating_add(place.bytes);
        self.check_sharing(self.archive_bytes, "archives")?;
        budget.working_set(CHUNK_BYTES, "the chunks")?;
        let front = Front::read_value(&slice, options, budget)?;
        let PthFile { source, mut tensors, .. } = arrange(front, Box::new(slice))?;
        let joined = self.joined.as_mut().ok_or_else(|| AnamnesisError::internal("chunks without a source"))?;
        let start = joined.add(source)?;
        tensors.iter_mut().for_each(|tensor| tensor.extent.offset += start);
        Ok(tensors)
    }

    /// Refuses values that take far more bytes than all files together: they would be read many times.
    fn check_sharing(&self, bytes: u64, what: &str) -> Result<()> {
        let (held, ratio) = (self.file_bytes, DCP_MAX_SHARING_RATIO);
        if bytes <= held.saturating_mul(ratio) {
            return Ok(());
        }
        let message =
            format!("the {what} take {bytes} bytes together, the files hold {held}: {ratio} times are allowed");
        Err(AnamnesisError::limit("DCP_MAX_SHARING_RATIO", message))
    }

    /// Reads all selected values.
    pub(super) fn read(
        mut self,
        saved: Saved,
        file: u32,
        options: &OpenOptions,
        budget: &mut Budget,
    ) -> Result<ReadChunks> {
        let selected = Selected::new(&saved, options)?;
        let every = OpenOptions::new().with_limits(ParseLimits::unbounded()).with_all(true);
        let every = every.with_skip_unsupported(options.skip_unsupported);
        let (mut located, mut left_out) = (Vec::new(), LeftOut::default());
        for tensor in &saved.tensors {
            let Some(name) = selected.name(&tensor.name) else { continue };
            let located_tensor = self.tensor(tensor, &every, budget).map_err(|error| error.in_tensor(&tensor.name));
            match located_tensor {
                Ok((dtype, pieces)) => located.push((name, dtype, tensor.shape.clone(), pieces)),
                Err(AnamnesisError::Unsupported { detail, .. }) => left_out.unsupported.push(detail),
                Err(error) => return Err(error),
            }
        }
        for object in &saved.objects {
            let Some(name) = selected.name(&object.name) else { continue };
            self.object(object, &name, &every, budget, &mut located, &mut left_out)
                .map_err(|error| error.in_tensor(&object.name))?;
        }
        let joined = self.joined.take().ok_or_else(|| AnamnesisError::internal("chunks without a source"))?;
        let mut source = ArrangedSource::new(Box::new(joined));
        let (mut tensors, mut total) = (Vec::with_capacity(located.len()), 0u64);
        for (name, dtype, dims, pieces) in located {
            let tensor =
                stored(&mut source, &name, dtype, &dims, pieces, file).map_err(|error| error.in_tensor(&name))?;
            total = total.saturating_add(tensor.extent.bytes);
            tensors.push(tensor);
        }
        self.check_sharing(total, "tensors")?;
        let (notes, unreadable) = left_out.into_notes(options.skip_unsupported);
        Ok(ReadChunks { source: Box::new(source), tensors, notes, unreadable, files: self.paths })
    }

    /// The pieces of a tensor.
    fn tensor(
        &mut self,
        tensor: &SavedTensor,
        every: &OpenOptions,
        budget: &mut Budget,
    ) -> Result<(Dtype, Vec<Piece>)> {
        let dtype = tensor.element.dtype.ok_or_else(|| {
            AnamnesisError::unsupported(NAME, format!("tensors of type torch.{}", tensor.element.name))
        })?;
        let mut pieces = Vec::with_capacity(tensor.chunks.len());
        for chunk in &tensor.chunks {
            let found = self.archive(&chunk.place, every, budget)?;
            let at = |error: AnamnesisError| error.within(format_args!("the chunk at {:?}", chunk.offsets));
            let [found] = &found[..] else {
                return Err(at(AnamnesisError::parse(format!("it has {} tensors instead of one", found.len()))));
            };
            let is_size = found.shape.iter().map(|dim| *dim as u64).eq(chunk.sizes.iter().copied());
            if !is_size || found.dtype != dtype {
                let (sizes, shape, other) = (&chunk.sizes, &found.shape, found.dtype);
                let why = format!("the metadata has {dtype} {sizes:?}, the file {other} {shape:?}");
                return Err(at(AnamnesisError::parse(why)));
            }
            let (offsets, sizes) = (chunk.offsets.clone(), chunk.sizes.clone());
            pieces.push(Piece { offsets, sizes, at: found.extent.offset });
        }
        Ok((dtype, pieces))
    }

    /// The tensors inside another value.
    fn object(
        &mut self,
        object: &SavedObject,
        name: &str,
        every: &OpenOptions,
        budget: &mut Budget,
        located: &mut Vec<(String, Dtype, Vec<u64>, Vec<Piece>)>,
        left_out: &mut LeftOut,
    ) -> Result<()> {
        let tensors = match self.archive(&object.place, every, budget) {
            Ok(tensors) => tensors,
            Err(AnamnesisError::Unsupported { detail, .. }) => {
                left_out.unsupported.push(format!("{}: {detail}", quoted(name)));
                return Ok(());
            }
            Err(error @ AnamnesisError::DisallowedGlobal { .. }) => {
                left_out.unsupported.push(format!("{}: {error}", quoted(name)));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if tensors.is_empty() {
            left_out.values += 1;
        }
        for tensor in tensors {
            let full = if tensor.name == "tensor" { name.to_owned() } else { format!("{name}.{}", tensor.name) };
            let sizes: Vec<u64> = tensor.shape.iter().map(|dim| *dim as u64).collect();
            let whole = Piece { offsets: vec![0; sizes.len()], sizes: sizes.clone(), at: tensor.extent.offset };
            let pieces = if sizes.contains(&0) { Vec::new() } else { vec![whole] };
            located.push((full, tensor.dtype, sizes, pieces));
        }
        Ok(())
    }
}

/// A tensor of the catalog: a single piece as it is stored, or several put together.
fn stored(
    source: &mut ArrangedSource,
    name: &str,
    dtype: Dtype,
    dims: &[u64],
    pieces: Vec<Piece>,
    file: u32,
) -> Result<StoredTensor> {
    let too_large = || AnamnesisError::parse(format!("a tensor of shape {dims:?} is too large"));
    let shape = dims.iter().map(|dim| usize::try_from(*dim).map_err(|_| too_large()));
    let shape = shape.collect::<Result<Vec<usize>>>()?;
    let elements = crate::catalog::dtype::elements(&shape).ok_or_else(too_large)?;
    let bytes = dtype.byte_len(elements).ok_or_else(too_large)?;
    let whole = match &pieces[..] {
        [piece] if piece.sizes == dims => Some(piece.at),
        _ => None,
    };
    let assembled = Assembled::new(dims, dtype.byte_size() as u64, pieces)?;
    let offset = match whole {
        Some(offset) => offset,
        None if elements == 0 => 0,
        None => source.add(Box::new(assembled))?,
    };
    Ok(StoredTensor { name: name.to_owned(), dtype, shape, extent: Extent { file, offset, bytes } })
}

/// The selected part of a checkpoint.
struct Selected<'o> {
    path: Option<&'o str>,
}

impl<'o> Selected<'o> {
    fn new(saved: &Saved, options: &'o OpenOptions) -> Result<Self> {
        let selected = Self { path: options.select.as_deref() };
        let names = || {
            let tensors = saved.tensors.iter().map(|tensor| tensor.name.as_str());
            tensors.chain(saved.objects.iter().map(|object| object.name.as_str()))
        };
        match selected.path {
            Some(path) if !names().any(|name| selected.name(name).is_some()) => {
                let mut first: Vec<&str> = names().map(|name| name.split('.').next().unwrap_or(name)).collect();
                first.sort_unstable();
                first.dedup();
                let listed: Vec<String> = first.iter().take(MAX_LISTED).map(|name| quoted(name)).collect();
                let (path, missing) = (path.to_owned(), path.to_owned());
                Err(Request::UnknownPart { path, missing, found: listed.join(", ") }.into())
            }
            _ => Ok(selected),
        }
    }

    /// The name of a selected value below the path.
    fn name(&self, name: &str) -> Option<String> {
        match self.path {
            None => Some(name.to_owned()),
            Some(path) if name == path => Some(name.rsplit('.').next().unwrap_or(name).to_owned()),
            Some(path) => Some(name.strip_prefix(path)?.strip_prefix('.')?.to_owned()),
        }
    }
}

/// Names that are listed in an error.
const MAX_LISTED: usize = 8;

/// Values that are not read.
#[derive(Default)]
struct LeftOut {
    /// Values without tensors.
    values: usize,
    unsupported: Vec<String>,
}

impl LeftOut {
    fn into_notes(self, skips: bool) -> (Vec<Note>, Vec<Unreadable>) {
        let mut notes = Vec::new();
        if self.values > 0 {
            let noun = if self.values == 1 { "value that is not a tensor" } else { "values that are not tensors" };
            notes.push(Note::new(format!("left out {} {noun}", self.values)));
        }
        let unreadable = match (skips, self.unsupported.first()) {
            (true, Some(first)) => {
                let count = self.unsupported.len();
                let noun = if count == 1 { "value" } else { "values" };
                notes.push(Note::new(format!("left out {count} unsupported {noun}: {first}")));
                Vec::new()
            }
            _ => self.unsupported.into_iter().map(|why| Unreadable { format: NAME, why }).collect(),
        };
        (notes, unreadable)
    }
}
