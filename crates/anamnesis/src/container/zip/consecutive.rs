//! Several archives in one file, one after the other, as PyTorch's distributed checkpoints write them.

use std::ops::Range;

use super::end::{self, Place};
use crate::error::{AnamnesisError, Result};
use crate::io::{ReadAt, SlicedSource, Source};

/// Maximum number of archives in one file.
const MAX_ARCHIVES: usize = 1 << 20;

/// The ranges of consecutive archives that fill a file. Every archive is found from its end.
pub(crate) fn consecutive(source: &dyn Source) -> Result<Vec<Range<u64>>> {
    let mut found = Vec::new();
    let mut end = source.bytes();
    while end > 0 {
        if found.len() == MAX_ARCHIVES {
            return Err(AnamnesisError::limit(
                "MAX_ARCHIVES",
                format!("the file has more than {MAX_ARCHIVES} archives"),
            ));
        }
        let front = SlicedSource::new(source, 0, end)
            .ok_or_else(|| AnamnesisError::parse("an archive ends behind the end of the file"))?;
        let Place { directory_end, directory_bytes, directory_offset } = end::locate(&front)?;
        let start = directory_end.checked_sub(directory_bytes).and_then(|at| at.checked_sub(directory_offset));
        let start = start.filter(|start| *start < end);
        let start = start.ok_or_else(|| AnamnesisError::parse("an archive begins before the file"))?;
        found.push(start..end);
        end = start;
    }
    found.reverse();
    Ok(found)
}
