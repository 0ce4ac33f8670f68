//! A parsed GGUF file, of which any field can be written wrong. Little-endian only.

use crate::support::gguf::Gguf;

/// A tensor's entry and its bytes.
#[derive(Debug, Clone)]
pub struct Entry {
    pub name: String,
    pub dims: Vec<u64>,
    pub type_id: u32,
    pub offset: u64,
    pub data: Vec<u8>,
}

/// A file: metadata as it is stored, tensors in the order of their bytes.
#[derive(Debug, Clone)]
pub struct GgufFile {
    pub version: u32,
    pub metadata: Vec<(String, u32, Vec<u8>)>,
    pub tensors: Vec<Entry>,
    /// The alignment of the data, regardless of the metadata.
    pub alignment: usize,
    /// Bytes after the last tensor.
    pub tail: Vec<u8>,
}

impl GgufFile {
    /// Parses a file; `None` for big-endian ones.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor { bytes, at: 4 };
        let version = cursor.u32();
        if version > 0xffff {
            return None;
        }
        let (tensor_count, entry_count) = (cursor.u64(), cursor.u64());
        let metadata: Vec<_> = (0..entry_count)
            .map(|_| {
                let (key, tag) = (cursor.text(), cursor.u32());
                let start = cursor.at;
                cursor.skip(tag);
                (key, tag, bytes[start..cursor.at].to_vec())
            })
            .collect();
        let mut tensors: Vec<_> = (0..tensor_count)
            .map(|_| {
                let name = cursor.text();
                let rank = cursor.u32();
                let dims = (0..rank).map(|_| cursor.u64()).collect();
                Entry { name, dims, type_id: cursor.u32(), offset: cursor.u64(), data: Vec::new() }
            })
            .collect();
        let alignment = metadata.iter().find(|(key, ..)| key == "general.alignment");
        let alignment =
            alignment.map_or(32, |(_, _, value)| u32::from_le_bytes(value[..4].try_into().unwrap()) as usize);
        let data = cursor.at.next_multiple_of(alignment);
        tensors.sort_by_key(|tensor| tensor.offset);
        let ends: Vec<_> = tensors.iter().skip(1).map(|tensor| tensor.offset as usize).collect();
        for (tensor, end) in tensors.iter_mut().zip(ends.into_iter().chain([bytes.len() - data])) {
            tensor.data = bytes[data + tensor.offset as usize..data + end].to_vec();
        }
        Some(Self { version, metadata, tensors, alignment, tail: Vec::new() })
    }

    pub fn write(&self) -> Vec<u8> {
        let mut file = Gguf { version: self.version, alignment: self.alignment, ..Gguf::default() };
        for (key, tag, value) in &self.metadata {
            file = file.entry(key, *tag, value);
        }
        for Entry { name, dims, type_id, offset, .. } in &self.tensors {
            file = file.tensor(name, dims, *type_id, *offset);
        }
        for tensor in &self.tensors {
            file.data.resize(file.data.len().next_multiple_of(self.alignment), 0);
            file.data.extend_from_slice(&tensor.data);
        }
        file.data.extend_from_slice(&self.tail);
        file.bytes()
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        self.at += N;
        self.bytes[self.at - N..self.at].try_into().unwrap()
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn text(&mut self) -> String {
        let length = self.u64() as usize;
        self.at += length;
        String::from_utf8(self.bytes[self.at - length..self.at].to_vec()).unwrap()
    }

    /// Skips a value.
    fn skip(&mut self, tag: u32) {
        match tag {
            0 | 1 | 7 => self.at += 1,
            2 | 3 => self.at += 2,
            4..=6 => self.at += 4,
            10..=12 => self.at += 8,
            8 => drop(self.text()),
            9 => {
                let (item, count) = (self.u32(), self.u64());
                (0..count).for_each(|_| self.skip(item));
            }
            other => panic!("value of type {other}"),
        }
    }
}
