//! The pickle `.metadata`: the tensors with their chunks, and where each chunk is stored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::NAME;
use crate::container::pth::allow::AllowedGlobals;
use crate::container::pth::element::{self, Element};
use crate::container::pth::pickle::caps::{MAX_PICKLE_WORKING_SET, MAX_PKL_SIZE};
use crate::container::pth::pickle::{self, Id, PickleValues, Value};
use crate::container::pth::view::{check_dims, numbers};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::Source;
use crate::limits::Budget;

/// The content of a distributed checkpoint.
#[derive(Debug, Default)]
pub(super) struct Saved {
    pub(super) tensors: Vec<SavedTensor>,
    /// Values that are not tensors.
    pub(super) objects: Vec<SavedObject>,
    pub(super) version: Option<String>,
}

/// A tensor.
#[derive(Debug)]
pub(super) struct SavedTensor {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) shape: Vec<u64>,
    pub(super) chunks: Vec<Chunk>,
}

/// A part of a tensor that is not empty.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) offsets: Vec<u64>,
    pub(super) sizes: Vec<u64>,
    pub(super) place: Place,
}

/// A value that is not a tensor.
#[derive(Debug)]
pub(super) struct SavedObject {
    pub(super) name: String,
    pub(super) place: Place,
}

/// A range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: Arc<str>,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Maximum number of tensors, chunks and other values together.
const DCP_MAX_ENTRIES: u64 = 1 << 21;
/// Maximum bytes of all entries with their texts.
const DCP_MAX_ENTRY_BYTES: u64 = 192 << 20;
/// Bytes of an entry, without its texts.
const ENTRY_BYTES: u64 = 256;
/// Maximum fields of a record.
const MAX_FIELDS: usize = 64;
/// The modules of the records.
const RECORDS: &str = "torch.distributed.checkpoint.metadata";
const FILES: &str = "torch.distributed.checkpoint.filesystem";

impl Saved {
    /// Reads the metadata.
    pub(super) fn read(source: &dyn Source, budget: &mut Budget) -> Result<Self> {
        let bytes = source.len();
        if bytes > MAX_PKL_SIZE {
            let message = format!("the metadata takes {bytes} bytes, {MAX_PKL_SIZE} are allowed");
            return Err(AnamnesisError::limit("MAX_PKL_SIZE", message));
        }
        budget.buffer(bytes, "the metadata")?;
        let mut text = vec![0; bytes as usize];
        source.read_at(0, &mut text)?;
        let mut globals = AllowedGlobals { script: false };
        let object = pickle::read_within(&text, MAX_PICKLE_WORKING_SET, &mut globals, budget)?;
        if object.bytes < text.len() {
            let trailing = text.len() - object.bytes;
            return Err(AnamnesisError::parse(format!("{trailing} bytes follow the end of the metadata")));
        }
        let root = object.root.ok_or_else(|| AnamnesisError::parse("the metadata is empty"))?;
        Records { values: &object.values, budget, count: 0, bytes: 0 }.saved(root)
    }

    /// All places with the names of their values.
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, &Place)> {
        let chunks = self
            .tensors
            .iter()
            .flat_map(|tensor| tensor.chunks.iter().map(|chunk| (tensor.name.as_str(), &chunk.place)));
        chunks.chain(self.objects.iter().map(|object| (object.name.as_str(), &object.place)))
    }
}

/// The values of the pickle as records.
struct Records<'v, 'a> {
    values: &'v PickleValues<'a>,
    budget: &'v mut Budget,
    count: u64,
    /// Bytes of all entries.
    bytes: u64,
}

/// The name of a value, and the offsets of a chunk.
type Key<'v> = (&'v str, Option<Vec<u64>>);

