//! Pickles and PyTorch archives written by hand.

use super::kept::kept;
use super::zip::{Entry, archive};

/// A pickle under construction: a method per instruction.
#[derive(Clone, Default)]
pub struct Pickle(pub Vec<u8>);

impl Pickle {
    pub fn new() -> Self {
        Self(vec![0x80, 2])
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub fn int(self, value: i64) -> Self {
        self.raw(&[0x8a, 8]).raw(&value.to_le_bytes())
    }

    pub fn text(self, text: &str) -> Self {
        self.raw(b"X").raw(&(text.len() as u32).to_le_bytes()).raw(text.as_bytes())
    }

    pub fn global(self, module: &str, name: &str) -> Self {
        self.raw(format!("c{module}\n{name}\n").as_bytes())
    }

    pub fn mark(self) -> Self {
        self.raw(b"(")
    }

    pub fn tuple(self) -> Self {
        self.raw(b"t")
    }

    /// A tuple of numbers.
    pub fn numbers(self, numbers: &[i64]) -> Self {
        numbers.iter().fold(self.mark(), |pickle, &number| pickle.int(number)).tuple()
    }

    /// The storage of `elements` floats under `key`.
    pub fn storage(self, key: &str, elements: i64) -> Self {
        let named = self.mark().text("storage").global("torch", "FloatStorage").text(key);
        named.text("cpu").int(elements).tuple().raw(b"Q")
    }

    /// A float tensor that is a view of a storage.
    pub fn tensor(self, key: &str, elements: i64, offset: i64, shape: &[i64], strides: &[i64]) -> Self {
        let parts = self.global("torch._utils", "_rebuild_tensor_v2").mark().storage(key, elements).int(offset);
        parts.numbers(shape).numbers(strides).raw(b"\x89").global("collections", "OrderedDict").raw(b")RtR")
    }

    pub fn stop(self) -> Vec<u8> {
        self.raw(b".").0
    }

    /// A dict of one entry.
    pub fn only(self, key: &str, value: impl FnOnce(Self) -> Self) -> Vec<u8> {
        value(self.raw(b"}").text(key)).raw(b"s").stop()
    }
}

/// An archive with a pickle and the storages `data/0`, `data/1`, ….
pub fn torch_archive(pickle: &[u8], storages: &[&[u8]]) -> Vec<u8> {
    let mut entries = vec![Entry::stored("archive/data.pkl", pickle)];
    entries
        .extend(storages.iter().enumerate().map(|(key, bytes)| Entry::stored(&format!("archive/data/{key}"), bytes)));
    archive(&entries)
}

/// A legacy stream of an object and the storages behind it.
pub fn legacy_stream(object: &[u8], keys: &[&str], storages: &[(i64, &[u8])]) -> Vec<u8> {
    let mut bytes = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}.".to_vec();
    bytes.extend(object);
    let list = keys.iter().fold(Pickle::new().raw(b"]("), |list, key| list.text(key)).raw(b"e").stop();
    bytes.extend(list);
    for (elements, data) in storages {
        bytes.extend(elements.to_le_bytes());
        bytes.extend(*data);
    }
    kept(bytes)
}
