//! Results do not depend on how reads are split: a reader that returns few bytes at a time, and is interrupted, gives the
//! tensors and values of the same bytes in memory.

use std::io::{Cursor, Error, ErrorKind, Read, Result, Seek, SeekFrom};

use anamnesis::{Checkpoint, TargetDtype};

use crate::reading::{self, MAX_DECODED_BYTES};

/// A reader whose counts come from a list.
struct Splits {
    bytes: Cursor<Vec<u8>>,
    counts: [u8; 4],
    reads: usize,
}

impl Read for Splits {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.counts[self.reads % self.counts.len()];
        self.reads += 1;
        match count {
            // Not twice in a row, or there is no end.
            0 if self.reads.is_multiple_of(2) => Err(Error::from(ErrorKind::Interrupted)),
            count => {
                let end = buffer.len().min(usize::from(count.max(1)));
                self.bytes.read(&mut buffer[..end])
            }
        }
    }
}

impl Seek for Splits {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.bytes.seek(to)
    }
}

/// An input is four counts and a file of any format.
pub fn reads(input: &[u8]) {
    let Some((counts, file)) = input.split_first_chunk::<4>() else { return };
    let splits = Splits { bytes: Cursor::new(file.to_vec()), counts: *counts, reads: 0 };
    let options = reading::options();
    let whole = Checkpoint::from_bytes_with(file.to_vec(), &options);
    let split = Checkpoint::from_reader_with(splits, &options);
    // The input itself is a buffer of the limits only where it is owned.
    let Ok(whole) = whole else { return };
    let split = split.expect("bytes that are read are also read in pieces");
    let listed = |checkpoint: &Checkpoint| format!("{:?}", checkpoint.tensors());
    assert_eq!(listed(&whole), listed(&split));
    let bytes = whole.tensors().iter().try_fold(0u64, |sum, tensor| sum.checked_add(tensor.bytes));
    if bytes.is_none_or(|bytes| bytes > MAX_DECODED_BYTES) {
        return;
    }
    for (whole, split) in whole.decoded(TargetDtype::F32).zip(split.decoded(TargetDtype::F32)) {
        match (whole, split) {
            (Ok(whole), Ok(split)) => assert!(whole.name == split.name && whole.data == split.data),
            (whole, split) => assert_eq!(whole.is_ok(), split.is_ok()),
        }
    }
}