impl<'v> Records<'v, '_> {
    /// The fields of an object of this class.
    fn fields(&self, id: Id, module: &str, class: &str) -> Result<&'v [(Id, Id)]> {
        let wrong = || AnamnesisError::parse(format!("a {class} is not what it should be"));
        let Value::Object(object) = self.values.get(id) else { return Err(wrong()) };
        let is_class = self.values.global(object.callable).is_some_and(|global| global.is(module, class));
        let state = object.state.map(|state| self.values.get(state));
        match state {
            // Many entries can share one record, and each looks through its fields.
            Some(Value::Dict(fields)) if is_class && fields.len() <= MAX_FIELDS => Ok(fields),
            _ => Err(wrong()),
        }
    }

    fn field(&self, fields: &[(Id, Id)], name: &str) -> Option<Id> {
        // Of a repeated key the last value counts.
        fields.iter().rev().find(|(key, _)| self.values.text(*key) == Some(name)).map(|(_, value)| *value)
    }

    fn needed(&self, fields: &[(Id, Id)], name: &str) -> Result<Id> {
        self.field(fields, name).ok_or_else(|| AnamnesisError::parse(format!("the metadata has no {name}")))
    }

    fn count(&mut self, bytes: usize) -> Result<()> {
        self.count += 1;
        if self.count > DCP_MAX_ENTRIES {
            let message = format!("the metadata has more than {DCP_MAX_ENTRIES} entries");
            return Err(AnamnesisError::limit("DCP_MAX_ENTRIES", message));
        }
        // A short pickle can repeat a long text in many entries.
        let bytes = ENTRY_BYTES + bytes as u64;
        self.bytes += bytes;
        if self.bytes > DCP_MAX_ENTRY_BYTES {
            let message = format!("the entries of the metadata take more than {DCP_MAX_ENTRY_BYTES} bytes");
            return Err(AnamnesisError::limit("DCP_MAX_ENTRY_BYTES", message));
        }
        self.budget.items(self.count, "entries")?;
        self.budget.working_set(bytes, "the metadata")
    }

    fn saved(mut self, root: Id) -> Result<Saved> {
        let fields = self.fields(root, RECORDS, "Metadata")?;
        let stored = self.needed(fields, "storage_data")?;
        let mut places = self.places(stored)?;
        let version = self.field(fields, "version").and_then(|id| self.values.text(id)).map(str::to_owned);
        let mut saved = Saved { version, ..Saved::default() };
        let state = self.needed(fields, "state_dict_metadata")?;
        let Value::Dict(entries) = self.values.get(state) else {
            return Err(AnamnesisError::parse("the metadata's state_dict_metadata is not a dict"));
        };
        for &(key, value) in entries {
            let name =
                self.values.text(key).ok_or_else(|| AnamnesisError::parse("a name of the metadata is not text"))?;
            self.count(name.len())?;
            let in_tensor = |error: AnamnesisError| error.in_tensor(name);
            if self.fields(value, RECORDS, "BytesStorageMetadata").is_ok() || self.is_bytes(value) {
                let place = places.remove(&(name, None));
                let place = place.ok_or_else(|| in_tensor(AnamnesisError::parse("it is stored nowhere")))?;
                saved.objects.push(SavedObject { name: name.to_owned(), place });
                continue;
            }
            let tensor = self.tensor(name, value, &mut places).map_err(in_tensor)?;
            saved.tensors.push(tensor);
        }
        Ok(saved)
    }

    /// Whether a value is a `BytesStorageMetadata`, which has no fields.
    fn is_bytes(&self, id: Id) -> bool {
        let Value::Object(object) = self.values.get(id) else { return false };
        self.values.global(object.callable).is_some_and(|global| global.is(RECORDS, "BytesStorageMetadata"))
    }

    fn tensor(&mut self, name: &'v str, value: Id, places: &mut HashMap<Key<'v>, Place>) -> Result<SavedTensor> {
        let fields = self.fields(value, RECORDS, "TensorStorageMetadata")?;
        let element = self.element(self.needed(fields, "properties")?)?;
        let shape = self.sizes(self.needed(fields, "size")?)?;
        let chunks = self.needed(fields, "chunks")?;
        let Value::List(listed) = self.values.get(chunks) else {
            return Err(AnamnesisError::parse("its chunks are not a list"));
        };
        let (mut chunks, mut repeated) = (Vec::<Chunk>::new(), Vec::new());
        for &chunk in listed {
            self.count(shape.len() * 32)?;
            let fields = self.fields(chunk, RECORDS, "ChunkStorageMetadata")?;
            let offsets = self.sizes(self.needed(fields, "offsets")?)?;
            let sizes = self.sizes(self.needed(fields, "sizes")?)?;
            // Ranks without a share of the tensor have empty chunks.
            if sizes.contains(&0) {
                continue;
            }
            let key = (name, Some(offsets));
            match (places.remove(&key), key.1.unwrap_or_default()) {
                (Some(place), offsets) => chunks.push(Chunk { offsets, sizes, place }),
                (None, offsets) => repeated.push((offsets, sizes)),
            }
        }
        if !repeated.is_empty() {
            // A chunk that is listed twice is stored once.
            let known: HashSet<_> = chunks.iter().map(|chunk| (&chunk.offsets, &chunk.sizes)).collect();
            if let Some((offsets, _)) = repeated.iter().find(|(offsets, sizes)| !known.contains(&(offsets, sizes))) {
                return Err(AnamnesisError::parse(format!("its chunk at {offsets:?} is stored nowhere")));
            }
        }
        Ok(SavedTensor { name: name.to_owned(), element, shape, chunks })
    }

    fn sizes(&self, id: Id) -> Result<Vec<u64>> {
        let sizes = numbers(id, self.values)
            .ok_or_else(|| AnamnesisError::parse("a shape of the metadata is not a list of sizes"))?;
        check_dims(sizes.len())?;
        Ok(sizes)
    }

    /// The element type in the properties of a tensor: the first of a tuple, or a field.
    fn element(&self, id: Id) -> Result<Element> {
        let Value::Object(object) = self.values.get(id) else {
            return Err(AnamnesisError::parse("it has no properties"));
        };
        let dtype = match object.state.map(|state| self.values.get(state)) {
            Some(Value::Tuple([dtype, ..])) => Some(*dtype),
            Some(Value::Dict(fields)) if fields.len() <= MAX_FIELDS => self.field(fields, "dtype"),
            _ => None,
        };
        let global = dtype.and_then(|dtype| self.values.global(dtype)).filter(|global| global.module == "torch");
        let global = global.ok_or_else(|| AnamnesisError::parse("its type is not known"))?;
        element::of_dtype(global.name)
            .ok_or_else(|| AnamnesisError::unsupported(NAME, format!("tensors of type torch.{}", global.name)))
    }

    /// The places of all values.
    fn places(&mut self, id: Id) -> Result<HashMap<Key<'v>, Place>> {
        let Value::Dict(entries) = self.values.get(id) else {
            return Err(AnamnesisError::parse("the metadata's storage_data is not a dict"));
        };
        let (mut places, mut files) = (HashMap::new(), HashMap::<&str, Arc<str>>::new());
        for &(index, info) in entries {
            let index = self.fields(index, RECORDS, "MetadataIndex")?;
            let name = self.needed(index, "fqn")?;
            let name =
                self.values.text(name).ok_or_else(|| AnamnesisError::parse("a name of the metadata is not text"))?;
            let offsets = match self.field(index, "offset") {
                None => None,
                Some(id) if matches!(self.values.get(id), Value::None) => None,
                Some(id) => Some(self.sizes(id).map_err(|error| error.in_tensor(name))?),
            };
            let info = self.fields(info, FILES, "_StorageInfo")?;
            let file = self.needed(info, "relative_path")?;
            let file =
                self.values.text(file).ok_or_else(|| AnamnesisError::parse("a file of the metadata is not named"))?;
            let number = |field: &str| {
                let value = self.needed(info, field)?;
                let value = self.values.int(value).and_then(|value| u64::try_from(value).ok());
                value.ok_or_else(|| AnamnesisError::parse(format!("the {field} of {} is not valid", quoted(name))))
            };
            let (offset, bytes) = (number("offset")?, number("length")?);
            let place = Place { file: Arc::clone(files.entry(file).or_insert_with(|| file.into())), offset, bytes };
            let is_transformed =
                self.field(info, "transform_descriptors").is_some_and(|id| match self.values.get(id) {
                    Value::None => false,
                    Value::List(items) | Value::Tuple(items) => !items.is_empty(),
                    _ => true,
                });
            if is_transformed {
                let why = format!("{} is compressed or otherwise transformed (transform_descriptors)", quoted(name));
                return Err(AnamnesisError::unsupported(NAME, why));
            }
            self.count(0)?;
            let key = (name, offsets);
            if let Some(other) = places.insert(key, place.clone()).filter(|other| *other != place) {
                let (a, b) = (quoted(&other.file), quoted(&place.file));
                return Err(AnamnesisError::parse(format!("a chunk of {} is in {a} and again in {b}", quoted(name))));
            }
        }
        Ok(places)
    }
}
