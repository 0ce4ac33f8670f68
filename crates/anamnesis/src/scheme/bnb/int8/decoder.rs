//! Decoding eight-bit weights: one scale per row, the row's largest magnitude.

use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::chosen::{self, Rounded};
use anamnesis_kernels::{self as kernels, Level};

use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{Context, Prepare, Prepared, TileDecoder, Window, filled, rounded, row_granule};

/// The library multiplies by this reciprocal; dividing by 127 would round differently.
const STEP: f32 = 1.0 / 127.0;

/// The decoder of an eight-bit weight: part 0 holds the codes, part 1 a scale per row.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct BnbInt8Decoder {
    pub cols: u64,
}

impl BnbInt8Decoder {
    fn rows(&self, elements: &Range<u64>) -> Range<u64> {
        elements.start / self.cols..elements.end.div_ceil(self.cols)
    }

    fn run(
        &self,
        level: Level,
        to: Rounded,
        elements: Range<u64>,
        codes: &[u8],
        scales: &[f32],
        out: &mut [u8],
    ) -> usize {
        let (mut at, mut written) = (elements.start, 0);
        for &scale in scales {
            let end = ((at / self.cols + 1) * self.cols).min(elements.end);
            let piece = (at - elements.start) as usize..(end - elements.start) as usize;
            let bytes = piece.start * to.bytes()..piece.end * to.bytes();
            written += chosen::scaled_twice(level, to, &codes[piece], scale, STEP, &mut out[bytes]);
            at = end;
        }
        written
    }
}

impl TileDecoder for BnbInt8Decoder {
    fn granule(&self) -> u64 {
        row_granule(self.cols)
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let rows = self.rows(&elements);
        windows.push(Window::run(0, elements.start, elements.end - elements.start));
        windows.push(Window::run(1, rows.start * 4, (rows.end - rows.start) * 4));
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
        let rows = self.rows(&elements);
        let scales = context.floats((rows.end - rows.start) as usize);
        filled(kernels::widen_f32(level, inputs[1], scales), scales.len())?;
        Ok(self.run(level, rounded(target), elements, inputs[0], scales, out))
    }

    fn describe(&self) -> String {
        "BitsAndBytes INT8, one scale per row".to_owned()
    }
}

/// An eight-bit weight with a `weight_format` (part 2), which must be 0: row-major.
#[derive(Debug)]
pub(in crate::scheme::bnb) struct BnbInt8 {
    pub shape: Vec<usize>,
    pub decoder: BnbInt8Decoder,
}

impl Prepare for BnbInt8 {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        match read(2)?[..] {
            [0] => Ok(Prepared { shape: self.shape.clone(), decoder: Arc::new(self.decoder), coding: None }),
            ref other => {
                let detail =
                    format!("it is stored in the layout of one kind of GPU (weight_format {other:?}), not row-major");
                Err(AnamnesisError::unsupported("BnB", detail))
            }
        }
    }

    fn describe(&self) -> String {
        self.decoder.describe()
    }
}
