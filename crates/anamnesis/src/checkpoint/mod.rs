//! Opening an input: its format, its catalog and its sidecars.

mod adapter;
mod components;
mod distributed;
mod files;
mod gptq_format;
mod hub;
mod index;
mod keras;
mod known;
mod listing;
mod locate;
mod located;
mod markers;
mod memory_tensors;
mod metadata;
mod names;
mod ollama;
mod only;
mod origin;
mod parts;
mod sidecars;
mod tensorflow;
mod torch;

use std::collections::HashSet;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::catalog::{Catalog, Extent, Facts, Note, Rounding, StoredTensor};
use crate::container::{self, Format, OpenOptions, Opened};
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::io::{
    BytesSource, FilePool, MAX_OPEN_FILES, PositionedRead, PositionedSource, ReaderSource, Source, entry, open_file,
    open_file_in,
};
use crate::limits::{Budget, ParseLimits};
use crate::quant_config::{DOCUMENTS, Markers, QuantConfig};
use crate::scheme::{self, Claimed, Leftover, ModelClass, Prepared, Recipe, TensorRole, Weight};

use locate::locate;
use located::{Located, Set, file_names};
use sidecars::Sidecars;

pub(crate) use components::MODEL_INDEX;
pub use components::{Component, Components, is_found};
pub(crate) use files::{
    MAX_CONFIG_BYTES, MAX_JSON_VALUES, check_json_values, is_file, read_bounded, read_existing, read_sidecar,
};
pub use hub::{HubSpec, hub_cache};
pub use listing::{TensorSummary, WeightSummary};
pub(crate) use locate::{is_in_store, resolve};
pub(crate) use markers::ENTRY as MARKERS;
pub use memory_tensors::{MemoryTensor, MemoryTensors};
pub use ollama::resolve_ollama_model;
pub use origin::Origin;

/// The tensors of a model, in any format and storage: the input of every operation.
///
/// Opening reads headers, configurations, and small tensors that describe others, but no weights.
///
/// ```no_run
/// use anamnesis::{Checkpoint, ParseLimits, RememberOptions, TargetDtype};
/// let checkpoint = Checkpoint::open("model.safetensors", &ParseLimits::default())?;
/// println!("{}", checkpoint.inspect(&Default::default()));
/// let plan = checkpoint.plan(TargetDtype::BF16)?;
/// plan.write("model-bf16.safetensors", &RememberOptions::new(), |_| {})?;
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
pub struct Checkpoint {
    /// Shared with the plans made from it.
    pub(crate) sources: Arc<Vec<Box<dyn Source>>>,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) catalog: Arc<Catalog>,
    /// The claims of the schemes, computed on first use.
    claimed: OnceLock<Claimed>,
    pub(crate) limits: ParseLimits,
    /// Total size of all its files.
    bytes: u64,
    format: Format,
    sidecars: Sidecars,
    set: Option<Set>,
    origin: Origin,
    /// Whether the caller left out tensors.
    is_partial: bool,
    /// Whether tensors that look packed but belong to no weight are plain data instead of errors.
    allow_unclaimed: bool,
    /// Whether all tensors are treated as plain data.
    plain: bool,
    rounding: Rounding,
}

impl Checkpoint {
    /// Opens a file, a checkpoint directory, an index, one shard of a set, or a model in the local Hugging Face cache
    /// (`hf:org/name`, `hf:org/name@revision`) or Ollama store (`ollama:name:tag`), together with the configuration
    /// in its directory.
    ///
    /// # Errors
    /// `Io` if a file cannot be read, `Parse` if one is malformed, `Unsupported` if its format is not supported,
    /// `LimitExceeded` if it needs more than `limits` allow.
    pub fn open(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<Self> {
        Self::open_with(path, &OpenOptions::new().with_limits(limits.clone()))
    }

    /// [`open`](Self::open) with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let named = Origin::of(path.as_ref());
        let mut checkpoint = match locate(path.as_ref())? {
            Located::File(path) => {
                let checkpoint = Self::open_file_with(path, options)?;
                parts::check_alone(&checkpoint.catalog, checkpoint.format)?;
                checkpoint
            }
            Located::Set(set) => Self::open_set(set, options)?,
        };
        if named.is_store() {
            checkpoint.origin = named;
        }
        Ok(checkpoint)
    }

