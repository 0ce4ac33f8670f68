//! Storages as declared by the persistent ids of a pickle.
//!
//! | index | content |
//! |---|---|
//! | 0 | `"storage"` |
//! | 1 | the class, for example `torch.FloatStorage` |
//! | 2 | the key of its data |
//! | 3 | the device |
//! | 4 | the number of elements |
//! | 5 | legacy streams only: `None`, or a slice of the storage (key, first element, elements) |

use std::borrow::Cow;
use std::collections::HashMap;

use super::element::{self, Element};
use super::latin1::Latin1Text;
use super::pickle::{Id, PickleValues, Value};
use super::storage_index::StorageIndex;
use crate::error::{AnamnesisError, Result, quoted};

/// The byte order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    /// The byte order of the file.
    OfFile,
    /// That of the machine that wrote the file: untyped storages are not swapped.
    OfMachine,
    Little,
    Big,
}

/// A storage.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) bytes: u64,
    pub(super) data: StorageData,
    /// Bytes per element.
    pub(super) element_bytes: u8,
}

/// The location of a storage's data.
#[derive(Debug)]
pub(super) enum StorageData {
    /// Outside the pickle, under this key.
    External(Id),
    /// The pickle itself, which contains the data of arrays.
    Pickle,
    /// In the pickle, encoded as text.
    Text(Box<Latin1Text>),
}

/// A storage, or a slice of it, that a tensor is a view of.
#[derive(Debug, Clone, Copy)]
pub(super) struct StorageSlice {
    /// Index of the storage.
    pub(super) storage: u32,
    /// The element type of this use of the storage.
    pub(super) element: Element,
    /// Offset and length in bytes.
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) order: ByteOrder,
}

/// The storages of a file, without duplicates. Keys stay in the pickle: there may be a million.
#[derive(Debug, Default)]
pub(super) struct Storages {
    all: Vec<Storage>,
    by_key: StorageIndex,
    pickle: Option<u32>,
    by_text: HashMap<Id, u32>,
}

impl Storages {
    pub(super) fn get(&self, index: u32) -> &Storage {
        &self.all[index as usize]
    }

    /// The storage with this key.
    pub(super) fn find(&self, key: &str, values: &PickleValues<'_>) -> Option<u32> {
        self.by_key.find(key, |index| self.key(index, values) == key).ok()
    }

