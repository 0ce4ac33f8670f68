//! Encoding HQQ weights. Rows are groups, and a byte has codes of rows that are far apart.

use std::ops::Range;

use anamnesis_kernels::chosen::{self, Packed, Rounded};
use anamnesis_kernels::{self as kernels, Goal, Ratio};

use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{Context, EncodedTensor, FieldOrder, ScaleType, TileEncoder, Window, filled, mishandled};

/// The encoder of a weight.
#[derive(Debug, Hash)]
pub(super) struct GroupEncoder {
    /// Codes, scales, zeros and entries.
    pub outputs: Vec<EncodedTensor>,
    pub entries: Vec<Vec<u8>>,
    pub bits: u8,
    pub order: FieldOrder,
    /// The type of scales and zeros.
    pub scale: ScaleType,
}

/// A smaller range counts as a group of equal values.
const LEAST_RANGE: f32 = 1e-4;
/// The largest factor of a group.
const LARGEST_FACTOR: f32 = 2e4;
/// The value of each code.
const MAP: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

impl GroupEncoder {
    /// The factor and the zero of a group from its extremes: values are multiplied by the factor, then the zero is
    /// added.
    fn factors(&self, low: f32, high: f32) -> (f32, f32) {
        let range = high - low;
        // torch divides a number by a tensor as number × (1 / tensor).
        let factor = if range.abs() <= LEAST_RANGE { 1.0 } else { 1.0 / range * f32::from(self.highest()) };
        let factor = factor.min(LARGEST_FACTOR);
        let zero = -low * factor;
        // HQQ rounds the zeros of four-bit codes, for kernels that need integers.
        (factor, if self.bits == 4 { zero.round_ties_even() } else { zero })
    }

    const fn highest(&self) -> u8 {
        u8::MAX >> (8 - self.bits)
    }

    /// The lowest bit of a field; the first field is the highest of its byte.
    const fn shift(&self, field: usize) -> u32 {
        (self.order.fields as u32 - 1 - field as u32) * self.bits as u32
    }

    /// Writes a number per group, ordered by field. Returns the bytes written.
    fn store(&self, numbers: &[f32], ordered: &mut [f32], level: kernels::Level, out: &mut [u8]) -> usize {
        let fields = self.order.fields as usize;
        let rows = numbers.len() / fields;
        for (index, &number) in numbers.iter().enumerate() {
            ordered[index % fields * rows + index / fields] = number;
        }
        self.scale.narrow(level, ordered, out)
    }

    /// Reads a number per group, back in the order of the values.
    fn load(&self, level: kernels::Level, stored: &[u8], ordered: &mut [f32], numbers: &mut [f32]) -> Result<()> {
        let fields = self.order.fields as usize;
        let rows = numbers.len() / fields;
        self.scale.widen(level, stored, ordered)?;
        for (index, number) in numbers.iter_mut().enumerate() {
            *number = ordered[index % fields * rows + index / fields];
        }
        Ok(())
    }
}

impl TileEncoder for GroupEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn granule(&self) -> u64 {
        self.order.set_values()
    }

    fn scale_values(&self) -> u64 {
        self.order.row
    }

    fn field_order(&self) -> Option<FieldOrder> {
        (self.order.fields > 1).then_some(self.order)
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        let FieldOrder { fields, row, run } = self.order;
        let rows = range.start / self.order.set_values()..range.end / self.order.set_values();
        let (count, each) = (rows.end - rows.start, self.scale.bytes());
        places.push(Window::run(0, rows.start * row, count * row));
        for part in [1, 2] {
            places.push(Window::columns(part, rows.start * each, count * each, run / row * each, fields));
        }
        for (part, entry) in (3..).zip(&self.entries) {
            places.push(Window::run(part, 0, if range.start == 0 { entry.len() as u64 } else { 0 }));
        }
    }

    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let row = self.order.row as usize;
        let count = values.len() / row;
        let (floats, codes, _) = context.scratch(3 * count, values.len(), 0);
        let (factors, floats) = floats.split_at_mut(count);
        let (zeros, ordered) = floats.split_at_mut(count);
        filled(kernels::block_range(level, values, row, factors, zeros), count)?;
        for (group, (factor, zero)) in factors.iter_mut().zip(&mut *zeros).enumerate() {
            (*factor, *zero) = self.factors(*factor, *zero);
            let limit = if self.scale == ScaleType::F16 { 65520.0 } else { f32::MAX };
            if *factor == 0.0 || zero.abs() >= limit || 1.0 / *factor >= limit {
                let first = self.order.value_at(range.start + (group * row) as u64);
                return Err(AnamnesisError::parse(format!(
                    "the scale or zero of the values from {first} on is more than its type holds"
                )));
            }
        }
        let goal = Goal::Integer { ratio: Ratio::ProductPlus, low: 0, high: self.highest().into(), plus: 0 };
        let codes = &mut codes[..values.len()];
        filled(kernels::group_codes(level, goal, values, row, factors, zeros, codes), values.len())?;
        let [packed_codes, stored_scales, stored_zeros, entries @ ..] = outs else {
            return Err(mishandled("fewer outputs than it asked for"));
        };
        let mut written = 0;
        let fields = self.order.fields as usize;
        for (out, codes) in packed_codes.chunks_exact_mut(row).zip(codes.chunks_exact(fields * row)) {
            out.fill(0);
            written += row;
            for (field, codes) in codes.chunks_exact(row).enumerate() {
                let shift = self.shift(field);
                out.iter_mut().zip(codes).for_each(|(out, code)| *out |= code << shift);
            }
        }
        factors.iter_mut().for_each(|factor| *factor = 1.0 / *factor);
        let ordered = &mut ordered[..count];
        written += self.store(factors, ordered, level, stored_scales);
        written += self.store(zeros, ordered, level, stored_zeros);
        for (out, entry) in entries.iter_mut().zip(&self.entries).filter(|(out, _)| !out.is_empty()) {
            out.copy_from_slice(entry);
            written += entry.len();
        }
        Ok(written)
    }

    fn decode(
        &self,
        _range: &Range<u64>,
        outs: &[&mut [u8]],
        decoded: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let [packed_codes, stored_scales, stored_zeros, ..] = outs else {
            return Err(mishandled("fewer outputs than it asked for"));
        };
        let (level, row, fields) = (context.level(), self.order.row as usize, self.order.fields as usize);
        let values = decoded.len() / 4;
        let count = values / row;
        let (floats, codes, _) = context.scratch(3 * count, values, 0);
        let (scales, floats) = floats.split_at_mut(count);
        let (zeros, ordered) = floats.split_at_mut(count);
        let ordered = &mut ordered[..count];
        self.load(level, stored_scales, ordered, scales)?;
        self.load(level, stored_zeros, ordered, zeros)?;
        let codes = &mut codes[..values];
        for (packed, codes) in packed_codes.chunks_exact(row).zip(codes.chunks_exact_mut(fields * row)) {
            for (field, codes) in codes.chunks_exact_mut(row).enumerate() {
                let (shift, mask) = (self.shift(field), self.highest());
                codes.iter_mut().zip(packed).for_each(|(code, packed)| *code = packed >> shift & mask);
            }
        }
        filled(packed_codes.len() / row * fields * row, values)?;
        Ok(chosen::coded_blocks(level, Packed::Bytes, Rounded::F32, codes, &MAP, zeros, scales, row, decoded))
    }

    fn describe(&self) -> String {
        format!("HQQ {}-bit, groups of {} along rows", self.bits, self.order.row)
    }
}