    /// Opens a single file, even if it is one shard of a set.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_file(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<Self> {
        Self::open_file_with(path, &OpenOptions::new().with_limits(limits.clone()))
    }

    /// [`open_file`](Self::open_file) with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_file_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let mut budget = Budget::new(&options.limits);
        let (bytes, format, Opened { source, mut catalog }) =
            read_file(path, 0, &FilePool::new(1), options, &mut budget)?;
        parts::note_shard(&mut catalog, &path.file_name().unwrap_or_default().to_string_lossy());
        let alone = path.file_name().map(|name| name.to_string_lossy());
        let mut markers = Markers::default();
        markers::read(&catalog, &*source, &mut budget, &mut markers)?;
        let sidecars =
            Sidecars::read(path.parent().unwrap_or(Path::new("")), alone.as_deref(), &catalog, options, &mut budget)?;
        let sidecars = sidecars.with_markers(markers, &catalog);
        let paths = vec![path.to_path_buf()];
        let files = Files { sources: vec![source], paths, catalog, bytes, format };
        Self::assemble(files, sidecars, None, Origin::File(path.to_path_buf()), options)
    }

    fn open_set(set: Set, options: &OpenOptions) -> Result<Self> {
        let mut budget = Budget::new(&options.limits);
        let pool = FilePool::new(MAX_OPEN_FILES);
        let (mut sources, mut paths, mut catalogs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut format, mut bytes, mut markers) = (None, 0, Markers::default());
        let is_in_pieces = set.is_in_pieces();
        for (file, name) in (0..).zip(&set.files) {
            let path = set.directory.join(name);
            let (length, found, Opened { source, mut catalog }) = read_file(&path, file, &pool, options, &mut budget)?;
            bytes += length;
            if let Some(other) = format.replace(found).filter(|other| *other != found) {
                let (this, other) = (found.about().file, other.about().file);
                let why = format!("this is {this}, a file before it in the same set is {other}");
                return Err(AnamnesisError::parse(why).in_file(&path));
            }
            if !is_in_pieces {
                parts::note_shard(&mut catalog, name);
                markers::read(&catalog, &*source, &mut budget, &mut markers).map_err(|error| error.in_file(&path))?;
            }
            sources.push(source);
            paths.push(path);
            catalogs.push(catalog);
        }
        let format = format.ok_or_else(|| AnamnesisError::NoWeights { directory: set.directory.clone() })?;
        parts::check_set(&catalogs, &set.files)?;
        keras::check_groups(&set, &catalogs)?;
        let (sources, catalog) = match is_in_pieces {
            true => distributed::assemble(sources, catalogs, &set.files, &mut budget)?,
            false => (sources, Catalog::merge(catalogs, &set.files)?),
        };
        let sidecars =
            Sidecars::read(&set.directory, None, &catalog, options, &mut budget)?.with_markers(markers, &catalog);
        let files = Files { sources, paths, catalog, bytes, format };
        let origin = Origin::Directory(set.directory.clone());
        Self::assemble(files, sidecars, Some(set), origin, options)
    }

    /// Opens a file in memory. It has no directory, so no configuration is read.
    ///
    /// # Errors
    /// As [`open`](Self::open); the input as a whole counts as one buffer.
    pub fn from_bytes(bytes: Vec<u8>, limits: &ParseLimits) -> Result<Self> {
        Self::from_bytes_with(bytes, &OpenOptions::new().with_limits(limits.clone()))
    }

    /// [`from_bytes`](Self::from_bytes) with options, such as the configuration.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    pub fn from_bytes_with(bytes: Vec<u8>, options: &OpenOptions) -> Result<Self> {
        let mut budget = Budget::new(&options.limits);
        budget.buffer(bytes.len() as u64, "the input")?;
        Self::read(Box::new(BytesSource(bytes)), Origin::Bytes, options, &mut budget)
    }

    /// Opens a file through a reader with `Seek`. Bytes are read when needed; worker threads take turns.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_reader<R: Read + Seek + Send + 'static>(reader: R, limits: &ParseLimits) -> Result<Self> {
        Self::from_reader_with(reader, &OpenOptions::new().with_limits(limits.clone()))
    }

    /// [`from_reader`](Self::from_reader) with options, such as the configuration.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_reader_with<R: Read + Seek + Send + 'static>(reader: R, options: &OpenOptions) -> Result<Self> {
        Self::read(Box::new(ReaderSource::new(reader)?), Origin::Reader, options, &mut Budget::new(&options.limits))
    }

    /// Opens a file through positioned reads, which several threads can do at once. Bytes are read when needed.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_positioned<R: PositionedRead + 'static>(reader: R, options: &OpenOptions) -> Result<Self> {
        Self::read(Box::new(PositionedSource::new(reader)?), Origin::Reader, options, &mut Budget::new(&options.limits))
    }

    fn read(source: Box<dyn Source>, origin: Origin, options: &OpenOptions, budget: &mut Budget) -> Result<Self> {
        let bytes = source.len();
        let (format, Opened { source, mut catalog, .. }) = container::open(source, 0, options, budget)?;
        parts::note_shard(&mut catalog, "");
        let mut markers = Markers::default();
        markers::read(&catalog, &*source, budget, &mut markers)?;
        let sidecars = Sidecars::from_options(&catalog, options, budget)?.with_markers(markers, &catalog);
        let files = Files { sources: vec![source], paths: Vec::new(), catalog, bytes, format };
        Self::assemble(files, sidecars, None, origin, options)
    }

    /// Assembles a checkpoint from files whose headers were read, restricted to the selected weights.
    fn assemble(
        files: Files,
        sidecars: Sidecars,
        set: Option<Set>,
        origin: Origin,
        options: &OpenOptions,
    ) -> Result<Self> {
        let Files { sources, paths, catalog, bytes, format } = files;
        let checkpoint = Self {
            sources: Arc::new(sources),
            paths,
            catalog: Arc::new(catalog),
            claimed: OnceLock::new(),
            limits: options.limits.clone(),
            bytes,
            format,
            sidecars,
            set,
            origin,
            is_partial: false,
            allow_unclaimed: options.allow_unclaimed,
            plain: options.plain,
            rounding: options.rounding,
        };
        match &options.selection {
            Some(selection) => checkpoint.only(selection),
            None => Ok(checkpoint),
        }
    }

    /// The claims of the schemes on the catalog.
    pub(crate) fn claimed(&self) -> &Claimed {
        self.claimed.get_or_init(|| self.claim())
    }

    /// The tensors that are plain data.
    pub(crate) fn plain(&self) -> impl Iterator<Item = &StoredTensor> {
        let roles = &self.claimed().roles;
        let plain = self.catalog.iter().zip(roles).filter(|(_, role)| **role == TensorRole::Passthrough);
        plain.map(|((_, tensor), _)| tensor)
    }

    /// The tensor of this name, if it is plain data.
    pub(crate) fn plain_tensor(&self, name: &str) -> Option<&StoredTensor> {
        let id = self.catalog.find(name)?;
        let is_plain = self.claimed().roles.get(id.index()) == Some(&TensorRole::Passthrough);
        is_plain.then(|| self.catalog.get(id))
    }

    /// The decoder of a weight. Small companions are read here.
    pub(crate) fn prepare(&self, weight: &Weight) -> Result<Prepared> {
        prepare(&self.catalog, &self.sources, weight)
    }

    fn claim(&self) -> Claimed {
        let mut claimed = match self.plain {
            true => Claimed::all_plain(self.catalog.len()),
            false => scheme::claim(
                &self.catalog,
                self.quant_config(),
                &|name| self.sidecars.location_hint(name),
                self.allow_unclaimed,
                self.rounding,
            ),
        };
        let index = self.set.as_ref().filter(|_| !self.is_partial).and_then(|set| Some((set, set.index.as_ref()?)));
        let index_problems = index.map(|(set, (name, index))| index.problems(&self.catalog, &set.files, name));
        let problems = self.sidecars.problems().chain(index_problems.into_iter().flatten());
        claimed.problems.splice(0..0, problems);
        claimed
    }

    /// The class of the model, according to its configuration.
    pub(crate) fn model_class(&self) -> ModelClass<'_> {
        ModelClass::of(self.quant_config().model_types())
    }

    /// The quantisation part of its configuration.
    pub(crate) fn quant_config(&self) -> &QuantConfig {
        self.sidecars.config()
    }

    /// The text of the model's configuration, `config.json` or the caller's; `None` if there is none or it is too long.
    pub(crate) fn model_config(&self) -> Option<&[u8]> {
        self.sidecars.model()
    }

    /// Whether weights are decoded with their library's arithmetic or with a single rounding.
    pub(crate) const fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// Whether the caller left out tensors.
    pub(crate) const fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Where it was opened from.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Total size of the files that hold the tensors.
    #[must_use]
    pub const fn file_bytes(&self) -> u64 {
        self.bytes
    }

    /// The directory of a checkpoint that was opened as a whole.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.set.as_ref().map(|set| set.directory.as_path())
    }

    /// The files of a checkpoint that was opened as a whole, with their names inside its directory.
    pub(crate) fn input_files(&self) -> impl Iterator<Item = (&str, &Path)> {
        let names = self.set.iter().flat_map(|set| set.files.iter().map(String::as_str));
        names.zip(self.paths.iter().map(PathBuf::as_path))
    }

    /// The names of files in its directory that the others refer to and that are read with them.
    pub(crate) fn more_file_names(&self) -> impl Iterator<Item = &str> {
        self.catalog.more_files.iter().filter_map(|path| path.file_name()?.to_str())
    }

    /// The number of sidecars in a checkpoint's directory, without hidden files; 0 for a split GGUF file.
    pub(crate) fn sidecar_count(&self) -> Result<usize> {
        let Some(set) = self.set.as_ref().filter(|_| !self.format.parts_are_one_file()) else { return Ok(0) };
        let names = file_names(&set.directory)?;
        let weights = set.files.iter().map(String::as_str).chain(self.index_name());
        let weights: HashSet<&str> = weights.chain(self.more_file_names()).collect();
        let is_weight = |name: &String| weights.contains(name.as_str());
        Ok(names.iter().filter(|name| !name.starts_with('.') && !is_weight(name)).count())
    }

    /// The name of the checkpoint's index, if it has one.
    pub(crate) fn index_name(&self) -> Option<&str> {
        Some(self.set.as_ref()?.index.as_ref()?.0.as_str())
    }

    /// The configuration files in its directory.
    pub(crate) fn config_files(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut found = Vec::new();
        for (name, directory) in DOCUMENTS.into_iter().zip(self.directory().into_iter().cycle()) {
            let path = directory.join(name);
            if is_file(&path)? {
                found.push((name.to_owned(), path));
            }
        }
        Ok(found)
    }

    /// Descriptions of the configured quantisation, one line per configuration file, for display.
    #[must_use]
    pub fn evidence(&self) -> Vec<String> {
        self.quant_config().evidence()
    }

    /// Remarks on a valid checkpoint, for display: unrelated files in its directory, doubts about a weight, and tensors
    /// that look packed but are treated as plain data.
    #[must_use]
    pub fn oddities(&self) -> Vec<String> {
        let in_directory = self.set.as_ref().map_or_else(Vec::new, |set| self.directory_oddities(set));
        let notes = self.claimed().notes.iter().cloned();
        in_directory.into_iter().chain(notes).chain(self.unclaimed().iter().map(Leftover::to_string)).collect()
    }

    /// The tensors that look like parts of quantised weights but belong to none. They are errors, or [plain
    /// data](Self::unclaimed) if the caller allows it.
    #[must_use]
    pub fn leftovers(&self) -> &[Leftover] {
        &self.claimed().leftovers
    }

    /// The same tensors if they are plain data, by [`OpenOptions::with_allow_unclaimed`]; otherwise empty.
    #[must_use]
    pub fn unclaimed(&self) -> &[Leftover] {
        if self.allow_unclaimed { self.leftovers() } else { &[] }
    }

    fn directory_oddities(&self, set: &Set) -> Vec<String> {
        let index = set.index.as_ref();
        let unlisted = index.and_then(|(name, index)| index.unlisted(&self.catalog, name));
        let ggufs = match locate::unrelated_gguf_count(set) {
            0 => None,
            1 => Some("a GGUF file in the directory is not part of this checkpoint; name it to open it".to_owned()),
            many => {
                Some(format!("{many} GGUF files in the directory are not part of this checkpoint; name one to open it"))
            }
        };
        let modules = self.catalog.iter().filter_map(|(_, tensor)| Some(tensor.name.rsplit_once('.')?.0));
        let unused = self.sidecars.config().unused_groups(&modules.collect::<Vec<_>>());
        unlisted.into_iter().chain(ggufs).chain(unused).collect()
    }

    /// Checksum errors in its files, for display. Reads all bytes if there are checksums.
    pub(crate) fn damage(&self) -> Result<Vec<String>> {
        let mut damage = Vec::new();
        for path in &self.paths {
            damage.extend(self.damage_of(&*open_file(path)?)?);
        }
        Ok(damage)
    }

    /// Checksum errors in one of its files.
    pub(crate) fn damage_of(&self, file: &dyn Source) -> Result<Vec<String>> {
        container::damage(file, self.format, &mut Budget::new(&self.limits))
    }

    /// The format of its files.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Properties of the file beyond its tensors; `None` if the format has none.
    #[must_use]
    pub fn facts(&self) -> Option<&Facts> {
        self.catalog.facts.as_ref()
    }

    /// Notes on how the input was read, such as entries that were left out.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.catalog.notes
    }

    /// The files that hold the tensors; empty if the checkpoint was not opened from files.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The number of files that hold the tensors.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.sources.len()
    }

    /// The number of stored tensors.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.catalog.len()
    }

    /// The stored bytes of a tensor, borrowed from memory or from a memory map of the file. `None` if the
    /// tensor does not exist.
    ///
    /// # Errors
    /// `Io` if the file cannot be mapped.
    pub fn tensor_data(&self, name: &str) -> Result<Option<std::borrow::Cow<'_, [u8]>>> {
        let Some(id) = self.catalog.find(name) else { return Ok(None) };
        let extent = self.catalog.get(id).extent;
        let source = &self.sources[extent.file as usize];
        source.view(extent.offset..extent.offset + extent.bytes).map(Some)
    }

    /// Reads stored bytes of a tensor into `out`, starting at byte `offset` of the tensor. Nothing is mapped.
    ///
    /// ```no_run
    /// use anamnesis::{Checkpoint, ParseLimits};
    /// let checkpoint = Checkpoint::open("model.safetensors", &ParseLimits::default())?;
    /// let mut row = [0; 4096 * 2];
    /// checkpoint.read_tensor_data("model.embed_tokens.weight", 17 * row.len() as u64, &mut row)?;
    /// # Ok::<(), anamnesis::AnamnesisError>(())
    /// ```
    ///
    /// # Errors
    /// `Request` if the tensor does not exist or ends before `out` is full, `Io` if the bytes cannot be read.
    pub fn read_tensor_data(&self, name: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let unknown = || Request::UnknownTensor { name: name.to_owned() };
        let extent = self.catalog.get(self.catalog.find(name).ok_or_else(unknown)?).extent;
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > extent.bytes) {
            let what = format!("{} bytes from byte {offset} of {} on", out.len(), quoted(name));
            return Err(Request::Contradiction { what, why: format!("it has {}", extent.bytes) }.into());
        }
        self.sources[extent.file as usize].read_at(extent.offset + offset, out)
    }
}