    /// The key of a storage outside the pickle.
    pub(super) fn key<'v>(&self, index: u32, values: &'v PickleValues<'_>) -> Cow<'v, str> {
        key_of(self.get(index), values)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds a storage; there are fewer of them than bytes in the pickle.
    fn push(&mut self, storage: Storage) -> u32 {
        self.all.push(storage);
        self.all.len() as u32 - 1
    }

    /// The storage that is the pickle itself, added on first use.
    pub(super) fn pickle(&mut self) -> u32 {
        if let Some(index) = self.pickle {
            return index;
        }
        let index = self.push(Storage { bytes: 0, data: StorageData::Pickle, element_bytes: 1 });
        self.pickle = Some(index);
        index
    }

    /// The storage that is the pickle itself, if it is used.
    pub(super) fn find_pickle(&self) -> Option<u32> {
        self.pickle
    }

    /// The storage that is a text of the pickle, and its size.
    pub(super) fn text(&mut self, id: Id, latin: impl FnOnce() -> Result<Latin1Text>) -> Result<(u32, u64)> {
        let index = match self.by_text.get(&id) {
            Some(&index) => index,
            None => {
                self.pickle();
                let latin = Box::new(latin()?);
                let (bytes, data) = (latin.bytes, StorageData::Text(latin));
                let index = self.push(Storage { bytes, data, element_bytes: 1 });
                self.by_text.insert(id, index);
                index
            }
        };
        Ok((index, self.get(index).bytes))
    }

    /// Declares the storage of a persistent id.
    pub(super) fn declare(&mut self, pid: Id, values: &PickleValues<'_>) -> Result<StorageSlice> {
        let fields = values.tuple(pid).filter(|fields| fields.len() >= 5);
        let Some([kind, class, key, _, elements, rest @ ..]) = fields else {
            return Err(AnamnesisError::parse("a persistent id of the pickle is not that of a storage"));
        };
        let kind = name_of(*kind, values);
        if kind.as_deref() != Some("storage") {
            let shown = quoted(&kind.unwrap_or_default());
            return Err(AnamnesisError::parse(format!("a persistent id of kind {shown}, only storages are known")));
        }
        let name = borrowed_name_of(*key, values).ok_or_else(|| AnamnesisError::parse("a storage without a key"))?;
        let (element, order) = class_of(*class, values)?;
        let whole = bytes_of(values.int(*elements), element)
            .ok_or_else(|| AnamnesisError::parse(format!("storage {} has an invalid size", quoted(&name))))?;
        let storage = self.join(*key, &name, element, whole, values)?;
        let part = StorageSlice { storage, element, start: 0, bytes: whole, order };
        match rest.first().map(|view| values.get(*view)) {
            None | Some(Value::None) => Ok(part),
            Some(Value::Tuple([_, first, elements])) => {
                let start = bytes_of(values.int(*first), element);
                let bytes = bytes_of(values.int(*elements), element);
                let (Some(start), Some(bytes)) = (start, bytes) else {
                    return Err(AnamnesisError::parse("a slice of a storage has an invalid size"));
                };
                if start.checked_add(bytes).is_none_or(|end| end > whole) {
                    let key = quoted(&name);
                    let why = format!("a slice of storage {key} ends past its {whole} bytes");
                    return Err(AnamnesisError::parse(why));
                }
                Ok(StorageSlice { start, bytes, ..part })
            }
            Some(_) => Err(AnamnesisError::parse("a storage is a slice of an unknown value")),
        }
    }

    fn join(&mut self, key: Id, name: &str, element: Element, bytes: u64, values: &PickleValues<'_>) -> Result<u32> {
        self.by_key.grow(|index| key_of(&self.all[index as usize], values));
        match self.by_key.find(name, |index| self.key(index, values) == name) {
            Ok(index) => {
                let other = self.get(index).bytes;
                if other != bytes {
                    let sizes = format!("{other} bytes and {bytes} bytes");
                    return Err(AnamnesisError::parse(format!("storage {} is declared with {sizes}", quoted(name))));
                }
                Ok(index)
            }
            Err(slot) => {
                // Elements have a few bytes.
                let index =
                    self.push(Storage { bytes, data: StorageData::External(key), element_bytes: element.bytes as u8 });
                self.by_key.insert(slot, index);
                Ok(index)
            }
        }
    }
}

fn key_of<'v>(storage: &Storage, values: &'v PickleValues<'_>) -> Cow<'v, str> {
    match storage.data {
        StorageData::External(key) => borrowed_name_of(key, values).unwrap_or_default(),
        StorageData::Pickle | StorageData::Text(_) => Cow::Borrowed(""),
    }
}

fn class_of(class: Id, values: &PickleValues<'_>) -> Result<(Element, ByteOrder)> {
    let global = values.global(class).ok_or_else(|| AnamnesisError::parse("a storage without a class"))?;
    if matches!(global.name, "UntypedStorage" | "_UntypedStorage") {
        return Ok((element::BYTE, ByteOrder::OfMachine));
    }
    let element = element::of_storage(global.name).ok_or_else(|| {
        let name = quoted(&format!("{}.{}", global.module, global.name));
        AnamnesisError::unsupported("pth", format!("storages of class {name} are not supported"))
    })?;
    Ok((element, ByteOrder::OfFile))
}

fn bytes_of(elements: Option<i64>, element: Element) -> Option<u64> {
    u64::try_from(elements?).ok()?.checked_mul(element.bytes)
}

/// A string or an integer as a name.
pub(super) fn name_of(id: Id, values: &PickleValues<'_>) -> Option<String> {
    borrowed_name_of(id, values).map(Cow::into_owned)
}

/// A string or an integer as a name, borrowed if it is a string.
pub(super) fn borrowed_name_of<'v>(id: Id, values: &'v PickleValues<'_>) -> Option<Cow<'v, str>> {
    match values.get(id) {
        Value::Text(text) => Some(Cow::Borrowed(text)),
        Value::Int(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}
