//! Reading importance matrices (imatrix files) as llama.cpp's tools write them: GGUF, or the legacy binary format.
//!
//! Only names and lengths are read here, each checked against the bytes that follow; the values stay in the file.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::{Dtype, MetadataValue};
use crate::checkpoint::Checkpoint;
use crate::container::{Format, detect_format_from_bytes};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{Source, open_file};
use crate::limits::ParseLimits;
use crate::scheme::{Importance, InputWeights};

/// Maximum number of entries in the legacy format. A model has some dozens per layer.
const MAX_IMPORTANCE_ENTRIES: usize = 1 << 20;
/// Maximum length of an entry's name and of the dataset's name, in bytes.
const MAX_NAME_BYTES: usize = 4096;
/// Bytes at the start of a file by which its format is recognised.
const HEAD_BYTES: u64 = 64;

/// Suffixes of the tensors with the sums of squared activations and the number of evaluations.
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

impl Importance {
    /// Reads an importance matrix: a GGUF file of the type `imatrix`, or the legacy format. The values are read from
    /// the file when they are needed.
    ///
    /// # Errors
    /// `Io` if the file cannot be read, `Parse` if it is not an importance matrix, `LimitExceeded` past the limits.
    pub fn read(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<Self> {
        let path = path.as_ref();
        let file = open_file(path)?;
        let mut head = vec![0; file.len().min(HEAD_BYTES) as usize];
        file.read_at(0, &mut head)?;
        let read = match matches!(detect_format_from_bytes(&head), Ok(Format::Gguf)) {
            true => Checkpoint::open_file(path, limits).and_then(from_gguf),
            false => from_legacy(Arc::from(file)),
        };
        let mut importance = read.map_err(|error| error.in_file(path))?;
        importance.file = path.to_string_lossy().into_owned();
        Ok(importance)
    }
}

fn from_gguf(checkpoint: Checkpoint) -> Result<Importance> {
    let mut importance = Importance::default();
    let mut is_one = false;
    for (key, value) in checkpoint.metadata()? {
        match (key.as_str(), value) {
            ("general.type", MetadataValue::String(kind)) => is_one = kind == "imatrix",
            ("imatrix.datasets", MetadataValue::Array(datasets)) => {
                importance.dataset = datasets.as_string_slice().and_then(|names| names.first().cloned());
            }
            ("imatrix.chunk_count", MetadataValue::U32(count)) => importance.chunks = Some(count),
            _ => {}
        }
    }
    if !is_one {
        return Err(AnamnesisError::parse("not an importance matrix: general.type is not imatrix"));
    }
    let checkpoint = Arc::new(checkpoint);
    for (_, tensor) in checkpoint.catalog.iter() {
        let Some(name) = tensor.name.strip_suffix(SUMS) else { continue };
        let counts = checkpoint.catalog.find(&format!("{name}{COUNTS}"));
        let counts = counts.ok_or_else(|| AnamnesisError::parse(format!("{} has no {COUNTS}", quoted(name))))?;
        let counts = checkpoint.catalog.get(counts);
        if tensor.dtype != Dtype::F32 || counts.dtype != Dtype::F32 {
            return Err(AnamnesisError::parse(format!("the sums and counts of {} are not F32", quoted(name))));
        }
        let elements = |shape: &[usize]| shape.iter().product::<usize>();
        let inputs = tensor.shape.last().copied().unwrap_or(0);
        let (len, matrices) = (elements(&tensor.shape), elements(&counts.shape));
        if inputs == 0 || matrices == 0 || inputs.checked_mul(matrices) != Some(len) {
            return Err(AnamnesisError::parse(format!("{} has {len} sums for {matrices} counts", quoted(name))));
        }
        let (file, sums, counts) = (Arc::clone(&checkpoint), tensor.name.clone(), counts.name.clone());
        let read = move || {
            let mut weights = file.decode::<f32>(&sums)?;
            for (weights, count) in weights.chunks_exact_mut(inputs).zip(file.decode::<f32>(&counts)?) {
                // As in llama.cpp, an expert that was never evaluated has the importance 1 everywhere.
                weights.iter_mut().for_each(|weight| *weight = if count > 0.0 { *weight / count } else { 1.0 });
            }
            Ok(Arc::from(weights))
        };
        importance.weights.insert(name.to_owned(), InputWeights::stored(len, read));
    }
    Ok(importance)
}

/// The legacy format: entries of a name, a number of calls and sums; then the number of chunks and the
/// name of the dataset.
fn from_legacy(file: Arc<dyn Source>) -> Result<Importance> {
    let mut cursor = Cursor { file: &*file, at: 0 };
    let mut importance = Importance::default();
    let count = cursor.number()?;
    if count > MAX_IMPORTANCE_ENTRIES {
        let message = format!("{count} entries, {MAX_IMPORTANCE_ENTRIES} are allowed");
        return Err(AnamnesisError::limit("MAX_IMPORTANCE_ENTRIES", message));
    }
    for _ in 0..count {
        let name =
            String::from_utf8(cursor.text()?).map_err(|_| AnamnesisError::parse("an entry name is not UTF-8"))?;
        let calls = cursor.number()?;
        let len = cursor.number()?;
        let place = cursor.skip(len as u64 * 4)?;
        let divisor = if calls > 0 { calls as f32 } else { 1.0 };
        let file = Arc::clone(&file);
        let read = move || {
            let mut bytes = vec![0; len * 4];
            file.read_at(place, &mut bytes)?;
            Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes) / divisor).collect())
        };
        if importance.weights.insert(name.clone(), InputWeights::stored(len, read)).is_some() {
            return Err(AnamnesisError::parse(format!("{} occurs twice", quoted(&name))));
        }
    }
    if importance.weights.is_empty() {
        return Err(AnamnesisError::parse("it has no entries"));
    }
    if cursor.at < file.len() {
        importance.chunks = u32::try_from(cursor.number()?).ok();
        importance.dataset = Some(String::from_utf8_lossy(&cursor.text()?).into_owned());
    }
    Ok(importance)
}

