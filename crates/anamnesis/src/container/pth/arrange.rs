//! From views of storages to extents: views that are not contiguous, compressed or byte-swapped become regions.

use std::sync::Arc;

use super::archive::has_checksum;
use super::front::{Front, StoragePlace};
use super::latin1::Latin1Region;
use super::signs::SignedRegion;
use super::storage::ByteOrder;
use super::view::{SignBits, View};
use crate::catalog::{Dtype, Extent, Note, StoredTensor};
use crate::container::strided::Strided;
use crate::container::zip::{Checked, Entry, Inflated, Method, Spill};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{ArrangedSource, Region, Source};

/// A file whose tensors can be read.
pub(crate) struct PthFile {
    pub(crate) source: Box<dyn Source>,
    /// In pickle order.
    pub(crate) tensors: Vec<StoredTensor>,
    pub(crate) notes: Vec<Note>,
    pub(crate) big_endian: bool,
}

/// Adds the regions that the tensors need to the source.
pub(crate) fn arrange(front: Front, source: Box<dyn Source>) -> Result<PthFile> {
    let Front { tensors, places, entries, notes, big_endian } = front;
    let mut arranged = ArrangedSource::new(source);
    let covered = coverage(&tensors, places.len());
    let spill = Spill::new();
    let mut starts = vec![None; places.len()];
    let (mut kept, mut texts) = (Vec::new(), Vec::new());
    for (index, place) in places.into_iter().enumerate() {
        match place {
            None => {}
            Some(StoragePlace::At(offset)) => starts[index] = Some(offset),
            Some(StoragePlace::In(entry)) => kept.push((entry, index)),
            Some(StoragePlace::Text { pickle, latin }) => texts.push((index, pickle, latin)),
        }
    }
    // An entry holds one storage.
    kept.sort_unstable();
    let mut kept = kept.into_iter().peekable();
    let mut needed: Vec<(Entry, usize)> = Vec::new();
    for (number, entry) in (0..).zip(entries) {
        if let Some((_, index)) = kept.next_if(|(wanted, _)| *wanted == number) {
            needed.push((entry, index));
        }
    }
    needed.sort_by_key(|(entry, _)| entry.offset);
    for (entry, index) in needed {
        starts[index] = Some(arranged.add(storage(entry, covered[index], &spill))?);
    }
    texts.sort_by_key(|(_, _, latin)| latin.start);
    for (index, pickle, latin) in texts {
        let pickle = starts.get(pickle as usize).copied().flatten();
        let pickle = pickle.ok_or_else(|| AnamnesisError::parse("the texts of a pickle have no storage"))?;
        let region = Latin1Region { base: pickle + latin.start, latin: *latin };
        starts[index] = Some(arranged.add(Box::new(region))?);
    }
    let mut stored = Vec::with_capacity(tensors.len());
    for (name, view) in tensors {
        let start = starts.get(view.storage as usize).copied().flatten();
        let offset = match start {
            _ if view.bytes == 0 => 0,
            Some(start) => offset(&name, &view, start, big_endian, &mut arranged)?,
            None => return Err(AnamnesisError::parse(format!("tensor {} has no storage in the file", quoted(&name)))),
        };
        let extent = Extent { file: 0, offset, bytes: view.bytes };
        stored.push(StoredTensor { name, dtype: view.dtype, shape: view.shape, extent });
    }
    Ok(PthFile { source: Box::new(arranged), tensors: stored, notes, big_endian })
}

/// The part of a storage that contiguous tensors read.
#[derive(Debug, Clone, Copy, Default)]
struct Coverage {
    tensors: usize,
    /// The end of the bytes that are read without a gap.
    end: u64,
}

/// Coverage of each storage; `None` if a tensor is not read sequentially, or if there are gaps.
fn coverage(tensors: &[(String, View)], storages: usize) -> Vec<Option<Coverage>> {
    let mut views: Vec<&View> = tensors.iter().map(|(_, view)| view).filter(|view| view.bytes > 0).collect();
    views.sort_by_key(|view| (view.storage, view.start));
    let mut covered = vec![Some(Coverage::default()); storages];
    for view in views {
        let place = &mut covered[view.storage as usize];
        *place = place
            .filter(|so_far| view.is_plain() && view.start <= so_far.end)
            .map(|so_far| Coverage { tensors: so_far.tensors + 1, end: so_far.end.max(view.start + view.span) });
    }
    covered
}

/// A region for the bytes of a storage, verified if it has a checksum.
fn storage(entry: Entry, covered: Option<Coverage>, spill: &Arc<Spill>) -> Box<dyn Region> {
    let checks = has_checksum(&entry);
    match (entry.method, covered.filter(|covered| covered.end == entry.bytes)) {
        (Method::Stored, Some(_)) => Box::new(Checked::incremental(0, entry)),
        (Method::Stored, None) => Box::new(Checked::upfront(0, entry)),
        (_, Some(Coverage { tensors: 1, .. })) => Box::new(Inflated::sequential(entry, checks, spill)),
        _ => Box::new(Inflated::random_access(entry, checks, spill)),
    }
}

/// The offset of a tensor whose storage starts at `start`.
fn offset(name: &str, view: &View, start: u64, big_endian: bool, source: &mut ArrangedSource) -> Result<u64> {
    let element_bytes = view.dtype.byte_size();
    let is_complex = view.dtype == Dtype::C64;
    let width = if is_complex { element_bytes / 2 } else { element_bytes };
    let is_big = match view.order {
        ByteOrder::OfFile | ByteOrder::OfMachine => big_endian,
        ByteOrder::Little => false,
        ByteOrder::Big => true,
    };
    let swaps = is_big && width > 1;
    if swaps && view.order == ByteOrder::OfMachine {
        // Torch does not swap these bytes, so their value depends on the machine.
        let what = format!("tensor {}: big-endian numbers of type {} are not supported", quoted(name), view.dtype);
        return Err(AnamnesisError::unsupported("pth", what));
    }
    let base = start + view.start;
    if view.is_plain() && !swaps {
        return Ok(base);
    }
    let swap = if swaps { width } else { 1 };
    let strided = Strided::new(base, view.span, element_bytes, swap, &view.shape, &view.strides())?;
    let gathered = source.add(Box::new(strided))?;
    if view.signs == SignBits::default() {
        return Ok(gathered);
    }
    if !matches!(view.dtype, Dtype::C64 | Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64) {
        let what = format!("tensor {}: negated views of type {} are not supported", quoted(name), view.dtype);
        return Err(AnamnesisError::unsupported("pth", what));
    }
    source.add(Box::new(SignedRegion {
        base: gathered,
        bytes: view.bytes,
        width,
        complex: is_complex,
        signs: view.signs,
    }))
}
