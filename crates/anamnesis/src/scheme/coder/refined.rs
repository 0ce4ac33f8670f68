//! Weights that are not finished when their codes are scaled: rotations, scales per column and low-rank parts are
//! applied to whole rows of F32 values, in the order of the scheme's library, before the one rounding to the output type.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::chosen::round_slice;
use anamnesis_kernels::widen_f32;

use super::context::Context;
use super::decoder::{TileDecoder, Window, rounded};
use super::filled::{filled, mishandled};
use super::identity::Identity;
use super::inner::Inner;
use crate::catalog::TargetDtype;
use crate::error::Result;

/// One step from the decoded values of whole rows to the weight.
pub(crate) trait Refine: Identity + Send + Sync {
    /// Appends the windows that the step needs for these rows.
    fn windows(&self, rows: &Range<u64>, windows: &mut Vec<Window>) {
        let _ = (rows, windows);
    }

    /// Changes the values of whole rows.
    fn refine(&self, rows: &Range<u64>, inputs: &[&[u8]], values: &mut [f32], context: &mut Context) -> Result<()>;
}

/// Wraps a decoder of a matrix of `cols` columns and applies steps to its rows.
pub(crate) struct Refined {
    pub(crate) inner: Inner,
    pub(crate) cols: u64,
    pub(crate) steps: Vec<Arc<dyn Refine>>,
}

impl Refined {
    /// Wraps the decoder of `rows` by `cols` values; without steps, returns it.
    pub(crate) fn around(
        decoder: Arc<dyn TileDecoder>,
        [rows, cols]: [u64; 2],
        steps: Vec<Arc<dyn Refine>>,
    ) -> Arc<dyn TileDecoder> {
        match steps.is_empty() {
            true => decoder,
            false => Arc::new(Self { inner: Inner { decoder, elements: rows * cols, first_part: 0 }, cols, steps }),
        }
    }

    fn rows(&self, elements: &Range<u64>) -> Range<u64> {
        elements.start / self.cols.max(1)..elements.end.div_ceil(self.cols.max(1))
    }
}

impl Hash for Refined {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.inner, self.cols).hash(hasher);
        self.steps.iter().for_each(|step| step.identify(hasher));
    }
}

impl TileDecoder for Refined {
    fn granule(&self) -> u64 {
        let granule = self.inner.decoder.granule();
        if granule.is_multiple_of(self.cols.max(1)) { granule } else { self.cols.max(1) }
    }

    fn tile_bytes(&self) -> u64 {
        self.inner.decoder.tile_bytes()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        self.inner.windows(&elements, windows);
        let rows = self.rows(&elements);
        self.steps.iter().for_each(|step| step.windows(&rows, windows));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let count = (elements.end - elements.start) as usize;
        let mut bytes = context.lend(4 * count);
        let mut rest = self.inner.decode(&elements, inputs, TargetDtype::F32, &mut bytes, context)?;
        let mut values = context.lend_floats(count);
        filled(widen_f32(level, &bytes, &mut values), count)?;
        context.take_back(bytes);
        let rows = self.rows(&elements);
        let mut windows = Vec::new();
        for step in &self.steps {
            windows.clear();
            step.windows(&rows, &mut windows);
            let (own, others) =
                rest.split_at_checked(windows.len()).ok_or_else(|| mishandled("fewer windows than it asked for"))?;
            rest = others;
            step.refine(&rows, own, &mut values, context)?;
        }
        let written = round_slice(level, rounded(target), &values, out);
        context.take_back_floats(values);
        Ok(written)
    }

    fn describe(&self) -> String {
        self.inner.decoder.describe()
    }
}