/// The files of a checkpoint after their headers are read.
struct Files {
    sources: Vec<Box<dyn Source>>,
    /// Their paths; empty if they are not files of a file system.
    paths: Vec<PathBuf>,
    catalog: Catalog,
    bytes: u64,
    format: Format,
}

/// The decoder of a weight. Small companions that describe it are read and checked here.
pub(crate) fn prepare(catalog: &Catalog, sources: &[Box<dyn Source>], weight: &Weight) -> Result<Prepared> {
    match &weight.recipe {
        Recipe::Ready(decoder) => Ok(Prepared { shape: weight.shape.clone(), decoder: decoder.clone(), coding: None }),
        Recipe::Deferred(prepare) => {
            let read = |part: usize| match weight.parts.get(part) {
                Some(&id) => read_part(sources, catalog.get(id).extent),
                None => Err(AnamnesisError::parse(format!("there is no part {part}"))),
            };
            prepare.prepare(&read).map_err(|error| match weight.parts.first() {
                Some(&codes) => error.in_tensor(&catalog.get(codes).name),
                None => error,
            })
        }
    }
}

/// Maximum size of a companion that is read as a whole.
const MAX_PART_BYTES: u64 = 64 << 20;

/// The bytes of one part of a weight.
fn read_part(sources: &[Box<dyn Source>], part: Extent) -> Result<Vec<u8>> {
    if part.bytes > MAX_PART_BYTES {
        let message = format!("a companion of {} bytes, {MAX_PART_BYTES} are allowed", part.bytes);
        return Err(AnamnesisError::limit("MAX_COMPANION_BYTES", message));
    }
    let mut bytes = vec![0; part.bytes as usize];
    sources[part.file as usize].read_at(part.offset, &mut bytes)?;
    Ok(bytes)
}

/// Opens one file and reads its header; errors name the file.
fn read_file(
    path: &Path,
    file: u32,
    pool: &Arc<FilePool>,
    options: &OpenOptions,
    budget: &mut Budget,
) -> Result<(u64, Format, Opened)> {
    let source = open_file_in(pool, path)?;
    let own_bytes = source.len();
    known::refuse(path, options)
        .and_then(|()| container::open(source, file, options, budget))
        .map(|(format, opened)| {
            let more = opened.catalog.more_files.iter().filter_map(|path| Some(entry(path).ok()??.bytes));
            (own_bytes.saturating_add(more.sum()), format, opened)
        })
        .map_err(|error| known::explain(error, path).in_file(path))
}
