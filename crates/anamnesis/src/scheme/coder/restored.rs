//! Weights whose parts are stored in the order of a kernel, sparse, transposed or in pieces: the plain bytes of such a
//! part are restored from the stored ones, and an ordinary decoder reads them.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::context::Context;
use super::decoder::{LibraryArithmetic, TileDecoder, Window};
use super::filled::{filled, mishandled};
use super::identity::Identity;
use crate::catalog::TargetDtype;
use crate::error::Result;

/// Restores the plain bytes of one part of a weight.
pub(crate) trait Restore: Identity + Send + Sync {
    /// Appends the windows of stored parts that a range of the plain bytes is restored from.
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>);

    /// Writes a range of the plain bytes to `out`, whose length is that of the range.
    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<()>;
}

/// The origin of a part that the inner decoder reads.
#[derive(Clone)]
pub(crate) enum PartOrigin {
    /// The stored part of this index.
    Stored(usize),
    Restored(Arc<dyn Restore>),
}

/// Wraps a decoder and restores the parts that it reads.
#[derive(Clone)]
pub(crate) struct RestoredParts {
    pub(crate) decoder: Arc<dyn TileDecoder>,
    /// The origin of each part of the inner decoder.
    pub(crate) parts: Vec<PartOrigin>,
    /// The preferred size of a tile; `None` for that of the inner decoder.
    pub(crate) tile_bytes: Option<u64>,
    /// Output elements at whose multiples tiles are cut, if restoring a smaller piece would read much more than it
    /// needs; a multiple of the inner decoder's granule.
    pub(crate) granule: Option<u64>,
}

impl Hash for RestoredParts {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.decoder.identify(hasher);
        for part in &self.parts {
            match part {
                PartOrigin::Stored(part) => part.hash(hasher),
                PartOrigin::Restored(restore) => restore.identify(hasher),
            }
        }
    }
}

impl RestoredParts {
    pub(crate) fn around(decoder: Arc<dyn TileDecoder>, parts: Vec<PartOrigin>) -> Self {
        Self { decoder, parts, tile_bytes: None, granule: None }
    }

    fn origin(&self, part: usize) -> Result<&PartOrigin> {
        self.parts.get(part).ok_or_else(|| mishandled("a part without an origin"))
    }
}

/// The byte range of each row of a window.
fn rows(window: &Window) -> impl Iterator<Item = Range<u64>> + use<> {
    let Window { offset, row_bytes, stride, rows, .. } = *window;
    (0..rows).map(move |row| offset + row * stride..offset + row * stride + row_bytes)
}

impl TileDecoder for RestoredParts {
    fn granule(&self) -> u64 {
        self.granule.unwrap_or_else(|| self.decoder.granule())
    }

    fn tile_bytes(&self) -> u64 {
        self.tile_bytes.unwrap_or_else(|| self.decoder.tile_bytes())
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let mut plain = Vec::new();
        self.decoder.windows(elements, &mut plain);
        for window in plain {
            match self.parts.get(window.part) {
                Some(PartOrigin::Restored(part)) => rows(&window).for_each(|range| part.windows(&range, windows)),
                Some(PartOrigin::Stored(part)) => windows.push(Window { part: *part, ..window }),
                None => {}
            }
        }
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let (mut plain, mut stored) = (Vec::new(), Vec::new());
        self.decoder.windows(elements.clone(), &mut plain);
        let mut rest = inputs;
        let mut restored = Vec::with_capacity(plain.len());
        let mut given = Vec::with_capacity(plain.len());
        for window in &plain {
            match self.origin(window.part)? {
                PartOrigin::Stored(_) => {
                    let (first, others) = rest.split_first().ok_or_else(|| mishandled("too few windows"))?;
                    rest = others;
                    given.push(Some(*first));
                }
                PartOrigin::Restored(part) => {
                    let mut bytes = context.lend(window.bytes() as usize);
                    let mut unfilled = &mut bytes[..];
                    for range in rows(window) {
                        stored.clear();
                        part.windows(&range, &mut stored);
                        let (own, others) = rest.split_at(stored.len().min(rest.len()));
                        rest = others;
                        filled(own.len(), stored.len())?;
                        let (row, others) = unfilled.split_at_mut((range.end - range.start) as usize);
                        unfilled = others;
                        part.restore(&range, own, row, context)?;
                    }
                    restored.push(bytes);
                    given.push(None);
                }
            }
        }
        let mut next = restored.iter();
        let given: Vec<&[u8]> = given
            .into_iter()
            .map(|stored| stored.unwrap_or_else(|| next.next().map_or(&[][..], Vec::as_slice)))
            .collect();
        let written = self.decoder.decode(elements, &given, target, out, context);
        restored.into_iter().for_each(|bytes| context.take_back(bytes));
        written
    }

    fn describe(&self) -> String {
        self.decoder.describe()
    }

    fn library_arithmetic(&self) -> LibraryArithmetic {
        match self.decoder.library_arithmetic() {
            LibraryArithmetic::Decoder(decoder) => {
                LibraryArithmetic::Decoder(Arc::new(Self { decoder, ..self.clone() }))
            }
            other => other,
        }
    }
}
