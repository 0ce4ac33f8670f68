//! The decoder of linearly quantised tensors in their own order: `(code - zero) * scale`.

use std::ops::Range;

use anamnesis_kernels::chosen::{Packed, Rounded, affine_codes, round_slice, ruled_blocks};
use anamnesis_kernels::float::e2m1;
use anamnesis_kernels::{Arithmetic, Level, canonical_nans};

use super::number::Number;
use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{Context, TileDecoder, Window, filled, mishandled, rounded};

/// A linearly quantised tensor. Its parts are, in this order: codes, scales, zero points if there are any, and the scale
/// of the scales with its zero point if there are any.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LinearDecoder {
    pub(crate) codes: Number,
    /// The size of the axis of the scales, and the product of those behind it.
    pub(crate) axis: u64,
    pub(crate) inner: u64,
    pub(crate) spread: Spread,
    pub(crate) scales: Number,
    pub(crate) zeros: Zeros,
    /// The scale of the scales.
    pub(crate) nested: Option<Nested>,
    pub(crate) description: String,
}

/// Which codes share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Spread {
    /// All.
    Tensor,
    /// Those at the same index of the axis.
    Axis,
    /// So many along the axis.
    Blocks(u64),
}

/// The zero points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Zeros {
    None,
    /// The same for all codes.
    Constant(u8),
    /// One per scale.
    Stored(Number),
}

/// One value that all scales are multiplied by, after a zero point is subtracted if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Nested {
    pub(crate) scale: Number,
    pub(crate) has_zero: bool,
}

/// Elements at whose multiples tiles are cut: a whole number of bytes for codes of any type.
const GRANULE: u64 = 64;
/// The largest zero point whose difference with a code of up to 16 bits is exact in F32.
const MAX_EXACT_ZERO: f32 = 8_388_608.0;

/// A run of elements, and their scales.
struct Run {
    end: u64,
    /// The first scale.
    first: u64,
    /// Elements per scale.
    block: u64,
}

/// The operands of a tile.
struct Operands<'a> {
    codes: &'a [u8],
    scales: &'a [f32],
    zeros: &'a [f32],
    /// The stored zero points, if the difference with a code is not exact in F32.
    wide_zeros: Option<(Number, &'a [u8])>,
    /// The values of four-bit codes.
    map: [f32; 16],
}

impl LinearDecoder {
    /// The scales, counted over all, from the first to the last that these elements need.
    fn scale_range(&self, elements: &Range<u64>) -> Range<u64> {
        let (inner, axis) = (self.inner.max(1), self.axis.max(1));
        let last = elements.end.saturating_sub(1).max(elements.start);
        let rows = (elements.start / inner, last / inner);
        match self.spread {
            Spread::Tensor => 0..1,
            Spread::Axis if rows.0 / axis == rows.1 / axis => rows.0 % axis..rows.1 % axis + 1,
            Spread::Axis => 0..axis,
            Spread::Blocks(_) => self.block_row(rows.0) * inner..(self.block_row(rows.1) + 1) * inner,
        }
    }

    /// The row of block scales of a row along the axis.
    fn block_row(&self, row: u64) -> u64 {
        let Spread::Blocks(block) = self.spread else { return 0 };
        let (axis, block) = (self.axis.max(1), block.max(1));
        row / axis * axis.div_ceil(block) + row % axis / block
    }

    /// The longest run from `at` on whose scales are evenly spaced.
    fn run(&self, at: u64, end: u64) -> Run {
        let (inner, axis) = (self.inner.max(1), self.axis.max(1));
        let (row, col) = (at / inner, at % inner);
        let row_end = (at - col + inner).min(end);
        match self.spread {
            Spread::Tensor => Run { end, first: 0, block: end - at },
            Spread::Axis if inner == 1 => Run { end: ((row / axis + 1) * axis).min(end), first: row % axis, block: 1 },
            Spread::Axis => Run { end: row_end, first: row % axis, block: inner },
            Spread::Blocks(block) if inner == 1 => {
                let (place, block) = (row % axis, block.max(1));
                let first = self.block_row(row);
                match place % block {
                    // Whole blocks, over the ends of rows if blocks do not end there early.
                    0 if axis.is_multiple_of(block) => Run { end, first, block },
                    0 => Run { end: (at - place + axis).min(end), first, block },
                    inside => Run { end: (at + (block - inside).min(axis - place)).min(end), first, block },
                }
            }
            Spread::Blocks(_) => Run { end: row_end, first: self.block_row(row) * inner + col, block: 1 },
        }
    }

