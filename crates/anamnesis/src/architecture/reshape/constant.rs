//! Constant values.

use std::ops::Range;

use anamnesis_kernels::chosen::round_slice;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::rounded;
use crate::scheme::{Context, TileDecoder, Window};

/// A few values, by their bits, which repeat.
#[derive(Debug, Hash)]
pub(super) struct Constant {
    pub(super) bits: Vec<u32>,
}

impl TileDecoder for Constant {
    fn granule(&self) -> u64 {
        1
    }

    fn windows(&self, _elements: Range<u64>, _windows: &mut Vec<Window>) {}

    fn decode(
        &self,
        elements: Range<u64>,
        _inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let (start, count) = (elements.start as usize, (elements.end - elements.start) as usize);
        let from = start % self.bits.len().max(1);
        let bits = self.bits.iter().cycle().skip(from).take(count);
        let values: Vec<f32> = bits.map(|bits| f32::from_bits(*bits)).collect();
        Ok(round_slice(level, rounded(target), &values, out))
    }

    fn describe(&self) -> String {
        "values of the configuration".to_owned()
    }
}
