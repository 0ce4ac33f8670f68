//! A builder of GGUF files, valid or invalid.

use super::kept::kept;

/// Type tags of metadata values.
pub mod tag {
    pub const U8: u32 = 0;
    pub const U16: u32 = 2;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
}

/// A file under construction, little endian by default.
#[derive(Clone)]
pub struct Gguf {
    pub magic: [u8; 4],
    pub version: u32,
    pub big_endian: bool,
    pub tensor_count: Option<u64>,
    pub entry_count: Option<u64>,
    pub entries: Vec<Vec<u8>>,
    pub tensors: Vec<Vec<u8>>,
    pub alignment: usize,
    pub data: Vec<u8>,
}

impl Default for Gguf {
    fn default() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            big_endian: false,
            tensor_count: None,
            entry_count: None,
            entries: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
            data: Vec::new(),
        }
    }
}

impl Gguf {
    pub fn u32(&self, number: u32) -> Vec<u8> {
        if self.big_endian { number.to_be_bytes().to_vec() } else { number.to_le_bytes().to_vec() }
    }

    pub fn u64(&self, number: u64) -> Vec<u8> {
        if self.big_endian { number.to_be_bytes().to_vec() } else { number.to_le_bytes().to_vec() }
    }

    pub fn text(&self, text: impl AsRef<[u8]>) -> Vec<u8> {
        [self.u64(text.as_ref().len() as u64), text.as_ref().to_vec()].concat()
    }

    /// An entry with the bytes of its value.
    pub fn entry(mut self, key: &str, tag: u32, value: &[u8]) -> Self {
        self.entries.push([self.text(key), self.u32(tag), value.to_vec()].concat());
        self
    }

    pub fn number(self, key: &str, number: u32) -> Self {
        let value = self.u32(number);
        self.entry(key, tag::U32, &value)
    }

    pub fn string(self, key: &str, text: &str) -> Self {
        let value = self.text(text);
        self.entry(key, tag::STRING, &value)
    }

    /// A tensor's entry; the data is not touched.
    pub fn tensor(mut self, name: &str, dims: &[u64], type_id: u32, offset: u64) -> Self {
        let dims_bytes: Vec<u8> = dims.iter().flat_map(|&dim| self.u64(dim)).collect();
        let rank = self.u32(dims.len() as u32);
        let place = [self.u32(type_id), self.u64(offset)].concat();
        self.tensors.push([self.text(name), rank, dims_bytes, place].concat());
        self
    }

    pub fn data(mut self, bytes: usize) -> Self {
        self.data = (0..bytes).map(|index| index as u8).collect();
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let count = |declared: Option<u64>, items: &[Vec<u8>]| self.u64(declared.unwrap_or(items.len() as u64));
        let mut bytes = self.magic.to_vec();
        bytes.extend(self.u32(self.version));
        bytes.extend(count(self.tensor_count, &self.tensors));
        bytes.extend(count(self.entry_count, &self.entries));
        bytes.extend(self.entries.concat());
        bytes.extend(self.tensors.concat());
        if !self.tensors.is_empty() {
            bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        }
        bytes.extend(&self.data);
        kept(bytes)
    }
}
