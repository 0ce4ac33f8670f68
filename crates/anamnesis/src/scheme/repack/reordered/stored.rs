//! Reading a rectangle of stored scales and offsets, in any layout.

use std::ops::Range;

use anamnesis_kernels::Level;

use crate::error::Result;
use crate::scheme::coder::words::{awq_shift, get, place};
use crate::scheme::coder::{CodeOrder, Integers, OffsetLayout, ScaleType, Window};

/// A range of groups of a range of rows.
pub(super) struct Rectangle {
    pub rows: Range<u64>,
    pub groups: Range<u64>,
}

impl Rectangle {
    pub(super) const fn rows(&self) -> usize {
        (self.rows.end - self.rows.start) as usize
    }

    pub(super) const fn groups(&self) -> usize {
        (self.groups.end - self.groups.start) as usize
    }
}

impl Integers {
    /// Appends the windows of a rectangle's scales, and of its offsets if they are needed.
    pub(super) fn windows(&self, rectangle: &Rectangle, with_offsets: bool, windows: &mut Vec<Window>) {
        let Rectangle { rows, groups } = rectangle;
        let (count, wide) = (rows.end - rows.start, groups.end - groups.start);
        let bits = u64::from(self.bits);
        let in_order = |part: usize, each: u64| match self.is_transposed() {
            true => Window::columns(
                part,
                (groups.start * self.rows + rows.start) * each,
                count * each,
                self.rows * each,
                wide,
            ),
            false => Window::columns(
                part,
                (rows.start * self.groups() + groups.start) * each,
                wide * each,
                self.groups() * each,
                count,
            ),
        };
        windows.push(in_order(self.scales_part(), self.scale.bytes()));
        let Some(part) = self.offsets_part().filter(|_| with_offsets) else { return };
        windows.push(match self.offsets {
            OffsetLayout::Constant(_) | OffsetLayout::Biases => in_order(part, self.scale.bytes()),
            OffsetLayout::Bytes => in_order(part, 1),
            OffsetLayout::Down { dense } => {
                let (first, _) = place(rows.start, self.bits, dense);
                let (last, shift) = place(rows.end.saturating_sub(1).max(rows.start), self.bits, dense);
                let end = last + if shift + u32::from(self.bits) > 32 { 2 } else { 1 };
                let row_bytes = self.groups() * 4;
                Window::columns(part, first * row_bytes + groups.start * 4, wide * 4, row_bytes, end - first)
            }
            OffsetLayout::Along { .. } => {
                let row_bytes = self.rows * bits / 8;
                Window::columns(
                    part,
                    groups.start * row_bytes + rows.start * bits / 8,
                    count * bits / 8,
                    row_bytes,
                    wide,
                )
            }
        });
    }

    /// The word and the bit at which the zero point of an output begins, if they are packed along the outputs.
    pub(super) fn place_along(&self, row: u64) -> (u64, u32) {
        match self.words {
            CodeOrder::Awq => (row / 8, awq_shift(row)),
            CodeOrder::Rows | CodeOrder::Columns => place(row, self.bits, true),
        }
    }

    /// Reads the scales and offsets of a rectangle, row by row; no offsets if their slice is empty. The last slice is
    /// scratch memory for transposing.
    pub(super) fn read(
        &self,
        level: Level,
        rectangle: &Rectangle,
        inputs: &[&[u8]],
        [scales, offsets, spare]: [&mut [f32]; 3],
    ) -> Result<()> {
        let (rows, groups) = (rectangle.rows(), rectangle.groups());
        let widen = |kind: ScaleType, bytes: &[u8], out: &mut [f32], spare: &mut [f32]| match self.is_transposed() {
            false => kind.widen(level, bytes, out),
            true => {
                kind.widen(level, bytes, spare)?;
                transpose(spare, rows, out);
                Ok(())
            }
        };
        let mut inputs = inputs.iter().copied();
        widen(self.scale, inputs.next().unwrap_or_default(), scales, spare)?;
        if let OffsetLayout::Constant(zero) = self.offsets {
            offsets.fill(zero.into());
        }
        if offsets.is_empty() || self.offsets_part().is_none() {
            return Ok(());
        }
        let stored = inputs.next().unwrap_or_default();
        match self.offsets {
            OffsetLayout::Constant(_) => {}
            OffsetLayout::Biases => widen(self.scale, stored, offsets, spare)?,
            OffsetLayout::Bytes => {
                widen(ScaleType::I8, stored, offsets, spare)?;
                let middle = f32::from(1u8 << (self.bits - 1));
                offsets.iter_mut().for_each(|offset| *offset += middle);
            }
            OffsetLayout::Down { dense } => {
                let words = stored.as_chunks::<4>().0;
                let (first, _) = place(rectangle.rows.start, self.bits, dense);
                for (row, offsets) in rectangle.rows.clone().zip(offsets.chunks_mut(groups.max(1))) {
                    let place = place(row, self.bits, dense);
                    for (col, offset) in offsets.iter_mut().enumerate() {
                        let word =
                            |at: u64| words.get((at - first) as usize * groups + col).copied().unwrap_or_default();
                        *offset = get(|at| u32::from_le_bytes(word(at)), place, self.bits).into();
                    }
                }
            }
            OffsetLayout::Along { minus_one } => {
                let mask = u8::MAX >> (8 - self.bits);
                let (per_word, per_code) = plus_one(minus_one, self.bits);
                let row_words = (rows * usize::from(self.bits) / 32).max(1);
                for (group, words) in stored.as_chunks::<4>().0.chunks(row_words).take(groups).enumerate() {
                    let word = |at: u64| words.get(at as usize).copied().unwrap_or_default();
                    for row in 0..rows {
                        let place = self.place_along(row as u64);
                        let code = get(|at| u32::from_le_bytes(word(at)).wrapping_add(per_word), place, self.bits);
                        offsets[row * groups + group] = (code.wrapping_add(per_code) & mask).into();
                    }
                }
            }
        }
        Ok(())
    }
}

/// The numbers to add to every word and to every code to undo the storage less one of zero points. An addition to a
/// word carries between its fields; codes of three bits are incremented separately.
pub(super) const fn plus_one(minus_one: bool, bits: u8) -> (u32, u8) {
    match (minus_one, bits) {
        (false, _) => (0, 0),
        (true, 3) => (0, 1),
        (true, _) => (u32::MAX / (u8::MAX >> (8 - bits)) as u32, 0),
    }
}

/// Transposes rows of `rows` numbers to columns.
fn transpose(numbers: &[f32], rows: usize, out: &mut [f32]) {
    let groups = numbers.len() / rows.max(1);
    for (group, numbers) in numbers.chunks(rows.max(1)).enumerate() {
        numbers.iter().enumerate().for_each(|(row, &number)| out[row * groups + group] = number);
    }
}
