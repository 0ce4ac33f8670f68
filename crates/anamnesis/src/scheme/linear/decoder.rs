//! The decoder of linearly quantised tensors, in their own order.

use std::ops::Range;

use anamnesis_kernels::canonical_nans;
use anamnesis_kernels::chosen::round_slice;

use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;
use crate::scheme::coder::{Context, TileDecoder, Window, filled, mishandled, rounded};

/// A tensor of `[.., along, after]` elements with a scale and a zero point for each index of `along`. Its parts are the
/// codes, F32 scales and I64 zero points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LinearDecoder {
    codes: Dtype,
    along: u64,
    after: u64,
}

impl LinearDecoder {
    /// The decoder of integers of this type; `None` if it is none.
    pub(super) fn new(codes: Dtype, along: u64, after: u64) -> Option<Self> {
        let is_integer =
            matches!(codes, Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::U16 | Dtype::I32 | Dtype::U32 | Dtype::I64);
        is_integer.then_some(Self { codes, along: along.max(1), after: after.max(1) })
    }

    /// The scales that these elements need, from the first to the last.
    fn scales(&self, elements: &Range<u64>) -> Range<u64> {
        let last = elements.end.saturating_sub(1).max(elements.start);
        let (first, last) = (elements.start / self.after, last / self.after);
        match first / self.along == last / self.along {
            true => first % self.along..last % self.along + 1,
            false => 0..self.along,
        }
    }

    /// Decodes runs of codes that share a scale.
    fn run<const BYTES: usize>(
        &self,
        start: u64,
        codes: &[u8],
        operands: &Operands<'_>,
        values: &mut [f32],
        code: impl Fn([u8; BYTES]) -> i64 + Copy,
    ) {
        let (mut codes, mut values, mut at) = (codes.as_chunks::<BYTES>().0, values, start);
        while !values.is_empty() && self.after == 1 {
            // Neighbouring codes have neighbouring scales.
            let index = at % self.along;
            let count = usize::try_from(self.along - index).map_or(values.len(), |left| left.min(values.len()));
            let (out, rest) = values.split_at_mut(count);
            let (from, others) = codes.split_at_checked(count).unwrap_or((codes, &[]));
            let first = (index - operands.first) as usize;
            let scales = operands.scales.get(first..).unwrap_or_default();
            let zeros = operands.zeros.get(first..).unwrap_or_default();
            for ((value, bytes), (scale, zero)) in out.iter_mut().zip(from).zip(scales.iter().zip(zeros)) {
                *value = code(*bytes).wrapping_sub(i64::from_le_bytes(*zero)) as f32 * scale;
            }
            (codes, values, at) = (others, rest, at + count as u64);
        }
        while !values.is_empty() {
            let scale = (at / self.after % self.along - operands.first) as usize;
            let count =
                usize::try_from(self.after - at % self.after).map_or(values.len(), |left| left.min(values.len()));
            let (out, rest) = values.split_at_mut(count);
            let (from, others) = codes.split_at_checked(count).unwrap_or((codes, &[]));
            let scale_value = operands.scales.get(scale).copied().unwrap_or(f32::NAN);
            let zero = operands.zeros.get(scale).map_or(0, |bytes| i64::from_le_bytes(*bytes));
            for (value, bytes) in out.iter_mut().zip(from) {
                *value = code(*bytes).wrapping_sub(zero) as f32 * scale_value;
            }
            (codes, values, at) = (others, rest, at + count as u64);
        }
    }
}

struct Operands<'a> {
    /// The index of the first scale.
    first: u64,
    scales: &'a [f32],
    zeros: &'a [[u8; 8]],
}

