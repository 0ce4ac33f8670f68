//! Positioned reads from storage of the caller.

use std::ops::Range;

use super::Source;
use super::source::past_end;
use crate::error::Result;

/// Positioned reads that several threads may share: a checkpoint can be opened from it. Implement it for other kinds
/// of storage, for example ranges of an object store.
///
/// ```
/// use anamnesis::PositionedRead;
/// let bytes = b"0123456789".to_vec();
/// let mut two = [0; 2];
/// bytes.read_exact_at(&mut two, 4)?;
/// assert_eq!((bytes.size()?, &two), (10, b"45"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait PositionedRead: Send + Sync {
    /// The size in bytes. Called once.
    ///
    /// # Errors
    /// Any error of the storage.
    fn size(&self) -> std::io::Result<u64>;

    /// Fills `buffer` from `offset`; a short read is an error.
    ///
    /// # Errors
    /// Any error of the storage.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()>;

    /// Announces byte ranges that are read next, in about this order, once or more often. Storage with slow requests
    /// may fetch them ahead.
    fn announce(&self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// Fills `buffer` with rows of `row_bytes` bytes, which start every `stride` bytes from `offset`. The default
    /// reads them one by one; if requests are more expensive than bytes, read the gaps too.
    ///
    /// # Errors
    /// As [`read_exact_at`](Self::read_exact_at).
    fn read_rows(&self, buffer: &mut [u8], offset: u64, row_bytes: usize, stride: u64) -> std::io::Result<()> {
        let offsets = (0..).map(|row| offset.saturating_add(stride.saturating_mul(row)));
        buffer.chunks_mut(row_bytes.max(1)).zip(offsets).try_for_each(|(row, offset)| self.read_exact_at(row, offset))
    }
}

impl PositionedRead for std::fs::File {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        super::read_exact_at(self, buffer, offset)
    }
}

impl PositionedRead for Vec<u8> {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let start = usize::try_from(offset).ok();
        let found = start.and_then(|start| self.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(found.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl<R: PositionedRead + ?Sized> PositionedRead for std::sync::Arc<R> {
    fn size(&self) -> std::io::Result<u64> {
        (**self).size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }

    fn announce(&self, ranges: &[Range<u64>]) {
        (**self).announce(ranges);
    }

    fn read_rows(&self, buffer: &mut [u8], offset: u64, row_bytes: usize, stride: u64) -> std::io::Result<()> {
        (**self).read_rows(buffer, offset, row_bytes, stride)
    }
}

/// A `PositionedRead` as a source.
pub(crate) struct PositionedSource<R> {
    reader: R,
    len: u64,
}

impl<R: PositionedRead> PositionedSource<R> {
    pub(crate) fn new(reader: R) -> Result<Self> {
        let len = reader.size()?;
        Ok(Self::with_size(reader, len))
    }

    /// A source of a known size.
    pub(super) const fn with_size(reader: R, len: u64) -> Self {
        Self { reader, len }
    }

    fn check(&self, range: Range<u64>) -> Result<()> {
        if range.end > self.len {
            return Err(past_end(range.start, (range.end - range.start) as usize, self.len));
        }
        Ok(())
    }
}

impl<R: PositionedRead> Source for PositionedSource<R> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset..offset.saturating_add(buffer.len() as u64))?;
        Ok(self.reader.read_exact_at(buffer, offset)?)
    }

    fn announce(&self, ranges: &[Range<u64>]) {
        self.reader.announce(ranges);
    }

    fn read_rows(&self, offset: u64, row_bytes: u64, stride: u64, buffer: &mut [u8]) -> Result<()> {
        let rows = (buffer.len() as u64).checked_div(row_bytes).unwrap_or(0);
        let last = offset.saturating_add(stride.saturating_mul(rows.saturating_sub(1)));
        self.check(offset..last.saturating_add(row_bytes))?;
        Ok(self.reader.read_rows(buffer, offset, row_bytes as usize, stride)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_without_their_gaps_and_within_bounds() {
        let source = PositionedSource::new((0..20).collect::<Vec<u8>>()).unwrap();
        let mut rows = [0; 6];
        source.read_rows(3, 2, 7, &mut rows).unwrap();
        assert_eq!(rows, [3, 4, 10, 11, 17, 18]);
        assert!(source.read_rows(5, 2, 7, &mut rows).is_err());
        assert!(source.read_at(19, &mut [0; 2]).is_err());
        assert!(source.read_rows(u64::MAX - 1, 2, u64::MAX, &mut rows).is_err());
    }
}