    /// The kernel's name of the codes, if it reads them as they are.
    fn packing(&self) -> Option<Packed> {
        match self.codes {
            Number::U8 => Some(Packed::Bytes),
            Number::I8 => Some(Packed::SignedBytes),
            // The runs of two in a byte must begin with a byte.
            Number::E2m1 if self.starts_bytes() => Some(Packed::LowNibbles),
            _ => None,
        }
    }

    fn starts_bytes(&self) -> bool {
        let is_even = |count: u64| count.is_multiple_of(2);
        match self.spread {
            Spread::Tensor => true,
            Spread::Axis => is_even(if self.inner == 1 { self.axis } else { self.inner }),
            Spread::Blocks(block) if self.inner == 1 => is_even(block) && is_even(self.axis),
            Spread::Blocks(_) => is_even(self.inner),
        }
    }

    /// Decodes the elements at `place` of the tile, `block` of which share a scale; `first` is the first scale.
    fn decode_run(
        &self,
        (level, to): (Level, Rounded),
        operands: &Operands<'_>,
        (first, block): (usize, usize),
        place: Range<usize>,
        values: &mut [f32],
        out: &mut [u8],
    ) -> Result<usize> {
        let missing = || mishandled("fewer scales than it asked for");
        let of_run = first..first + place.len().div_ceil(block);
        let scales = operands.scales.get(of_run.clone()).ok_or_else(missing)?;
        let zeros = operands.zeros.get(of_run).ok_or_else(missing)?;
        if let (Some(packing), None) = (self.packing(), operands.wide_zeros) {
            let codes = operands.codes.get(self.codes.bytes(place.start as u64) as usize..).unwrap_or_default();
            let (rule, map) = (Arithmetic::default(), &operands.map);
            return Ok(match block == 1 && self.codes != Number::E2m1 {
                true => affine_codes(level, packing, to, codes, zeros, scales, out),
                false => ruled_blocks(level, rule, packing, to, codes, map, zeros, scales, block, out),
            });
        }
        for (index, values) in values.chunks_mut(block).enumerate() {
            for (value, at) in values.iter_mut().zip(place.start + index * block..) {
                let difference = match operands.wide_zeros {
                    Some((number, stored)) => {
                        let zero = number.integer(stored, first + index);
                        self.codes.integer(operands.codes, at).wrapping_sub(zero) as f32
                    }
                    None => *value - zeros[index],
                };
                *value = difference * scales[index];
            }
        }
        Ok(round_slice(level, to, values, out))
    }
}

