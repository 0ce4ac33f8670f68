//! Announcement of reads, for sources that fetch ahead.

use crate::catalog::Extent;
use crate::io::Source;

/// Announces the stored bytes that will be read, in order, to their sources.
pub(super) fn announce<'a>(parts: impl Iterator<Item = &'a Extent>, sources: &[Box<dyn Source>]) {
    let mut ranges = vec![Vec::new(); sources.len()];
    for extent in parts.filter(|extent| extent.bytes > 0) {
        if let Some(ranges) = ranges.get_mut(extent.file as usize) {
            ranges.push(extent.offset..extent.offset.saturating_add(extent.bytes));
        }
    }
    for (source, ranges) in sources.iter().zip(ranges).filter(|(_, ranges)| !ranges.is_empty()) {
        source.announce(&ranges);
    }
}