impl TileDecoder for LinearDecoder {
    fn granule(&self) -> u64 {
        1
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let each = self.codes.byte_size() as u64;
        let scales = self.scales(&elements);
        let count = scales.end - scales.start;
        windows.push(Window::run(0, elements.start * each, (elements.end - elements.start) * each));
        windows.push(Window::run(1, scales.start * 4, count * 4));
        windows.push(Window::run(2, scales.start * 8, count * 8));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let [codes, stored, zeros] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let range = self.scales(&elements);
        let (count, scale_count) = ((elements.end - elements.start) as usize, (range.end - range.start) as usize);
        filled(codes.len() / self.codes.byte_size(), count)?;
        filled(stored.len() / 4, scale_count)?;
        filled(zeros.len() / 8, scale_count)?;
        let level = context.level();
        let floats = context.floats(count + scale_count);
        let (values, scales) = floats.split_at_mut(count);
        for (scale, bytes) in scales.iter_mut().zip(stored.as_chunks::<4>().0) {
            *scale = f32::from_le_bytes(*bytes);
        }
        filled(canonical_nans(level, scales), scales.len())?;
        let operands = Operands { first: range.start, scales, zeros: zeros.as_chunks::<8>().0 };
        let start = elements.start;
        match self.codes {
            Dtype::I8 => self.run(start, codes, &operands, values, |bytes| i8::from_le_bytes(bytes).into()),
            Dtype::U8 => self.run(start, codes, &operands, values, |bytes| u8::from_le_bytes(bytes).into()),
            Dtype::I16 => self.run(start, codes, &operands, values, |bytes| i16::from_le_bytes(bytes).into()),
            Dtype::U16 => self.run(start, codes, &operands, values, |bytes| u16::from_le_bytes(bytes).into()),
            Dtype::I32 => self.run(start, codes, &operands, values, |bytes| i32::from_le_bytes(bytes).into()),
            Dtype::U32 => self.run(start, codes, &operands, values, |bytes| u32::from_le_bytes(bytes).into()),
            Dtype::I64 => self.run(start, codes, &operands, values, i64::from_le_bytes),
            _ => return Err(mishandled("codes that are not integers")),
        }
        Ok(round_slice(level, rounded(target), values, out))
    }

    fn describe(&self) -> String {
        let spread = if self.along > 1 { "a scale per channel" } else { "one scale" };
        format!("{} codes with {spread}", self.codes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tile has the values of the definition, computed element by element.
    #[test]
    fn tiles_anywhere_have_the_values_of_the_whole() {
        for after in [4, 1] {
            tiles_are_those_of_the_whole(8 / after, 3, after);
        }
    }

    fn tiles_are_those_of_the_whole(before: u64, along: u64, after: u64) {
        let codes: Vec<i16> = (0..24).map(|number| number * 1001 - 12_000).collect();
        let scales = [0.25f32, -3.0, f32::INFINITY];
        let zeros = [0i64, -7, 12];
        let decoder = LinearDecoder::new(Dtype::I16, along, after).unwrap();
        let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
        let scale_bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let zero_bytes: Vec<u8> = zeros.iter().flat_map(|zero| zero.to_le_bytes()).collect();
        let parts = [&bytes[..], &scale_bytes, &zero_bytes];
        for start in 0..before * along * after {
            for end in start + 1..=before * along * after {
                let mut windows = Vec::new();
                decoder.windows(start..end, &mut windows);
                let inputs: Vec<&[u8]> = windows
                    .iter()
                    .map(|window| {
                        let start = window.offset as usize;
                        &parts[window.part][start..start + window.row_bytes as usize]
                    })
                    .collect();
                let mut out = vec![0; (end - start) as usize * 4];
                decoder.decode(start..end, &inputs, TargetDtype::F32, &mut out, &mut Context::default()).unwrap();
                for (at, value) in (start..end).zip(out.as_chunks::<4>().0) {
                    let channel = (at / after % along) as usize;
                    let wanted = (i64::from(codes[at as usize]) - zeros[channel]) as f32 * scales[channel];
                    let value = f32::from_le_bytes(*value);
                    assert!(value.to_bits() == wanted.to_bits() || (value.is_nan() && wanted.is_nan()), "{at}");
                }
            }
        }
    }
}
