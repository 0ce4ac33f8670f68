//! An archive at the end of a file that begins with something else.
//!
//! Many readers look for the end record of an archive only, and tolerate any bytes in front of it and a few behind it.

use std::ops::Range;

use super::end::END;
use super::{central, u32_at, u64_at};
use crate::error::Result;
use crate::io::Source;

const END_BYTES: usize = 22;
/// Bytes of the ZIP64 end record and of its locator, which are in front of the end record.
const WIDE_BYTES: u64 = 76;
/// The last bytes of a file, in which readers look for the end record.
const TAIL_BYTES: u64 = END_BYTES as u64 + u16::MAX as u64;

/// The range of the archive whose directory is found first from the end of the file.
pub(crate) fn behind(source: &dyn Source) -> Result<Option<Range<u64>>> {
    let tail_bytes = source.len().min(TAIL_BYTES);
    let mut tail = vec![0; tail_bytes as usize];
    let tail_start = source.len() - tail_bytes;
    source.read_at(tail_start, &mut tail)?;
    let ends = tail.windows(END_BYTES).enumerate().rev().filter(|(_, record)| record.starts_with(END));
    for (at, record) in ends {
        let at = tail_start + at as u64;
        let narrow = (at, u64::from(u32_at(record, 12)), u64::from(u32_at(record, 16)));
        let wide = match at.checked_sub(WIDE_BYTES) {
            Some(start) => {
                let mut wide = [0; WIDE_BYTES as usize];
                source.read_at(start, &mut wide)?;
                Some((start, u64_at(&wide, 40), u64_at(&wide, 48)))
            }
            None => None,
        };
        for (directory_end, directory_bytes, directory_offset) in [Some(narrow), wide].into_iter().flatten() {
            let Some(directory) = directory_end.checked_sub(directory_bytes) else { continue };
            let mut signature = [0; 4];
            if directory_bytes < signature.len() as u64 {
                continue;
            }
            source.read_at(directory, &mut signature)?;
            if signature == *central::SIGNATURE {
                // Offsets count from the first byte of the archive, or from that of the file.
                return Ok(Some(directory.saturating_sub(directory_offset)..source.len()));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::BytesSource;

    /// An archive with a directory of one entry, without the entry itself.
    fn archive(directory_offset: u32) -> Vec<u8> {
        let mut bytes = b"PK\x01\x02".to_vec();
        bytes.resize(46, 0);
        bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend(46u32.to_le_bytes());
        bytes.extend(directory_offset.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn an_archive_is_found_behind_other_bytes() {
        let find = |bytes: &[u8]| behind(&BytesSource(bytes)).unwrap();
        for (front, offset, start) in [(0, 0, 0), (100, 0, 100), (100, 100, 0)] {
            let bytes = [vec![7; front], archive(offset)].concat();
            assert_eq!(find(&bytes), Some(start..bytes.len() as u64));
            let bytes = [&bytes[..], b"PK\x05\x06 and more bytes than an end record has"].concat();
            assert_eq!(find(&bytes), Some(start..bytes.len() as u64));
        }
        assert_eq!(find(b""), None);
        assert_eq!(find(&[7; 200]), None);
        assert_eq!(find(&[&[7; 100][..], b"PK\x05\x06", &[0; 18]].concat()), None);
    }
}
