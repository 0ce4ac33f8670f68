//! A decoder that is wrapped by another one, which may request any range of its values.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::context::Context;
use super::decoder::{TileDecoder, Window};
use super::filled::filled;
use crate::catalog::TargetDtype;
use crate::error::Result;

/// A wrapped decoder, its number of values, and the position of its parts among the parts of the wrapper.
#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) decoder: Arc<dyn TileDecoder>,
    pub(crate) elements: u64,
    /// The index of its first part.
    pub(crate) first_part: usize,
}

impl Hash for Inner {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.decoder.identify(hasher);
        (self.elements, self.first_part).hash(hasher);
    }
}

impl Inner {
    /// The range extended to multiples of the decoder's granule.
    fn widened(&self, range: &Range<u64>) -> Range<u64> {
        let granule = self.decoder.granule().max(1);
        range.start / granule * granule..range.end.next_multiple_of(granule).min(self.elements)
    }

    /// Appends the windows of a range.
    pub(crate) fn windows(&self, range: &Range<u64>, windows: &mut Vec<Window>) {
        let first = windows.len();
        self.decoder.windows(self.widened(range), windows);
        for window in windows.iter_mut().skip(first) {
            window.part += self.first_part;
        }
    }

    /// Decodes a range into `out` and fills it. Uses the first of `inputs`, and returns the rest.
    pub(crate) fn decode<'i, 'b>(
        &self,
        range: &Range<u64>,
        inputs: &'i [&'b [u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<&'i [&'b [u8]]> {
        let wide = self.widened(range);
        let mut windows = Vec::new();
        self.decoder.windows(wide.clone(), &mut windows);
        let (own, behind) = inputs.split_at(windows.len().min(inputs.len()));
        if wide == *range {
            filled(self.decoder.decode(wide, own, target, out, context)?, out.len())?;
            return Ok(behind);
        }
        let each = out.len() / (range.end - range.start).max(1) as usize;
        let mut all = context.lend((wide.end - wide.start) as usize * each);
        filled(self.decoder.decode(wide.clone(), own, target, &mut all, context)?, all.len())?;
        let start = (range.start - wide.start) as usize * each;
        out.copy_from_slice(&all[start..start + out.len()]);
        context.take_back(all);
        Ok(behind)
    }
}

/// The bytes per element of the output `out`: those of the target type, or one if the elements are bytes.
pub(crate) fn element_bytes(elements: &Range<u64>, out: &[u8]) -> usize {
    out.len() / (elements.end - elements.start).max(1) as usize
}