/// A cursor over the cursor of a file.
struct Cursor<'a> {
    file: &'a dyn Source,
    at: u64,
}

impl Cursor<'_> {
    /// Skips a number of bytes, which must exist, and returns the offset of the first.
    fn skip(&mut self, bytes: u64) -> Result<u64> {
        let start = self.at;
        let end = start.checked_add(bytes).filter(|&end| end <= self.file.len());
        self.at = end.ok_or_else(|| AnamnesisError::parse("not an importance matrix, or truncated"))?;
        Ok(start)
    }

    /// Reads an `i32` that must not be negative.
    fn number(&mut self) -> Result<usize> {
        let mut bytes = [0; 4];
        self.file.read_at(self.skip(4)?, &mut bytes)?;
        let number = i32::from_le_bytes(bytes);
        usize::try_from(number)
            .map_err(|_| AnamnesisError::parse(format!("not an importance matrix: a count is {number}")))
    }

    /// Reads a string with its length in front.
    fn text(&mut self) -> Result<Vec<u8>> {
        let length = self.number()?;
        if length > MAX_NAME_BYTES {
            let why = format!("not an importance matrix: a name takes {length} bytes");
            return Err(AnamnesisError::parse(why));
        }
        let mut text = vec![0; length];
        self.file.read_at(self.skip(length as u64)?, &mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::BytesSource;

    fn read_legacy(bytes: &[u8]) -> Result<Importance> {
        from_legacy(Arc::new(BytesSource(bytes.to_vec())))
    }

    fn legacy(name: &str, calls: i32, values: &[f32]) -> Vec<u8> {
        let mut bytes = 1i32.to_le_bytes().to_vec();
        bytes.extend((name.len() as i32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(calls.to_le_bytes());
        bytes.extend((values.len() as i32).to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    #[test]
    fn the_legacy_format_is_read_with_and_without_its_dataset() {
        let mut bytes = legacy("blk.0.attn_q.weight", 4, &[2.0, 8.0]);
        let read = read_legacy(&bytes).unwrap();
        assert_eq!(read.weights["blk.0.attn_q.weight"].read().unwrap()[..], [0.5, 2.0]);
        assert_eq!((read.chunks, read.dataset), (None, None));
        bytes.extend(7i32.to_le_bytes());
        bytes.extend(4i32.to_le_bytes());
        bytes.extend(b"wiki");
        let read = read_legacy(&bytes).unwrap();
        assert_eq!((read.chunks, read.dataset.as_deref()), (Some(7), Some("wiki")));
    }

    #[test]
    fn every_file_that_is_cut_off_is_refused() {
        let bytes = legacy("blk.0.attn_q.weight", 4, &[2.0, 8.0]);
        for length in 0..bytes.len() {
            assert!(read_legacy(&bytes[..length]).is_err(), "{length}");
        }
        assert!(read_legacy(&0i32.to_le_bytes()).is_err());
        assert!(read_legacy(&[0xFF; 64]).is_err());
    }
}
