//! The format before ZIP archives: a sequence of pickles, then the storages.
//!
//! | part | content |
//! |---|---|
//! | pickle | the magic number |
//! | pickle | 1001, the version |
//! | pickle | properties of the machine that wrote the file |
//! | pickle | the object |
//! | pickle | the keys of the storages, in the order of their data |
//! | per storage | i64 number of elements, the elements |
//!
//! Numbers are little-endian on all machines.

use super::allow::AllowedGlobals;
use super::pickle::caps::MAX_PKL_SIZE;
use super::pickle::{self, Pickle, PickleValues, Value};
use super::storage::Storages;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::ReadAt;
use crate::limits::Budget;

const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;
const VERSION: i128 = 1001;
/// Bytes of the element count before a storage.
const COUNT_BYTES: u64 = 8;
/// Bytes of the first read.
const FIRST_READ_BYTES: u64 = 64 << 10;

/// The start of every such file: protocol 2, then the magic number as a ten-byte long.
const HEAD: [u8; 14] = [0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// Whether a file starts with a pickled ten-byte long.
pub(super) fn begins_with_long(head: &[u8]) -> bool {
    matches!(head, [0x80, 2..=5, 0x8a, 10, ..])
}

/// Whether a file starts like a legacy stream.
pub(crate) fn is_legacy(head: &[u8]) -> bool {
    head.starts_with(&HEAD) || (head.starts_with(&[0x80]) && head.get(2..14) == Some(&HEAD[2..]))
}

/// The pickles at the start of a file and their ends.
pub(crate) struct Stream {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Stream {
    /// Reads up to `count` pickles from the start of `source`; stops at a malformed one.
    pub(crate) fn read(source: &(impl ReadAt + ?Sized), count: usize, budget: &mut Budget) -> Result<Self> {
        let mut stream = Self { bytes: Vec::new(), ends: Vec::new() };
        let mut ahead = FIRST_READ_BYTES;
        while stream.ends.len() < count {
            let start = stream.ends.last().copied().unwrap_or(0);
            match pickle::length(&stream.bytes[start..])? {
                Some(length) => stream.ends.push(start + length),
                None => {
                    stream.extend(source, ahead, budget)?;
                    ahead = ahead.saturating_mul(2);
                }
            }
        }
        Ok(stream)
    }

    fn extend(&mut self, source: &(impl ReadAt + ?Sized), ahead: u64, budget: &mut Budget) -> Result<()> {
        let have = self.bytes.len() as u64;
        let left = source.bytes().saturating_sub(have);
        if left == 0 {
            return Err(AnamnesisError::parse(format!("the file ends at byte {have}, inside a pickle")));
        }
        if have >= MAX_PKL_SIZE {
            let message = format!("the pickles at the start of the file take more than {MAX_PKL_SIZE} bytes");
            return Err(AnamnesisError::limit("MAX_PKL_SIZE", message));
        }
        let more = ahead.min(left).min(MAX_PKL_SIZE - have);
        budget.buffer(more, "the pickles of the file")?;
        // The cap is far below 2^32.
        self.bytes.resize(have as usize + more as usize, 0);
        source.fill_at(have, &mut self.bytes[have as usize..])
    }

    /// A pickle and its offset in the file.
    pub(crate) fn pickle(&self, index: usize) -> (usize, &[u8]) {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        (start, &self.bytes[start..self.ends[index]])
    }

    /// The offset of the object in the file.
    pub(super) fn object_start(&self) -> u64 {
        self.pickle(OBJECT).0 as u64
    }

    /// Bytes of all pickles.
    pub(crate) fn bytes(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0) as u64
    }
}

/// Number of pickles in a file.
pub(crate) const PICKLES: usize = 5;
const OBJECT: usize = 3;
const KEYS: usize = 4;

/// Reads the object of a stream, after checking the magic number and version.
pub(super) fn object<'s>(stream: &'s Stream, budget: &mut Budget) -> Result<Pickle<'s>> {
    let mut strict = AllowedGlobals { script: false };
    for (index, wanted, what) in [(0, MAGIC, "magic number"), (1, VERSION, "version")] {
        let number = pickle::read(stream.pickle(index).1, &mut strict, budget)?;
        let found = number.root.and_then(|root| number.values.wide_int(root));
        if found != Some(wanted) {
            return Err(AnamnesisError::parse(format!("the {what} of the legacy stream is not {wanted}")));
        }
    }
    pickle::read(stream.pickle(2).1, &mut strict, budget)?;
    pickle::read(stream.pickle(OBJECT).1, &mut strict, budget)
}

/// The offset of each storage by index, and the number of bytes after the last one.
pub(super) fn locate_storages(
    source: &(impl ReadAt + ?Sized),
    stream: &Stream,
    (storages, values): (&Storages, &PickleValues<'_>),
    budget: &mut Budget,
) -> Result<(Vec<Option<u64>>, u64)> {
    let keys = pickle::read(stream.pickle(KEYS).1, &mut AllowedGlobals { script: false }, budget)?;
    let listed = match keys.root.map(|root| keys.values.get(root)) {
        Some(Value::List(listed)) => listed,
        _ => return Err(AnamnesisError::parse("the keys of the storages are not a list")),
    };
    let mut places = vec![None; storages.len()];
    let mut at = stream.bytes();
    for &key in listed {
        let key = super::storage::name_of(key, &keys.values).unwrap_or_default();
        let Some(index) = storages.find(&key, values) else {
            return Err(AnamnesisError::parse(format!("storage {} belongs to no tensor", quoted(&key))));
        };
        if places[index as usize].is_some() {
            return Err(AnamnesisError::parse(format!("storage {} is stored twice", quoted(&key))));
        }
        let storage = storages.get(index);
        let end = at.checked_add(COUNT_BYTES).and_then(|start| start.checked_add(storage.bytes));
        let Some(end) = end.filter(|&end| end <= source.bytes()) else {
            let (bytes, len) = (storage.bytes, source.bytes());
            let why = format!("storage {} at byte {at} takes {bytes} bytes, the file ends at {len}", quoted(&key));
            return Err(AnamnesisError::parse(why));
        };
        let mut count = [0; COUNT_BYTES as usize];
        source.fill_at(at, &mut count)?;
        let (count, wanted) = (i64::from_le_bytes(count), storage.bytes / u64::from(storage.element_bytes));
        if u64::try_from(count) != Ok(wanted) {
            let why = format!("storage {} has {count} elements, the pickle declares {wanted}", quoted(&key));
            return Err(AnamnesisError::parse(why));
        }
        places[index as usize] = Some(at + COUNT_BYTES);
        at = end;
    }
    Ok((places, source.bytes() - at))
}
