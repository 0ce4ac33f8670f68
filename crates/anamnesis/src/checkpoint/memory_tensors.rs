//! Tensors in memory, readable as a safetensors file: a header in front, the data where it is.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};

use serde_json::{Map, Value, json};

use crate::catalog::Dtype;
use crate::error::{Request, Result, quoted};
use crate::io::PositionedRead;

/// One tensor in memory, its data little endian and row-major.
#[derive(Debug, Clone)]
pub struct MemoryTensor<B> {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its bytes: a `Vec<u8>`, a mapped file, an array of another language.
    pub data: B,
}

/// Tensors in memory as a file that [`Checkpoint::from_positioned`](crate::Checkpoint::from_positioned) opens without
/// copying them: plain tensors to be converted, or the parts of quantised weights to be decoded.
///
/// ```
/// use anamnesis::{Checkpoint, Dtype, MemoryTensor, MemoryTensors, OpenOptions};
/// let tensor = |name: &str, dtype, shape: &[usize], data: Vec<u8>| MemoryTensor {
///     name: name.to_owned(),
///     dtype,
///     shape: shape.to_vec(),
///     data,
/// };
/// let parts = vec![
///     tensor("w", Dtype::F8E4M3, &[1, 2], vec![0x38, 0xB8]),
///     tensor("w_scale", Dtype::F32, &[], 2f32.to_le_bytes().to_vec()),
/// ];
/// let tensors = MemoryTensors::new(parts, &[].into())?;
/// let checkpoint = Checkpoint::from_positioned(tensors, &OpenOptions::new())?;
/// assert_eq!(checkpoint.decode::<f32>("w")?, [2.0, -2.0]);
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Debug, Clone)]
pub struct MemoryTensors<B> {
    header: Vec<u8>,
    /// The data of every tensor with its offset in the file, in order of offsets.
    pieces: Vec<(u64, B)>,
    bytes: u64,
}

impl<B: AsRef<[u8]>> MemoryTensors<B> {
    /// A file of these tensors, and metadata for all of them.
    ///
    /// # Errors
    /// `Request` if two tensors have one name, `Unsupported` for blocks of GGUF. Other contradictions, such as data of another
    /// length than the shape requires, are errors of opening.
    pub fn new(tensors: Vec<MemoryTensor<B>>, metadata: &BTreeMap<String, String>) -> Result<Self> {
        let (mut entries, mut pieces, mut end) = (Map::new(), Vec::new(), 0);
        if !metadata.is_empty() {
            entries.insert("__metadata__".to_owned(), json!(metadata));
        }
        for MemoryTensor { name, dtype, shape, data } in tensors {
            dtype.safetensors_rank()?;
            let start = end;
            end += data.as_ref().len() as u64;
            let entry = json!({ "dtype": dtype.name(), "shape": shape, "data_offsets": [start, end] });
            if entries.contains_key(&name) {
                let what = format!("a tensor named {}", quoted(&name));
                return Err(Request::Contradiction { what, why: "the name occurs twice".to_owned() }.into());
            }
            entries.insert(name, entry);
            pieces.push((start, data));
        }
        let mut text = Value::Object(entries).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let header = [&(text.len() as u64).to_le_bytes(), &text[..]].concat();
        let front = header.len() as u64;
        pieces.iter_mut().for_each(|(start, _)| *start += front);
        Ok(Self { header, pieces, bytes: front + end })
    }
}

impl<B: AsRef<[u8]> + Send + Sync> PositionedRead for MemoryTensors<B> {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|&end| end <= self.bytes);
        let end = end.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?;
        let first = self.pieces.partition_point(|(start, data)| start + data.as_ref().len() as u64 <= offset);
        let header = std::iter::once((0, &self.header[..]));
        let pieces = self.pieces[first..].iter().map(|(start, data)| (*start, data.as_ref()));
        for (start, bytes) in header.chain(pieces).take_while(|(start, _)| *start < end) {
            let (from, to) = (offset.max(start), end.min(start + bytes.len() as u64));
            if from < to {
                let piece = &bytes[(from - start) as usize..(to - start) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, data: &[u8]) -> MemoryTensor<Vec<u8>> {
        MemoryTensor { name: name.to_owned(), dtype: Dtype::U8, shape: vec![data.len()], data: data.to_vec() }
    }

    #[test]
    fn every_range_is_that_of_the_whole_file() {
        let tensors = vec![tensor("a", &[1, 2, 3]), tensor("b", &[]), tensor("c", &[4, 5])];
        let file = MemoryTensors::new(tensors, &[("k".to_owned(), "v".to_owned())].into()).unwrap();
        let mut whole = vec![0; file.bytes as usize];
        file.read_exact_at(&mut whole, 0).unwrap();
        assert!(whole.ends_with(&[1, 2, 3, 4, 5]));
        for start in 0..whole.len() {
            for end in start..whole.len() {
                let mut part = vec![0; end - start];
                file.read_exact_at(&mut part, start as u64).unwrap();
                assert_eq!(part, whole[start..end]);
            }
        }
        assert!(file.read_exact_at(&mut [0; 2], file.bytes - 1).is_err());
        assert!(file.read_exact_at(&mut [0; 2], u64::MAX).is_err());
    }

    #[test]
    fn names_occur_once() {
        let error = MemoryTensors::new(vec![tensor("a", &[1]), tensor("a", &[2])], &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("\"a\""), "{error}");
    }
}
