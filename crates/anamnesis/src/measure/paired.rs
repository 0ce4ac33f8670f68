//! A decoder of two tensors at once: the same values of both, for a comparison.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anamnesis_kernels::{widen_bf16, widen_f16};

use crate::catalog::{Extent, TargetDtype};
use crate::error::{AnamnesisError, Result};
use crate::io::Source;
use crate::pipeline::{Origin, Values};
use crate::scheme::coder::{filled, mishandled};
use crate::scheme::{Context, Inner, TileDecoder, Window};

/// Bytes of a pair: both values in F32.
pub(super) const PAIR_BYTES: u64 = 8;
/// Preferred bytes of a tile.
const TILE_BYTES: u64 = 256 << 10;

/// Decodes two tensors. Its elements are bytes, of which a pair of values has eight. A tile has all its values of the
/// first tensor, then all of the second, in F32.
#[derive(Hash)]
struct Paired {
    tensors: [Inner; 2],
    /// The type that both are rounded to.
    dtype: TargetDtype,
}

impl TileDecoder for Paired {
    fn granule(&self) -> u64 {
        // The other tensor may be cut inside its granule, which is then decoded for both sides of the cut.
        let granule = |inner: &Inner| inner.decoder.granule().max(1);
        PAIR_BYTES.saturating_mul(self.tensors.iter().map(granule).max().unwrap_or(1))
    }

    fn tile_bytes(&self) -> u64 {
        self.tensors.iter().map(|inner| inner.decoder.tile_bytes()).max().unwrap_or(TILE_BYTES).max(TILE_BYTES)
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let pairs = elements.start / PAIR_BYTES..elements.end / PAIR_BYTES;
        self.tensors.iter().for_each(|inner| inner.windows(&pairs, windows));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        _target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let pairs = elements.start / PAIR_BYTES..elements.end / PAIR_BYTES;
        let half = out.len() / 2;
        let (first, second) = out.split_at_mut(half);
        if first.len() != second.len() {
            return Err(mishandled("an odd number of bytes"));
        }
        let mut inputs = inputs;
        for (inner, out) in self.tensors.iter().zip([first, second]) {
            if self.dtype == TargetDtype::F32 {
                inputs = inner.decode(&pairs, inputs, self.dtype, out, context)?;
                continue;
            }
            let mut narrow = context.lend(half / 2);
            inputs = inner.decode(&pairs, inputs, self.dtype, &mut narrow, context)?;
            let level = context.level();
            let wide = context.floats(half / 4);
            let written = match self.dtype {
                TargetDtype::BF16 => widen_bf16(level, &narrow, wide),
                _ => widen_f16(level, &narrow, wide),
            };
            filled(written, wide.len())?;
            out.as_chunks_mut::<4>().0.iter_mut().zip(wide).for_each(|(out, value)| *out = value.to_le_bytes());
            context.take_back(narrow);
        }
        Ok(out.len())
    }

    fn describe(&self) -> String {
        let [first, second] = self.tensors.each_ref().map(|inner| inner.decoder.describe());
        format!("{first} and {second}")
    }
}

/// Both tensors as one: `files` is the number of files of the first checkpoint, which come before those of the second.
pub(super) fn paired(first: Values, second: Values, files: usize, dtype: TargetDtype) -> Result<Values> {
    let too_many = || AnamnesisError::limit("files", "two checkpoints have too many files together");
    let offset = u32::try_from(files).map_err(|_| too_many())?;
    let bytes = first.elements.checked_mul(PAIR_BYTES).filter(|_| first.elements == second.elements);
    let elements = bytes.ok_or_else(|| AnamnesisError::internal("tensors of different sizes cannot be compared"))?;
    let mut parts = first.parts;
    let count = parts.len();
    for part in second.parts {
        parts.push(Extent { file: part.file.checked_add(offset).ok_or_else(too_many)?, ..part });
    }
    let inner = |decoder, elements, first_part| Inner { decoder, elements, first_part };
    let tensors = [inner(first.decoder, first.elements, 0), inner(second.decoder, second.elements, count)];
    let (decoder, sources) = (Arc::new(Paired { tensors, dtype }), Vec::new());
    Ok(Values { decoder, parts, sources, dtype: TargetDtype::F32, elements, origin: Origin::Repacked })
}

/// A file of a checkpoint that a list of sources shares.
pub(super) struct SharedSource {
    pub sources: Arc<Vec<Box<dyn Source>>>,
    pub file: usize,
}

impl SharedSource {
    /// The files of two checkpoints in one list.
    pub(super) fn joined(lists: [&Arc<Vec<Box<dyn Source>>>; 2]) -> Vec<Box<dyn Source>> {
        let files = |sources: &Arc<Vec<Box<dyn Source>>>| {
            let sources = Arc::clone(sources);
            (0..sources.len())
                .map(move |file| Box::new(Self { sources: Arc::clone(&sources), file }) as Box<dyn Source>)
        };
        lists.into_iter().flat_map(files).collect()
    }

    fn get(&self) -> &dyn Source {
        &*self.sources[self.file]
    }
}

impl Source for SharedSource {
    fn len(&self) -> u64 {
        self.get().len()
    }

    fn own_len(&self) -> u64 {
        self.get().own_len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.get().read_at(offset, buffer)
    }

    fn announce(&self, ranges: &[Range<u64>]) {
        self.get().announce(ranges);
    }

    fn read_rows(&self, offset: u64, row_bytes: u64, stride: u64, buffer: &mut [u8]) -> Result<()> {
        self.get().read_rows(offset, row_bytes, stride, buffer)
    }

    fn path(&self) -> Option<&Path> {
        self.get().path()
    }

    fn is_sequential(&self, range: Range<u64>) -> bool {
        self.get().is_sequential(range)
    }

    fn tile_bytes(&self, range: Range<u64>) -> Option<u64> {
        self.get().tile_bytes(range)
    }

    fn is_stored(&self, range: Range<u64>) -> bool {
        self.get().is_stored(range)
    }

    fn resident(&self, range: Range<u64>) -> Option<&[u8]> {
        self.get().resident(range)
    }
}
