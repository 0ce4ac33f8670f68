//! Reading how important the inputs of each weight are, from the files that llama.cpp's tools write.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::{Dtype, MetadataValue};
use crate::checkpoint::Checkpoint;
use crate::container::{Format, detect_format_from_bytes};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::read_all;
use crate::limits::{Budget, ParseLimits};
use crate::scheme::Importance;

/// Longest file that is read. Those of the largest models have some hundred megabytes.
const MAX_BYTES: u64 = 4 << 30;

/// What the sums of a weight and their number are called.
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

impl Importance {
    /// Reads an importance matrix: a GGUF file that says it is one, or the older form.
    ///
    /// # Errors
    /// `Io` where the file cannot be read, `Parse` where it is none, `LimitExceeded` past the limits.
    pub fn read(path: impl AsRef<Path>, limits: &ParseLimits) -> Result<Self> {
        let path = path.as_ref();
        let bytes = read_all(std::fs::File::open(path)?, &mut Budget::new(limits), MAX_BYTES)?;
        let read = match matches!(detect_format_from_bytes(&bytes), Ok(Format::Gguf)) {
            true => from_gguf(bytes, limits),
            false => from_older(&bytes),
        };
        let mut importance = read.map_err(|error| error.in_file(path))?;
        importance.file = path.to_string_lossy().into_owned();
        Ok(importance)
    }
}

fn from_gguf(bytes: Vec<u8>, limits: &ParseLimits) -> Result<Importance> {
    let checkpoint = Checkpoint::from_bytes(bytes, limits)?;
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
        return Err(AnamnesisError::parse("it is no importance matrix: general.type is not imatrix"));
    }
    for (_, tensor) in checkpoint.catalog.iter() {
        let Some(name) = tensor.name.strip_suffix(SUMS) else { continue };
        let counts = checkpoint.catalog.find(&format!("{name}{COUNTS}"));
        let counts = counts.ok_or_else(|| AnamnesisError::parse(format!("{} has no {COUNTS}", quoted(name))))?;
        if tensor.dtype != Dtype::F32 || checkpoint.catalog.get(counts).dtype != Dtype::F32 {
            return Err(AnamnesisError::parse(format!("the sums and counts of {} are no F32", quoted(name))));
        }
        let sums = checkpoint.decode::<f32>(&tensor.name)?;
        let counts = checkpoint.decode::<f32>(&checkpoint.catalog.get(counts).name)?;
        let inputs = tensor.shape.last().copied().unwrap_or(0);
        if inputs == 0 || counts.is_empty() || sums.len() != inputs * counts.len() {
            let (sums, counts) = (sums.len(), counts.len());
            return Err(AnamnesisError::parse(format!("{} has {sums} sums for {counts} counts", quoted(name))));
        }
        let mut weights = sums;
        for (weights, count) in weights.chunks_exact_mut(inputs).zip(counts) {
            // What was never used is as important as anything.
            weights.iter_mut().for_each(|weight| *weight = if count > 0.0 { *weight / count } else { 1.0 });
        }
        importance.weights.insert(name.to_owned(), Arc::from(weights));
    }
    Ok(importance)
}

/// The older form: entries of a name, a number of calls, and sums; then the number of pieces and the name of the text.
fn from_older(bytes: &[u8]) -> Result<Importance> {
    let mut rest = bytes;
    let mut importance = Importance::default();
    let count = number(&mut rest)?;
    for _ in 0..count {
        let length = number(&mut rest)?;
        let name = String::from_utf8(take(&mut rest, length)?.to_vec())
            .map_err(|_| AnamnesisError::parse("a name in it is no text"))?;
        let calls = number(&mut rest)?;
        let values = number(&mut rest)?;
        let values = take(&mut rest, values.saturating_mul(4))?;
        let divisor = if calls > 0 { calls as f32 } else { 1.0 };
        let weights = values.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes) / divisor).collect();
        if importance.weights.insert(name.clone(), weights).is_some() {
            return Err(AnamnesisError::parse(format!("{} occurs twice", quoted(&name))));
        }
    }
    if importance.weights.is_empty() {
        return Err(AnamnesisError::parse("it has no entries"));
    }
    if !rest.is_empty() {
        importance.chunks = u32::try_from(number(&mut rest)?).ok();
        let length = number(&mut rest)?;
        importance.dataset = Some(String::from_utf8_lossy(take(&mut rest, length)?).into_owned());
    }
    Ok(importance)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (taken, behind) = rest
        .split_at_checked(count)
        .ok_or_else(|| AnamnesisError::parse("it is no importance matrix, or it ends too early"))?;
    *rest = behind;
    Ok(taken)
}

/// A number of 32 bits that is not negative.
fn number(rest: &mut &[u8]) -> Result<usize> {
    let bytes = take(rest, 4)?;
    let number = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    usize::try_from(number)
        .map_err(|_| AnamnesisError::parse(format!("it is no importance matrix: a count is {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn older(name: &str, calls: i32, values: &[f32]) -> Vec<u8> {
        let mut bytes = 1i32.to_le_bytes().to_vec();
        bytes.extend((name.len() as i32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(calls.to_le_bytes());
        bytes.extend((values.len() as i32).to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    #[test]
    fn the_older_form_is_read_with_and_without_what_it_was_made_of() {
        let mut bytes = older("blk.0.attn_q.weight", 4, &[2.0, 8.0]);
        let read = from_older(&bytes).unwrap();
        assert_eq!(read.weights["blk.0.attn_q.weight"][..], [0.5, 2.0]);
        assert_eq!((read.chunks, read.dataset), (None, None));
        bytes.extend(7i32.to_le_bytes());
        bytes.extend(4i32.to_le_bytes());
        bytes.extend(b"wiki");
        let read = from_older(&bytes).unwrap();
        assert_eq!((read.chunks, read.dataset.as_deref()), (Some(7), Some("wiki")));
    }

    #[test]
    fn every_file_that_is_cut_off_is_refused() {
        let bytes = older("blk.0.attn_q.weight", 4, &[2.0, 8.0]);
        for length in 0..bytes.len() {
            assert!(from_older(&bytes[..length]).is_err(), "{length}");
        }
        assert!(from_older(&0i32.to_le_bytes()).is_err());
        assert!(from_older(&[0xFF; 64]).is_err());
    }
}