impl TileDecoder for LinearDecoder {
    fn granule(&self) -> u64 {
        GRANULE
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let scales = self.scale_range(&elements);
        windows.push(Window::between(0, self.codes.bytes(elements.start)..self.codes.bytes(elements.end)));
        windows.push(Window::between(1, self.scales.bytes(scales.start)..self.scales.bytes(scales.end)));
        let mut part = 2;
        if let Zeros::Stored(number) = self.zeros {
            windows.push(Window::between(part, number.bytes(scales.start)..number.bytes(scales.end)));
            part += 1;
        }
        if let Some(nested) = self.nested {
            windows.push(Window::run(part, 0, nested.scale.bytes(1)));
            if nested.has_zero {
                windows.push(Window::run(part + 1, 0, self.scales.bytes(1)));
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
        let (level, to) = (context.level(), rounded(target));
        let mut inputs = inputs.iter();
        let mut next = || inputs.next().copied().ok_or_else(|| mishandled("too few windows"));
        let (codes, stored_scales) = (next()?, next()?);
        let range = self.scale_range(&elements);
        let (count, scale_count) = ((elements.end - elements.start) as usize, (range.end - range.start) as usize);
        let value_count = if self.packing().is_some() { 0 } else { count };
        let mut buffer = context.lend_floats(value_count + 2 * scale_count);
        let (values, companions) = buffer.split_at_mut(value_count);
        let (scales, zeros) = companions.split_at_mut(scale_count);
        self.scales.widen(level, stored_scales, scales)?;
        let mut wide_zeros = None;
        match self.zeros {
            Zeros::None => zeros.fill(0.0),
            Zeros::Constant(zero) => zeros.fill(zero.into()),
            Zeros::Stored(number) => {
                let stored = next()?;
                number.widen(level, stored, zeros)?;
                let is_exact = self.codes.bytes(1) <= 2 && zeros.iter().all(|zero| zero.abs() <= MAX_EXACT_ZERO);
                wide_zeros = (!is_exact).then_some((number, stored));
            }
        }
        if let Some(nested) = self.nested {
            let (mut factor, mut zero) = ([0.0], [0.0]);
            nested.scale.widen(level, next()?, &mut factor)?;
            if nested.has_zero {
                self.scales.widen(level, next()?, &mut zero)?;
            }
            scales.iter_mut().for_each(|scale| *scale = (*scale - zero[0]) * factor[0]);
        }
        filled(canonical_nans(level, scales), scale_count)?;
        filled(codes.len(), self.codes.bytes(count as u64) as usize)?;
        if value_count > 0 {
            self.codes.widen(level, codes, values)?;
        }
        let map = std::array::from_fn(|code| e2m1::decode(code as u8));
        let operands = Operands { codes, scales, zeros, wide_zeros, map };
        // Small codes with zero points that are too large for the kernels.
        let mut wide = vec![0.0; if wide_zeros.is_some() && value_count == 0 { count } else { 0 }];
        let values = if wide.is_empty() { values } else { &mut wide };
        let (mut at, mut written) = (elements.start, 0);
        while at < elements.end {
            let Run { end, first, block } = self.run(at, elements.end);
            let place = (at - elements.start) as usize..(end - elements.start) as usize;
            let scale = ((first - range.start) as usize, (block as usize).clamp(1, place.len()));
            let out = &mut out[place.start * to.bytes()..place.end * to.bytes()];
            let values = values.get_mut(place.clone()).unwrap_or_default();
            written += self.decode_run((level, to), &operands, scale, place, values, out)?;
            at = end;
        }
        context.take_back_floats(buffer);
        Ok(written)
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tile has the values of the definition, computed element by element.
    #[test]
    fn tiles_anywhere_have_the_values_of_the_whole() {
        for after in [4, 1] {
            tiles_are_those_of_the_whole(8 / after, 3, after, [0, -7, 12]);
            tiles_are_those_of_the_whole(8 / after, 3, after, [0, i64::MIN, 1 << 40]);
        }
    }

    fn tiles_are_those_of_the_whole(before: u64, along: u64, after: u64, zeros: [i64; 3]) {
        let codes: Vec<i64> = (0..24).map(|number| number * 10 - 120).collect();
        let scales = [0.25f32, -3.0, f32::INFINITY];
        let scale_bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let zero_bytes: Vec<u8> = zeros.iter().flat_map(|zero| zero.to_le_bytes()).collect();
        let widths = [(Number::I8, 1), (Number::I16, 2), (Number::I32, 4), (Number::I64, 8)];
        for (number, width) in widths {
            let decoder = LinearDecoder {
                codes: number,
                axis: along,
                inner: after,
                spread: Spread::Axis,
                scales: Number::F32,
                zeros: Zeros::Stored(Number::I64),
                nested: None,
                description: String::new(),
            };
            let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()[..width].to_vec()).collect();
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
                        let difference = codes[at as usize].wrapping_sub(zeros[channel]) as f32;
                        let (value, wanted) = (f32::from_le_bytes(*value), difference * scales[channel]);
                        let is_equal = value.to_bits() == wanted.to_bits() || (value.is_nan() && wanted.is_nan());
                        assert!(is_equal, "{number:?} {at}: {value} {wanted}");
                    }
                }
            }
        }
    }
}
