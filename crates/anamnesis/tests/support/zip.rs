//! A builder of ZIP archives, whose headers may be inconsistent.

use super::kept::kept;

/// One of the two headers of an entry.
#[derive(Clone)]
pub struct Head {
    pub name: Vec<u8>,
    pub flags: u16,
    pub method: u16,
    pub crc: u32,
    pub stored: u32,
    pub size: u32,
    pub extra: Vec<u8>,
}

#[derive(Clone)]
pub struct Entry {
    pub local: Head,
    pub central: Head,
    pub data: Vec<u8>,
    /// Bytes after the data.
    pub behind: Vec<u8>,
    /// The offset in the central directory, if it is not the real one.
    pub offset: Option<u32>,
    pub disk: u16,
}

impl Entry {
    pub fn stored(name: &str, content: &[u8]) -> Self {
        let size = content.len() as u32;
        let crc = crc32fast::hash(content);
        let head = Head { name: name.into(), flags: 0, method: 0, crc, stored: size, size, extra: Vec::new() };
        Self { local: head.clone(), central: head, data: content.to_vec(), behind: Vec::new(), offset: None, disk: 0 }
    }

    pub fn deflated(name: &str, content: &[u8]) -> Self {
        use std::io::Write;
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        let data = encoder.finish().unwrap();
        let stored = data.len() as u32;
        Self::stored(name, content).both(|head| (head.method, head.stored) = (8, stored)).with_data(data)
    }

    fn with_data(mut self, data: Vec<u8>) -> Self {
        self.data = data;
        self
    }

    /// Changes both headers.
    pub fn both(mut self, change: impl Fn(&mut Head)) -> Self {
        change(&mut self.local);
        change(&mut self.central);
        self
    }

    pub fn local(mut self, change: impl Fn(&mut Head)) -> Self {
        change(&mut self.local);
        self
    }

    pub fn central(mut self, change: impl Fn(&mut Head)) -> Self {
        change(&mut self.central);
        self
    }

    /// Moves checksum and sizes into a data descriptor.
    pub fn with_descriptor(mut self, descriptor: &[u8]) -> Self {
        self.local.flags |= 8;
        self.central.flags |= 8;
        (self.local.crc, self.local.stored, self.local.size) = (0, 0, 0);
        self.behind = descriptor.to_vec();
        self
    }
}

/// The data descriptor of an entry.
pub fn descriptor(entry: &Entry, signature: bool, wide: bool) -> Vec<u8> {
    let mut bytes = if signature { b"PK\x07\x08".to_vec() } else { Vec::new() };
    bytes.extend(entry.central.crc.to_le_bytes());
    for number in [entry.central.stored, entry.central.size] {
        if wide { bytes.extend(u64::from(number).to_le_bytes()) } else { bytes.extend(number.to_le_bytes()) }
    }
    bytes
}

fn head_bytes(head: &Head) -> Vec<u8> {
    let mut bytes = Vec::new();
    for half in [20, head.flags, head.method, 0, 33] {
        bytes.extend(half.to_le_bytes());
    }
    for word in [head.crc, head.stored, head.size] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend((head.name.len() as u16).to_le_bytes());
    bytes.extend((head.extra.len() as u16).to_le_bytes());
    bytes
}

/// The entries and the central directory, without an end record; the offset and length of the directory.
pub fn body(entries: &[Entry]) -> (Vec<u8>, u32, u32) {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = entry.offset.unwrap_or(bytes.len() as u32);
        bytes.extend(b"PK\x03\x04");
        bytes.extend(head_bytes(&entry.local));
        for part in [&entry.local.name, &entry.local.extra, &entry.data, &entry.behind] {
            bytes.extend(part);
        }
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(head_bytes(&entry.central));
        directory.extend([0; 2]);
        directory.extend(entry.disk.to_le_bytes());
        directory.extend([0; 6]);
        directory.extend(offset.to_le_bytes());
        directory.extend(&entry.central.name);
        directory.extend(&entry.central.extra);
    }
    let start = bytes.len() as u32;
    bytes.extend(&directory);
    (bytes, start, directory.len() as u32)
}

pub fn end(count: u16, directory: u32, directory_bytes: u32, comment: &[u8]) -> Vec<u8> {
    let mut bytes = b"PK\x05\x06\0\0\0\0".to_vec();
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend(directory_bytes.to_le_bytes());
    bytes.extend(directory.to_le_bytes());
    bytes.extend((comment.len() as u16).to_le_bytes());
    bytes.extend(comment);
    bytes
}

/// The ZIP64 end record and its locator.
pub fn end64(count: u64, directory: u64, directory_bytes: u64) -> Vec<u8> {
    let mut bytes = b"PK\x06\x06".to_vec();
    bytes.extend(44u64.to_le_bytes());
    bytes.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for number in [count, count, directory_bytes, directory] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(b"PK\x06\x07\0\0\0\0");
    bytes.extend((directory + directory_bytes).to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes
}

/// A whole archive.
pub fn archive(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, directory, directory_bytes) = body(entries);
    bytes.extend(end(entries.len() as u16, directory, directory_bytes, b""));
    kept(bytes)
}

/// An NPY file with this header text and these elements.
pub fn npy(text: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(elements);
    kept(bytes)
}

/// A one-dimensional array of bytes.
pub fn bytes_array(elements: &[u8]) -> Vec<u8> {
    npy(&format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}\n", elements.len()), elements)
}

/// A field among the extra fields of a header.
pub fn field(tag: u16, content: &[u8]) -> Vec<u8> {
    [&tag.to_le_bytes(), &(content.len() as u16).to_le_bytes(), content].concat()
}
