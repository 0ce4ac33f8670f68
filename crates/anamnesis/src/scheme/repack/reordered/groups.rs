//! Scales and offsets of groups, held against each other.

use std::ops::Range;

use anamnesis_kernels::Level;

use super::TILE_BYTES;
use super::stored::{Rectangle, plus_one};
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::words::{place, put};
use crate::scheme::coder::{ByteTiles, Context, Integers, OffsetLayout, Window, mishandled};

/// Rows whose codes fill whole words, however many bits they have.
const STRIP: u64 = 32;

/// What stands beside codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Companion {
    Scales,
    Offsets,
}

/// Whether it is known that groups stand for the same numbers in both layouts, or asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Agreement {
    /// It is known: scales or offsets are made.
    Known,
    /// It is asked. Every byte of a tile is 1 where all groups of the tile agree, and 0 where one does not.
    Numbers,
    /// As `Numbers`, and the libraries of both must get the same numbers by their own arithmetic.
    Libraries,
}

/// Scales or offsets as another scheme stores them.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct RepackedCompanion {
    pub from: Integers,
    pub to: Integers,
    pub of: Companion,
    /// The zero point that all groups must have.
    pub zero: Option<u8>,
    pub agreement: Agreement,
}

impl RepackedCompanion {
    /// The groups of the output that these bytes are of.
    fn rectangle(&self, bytes: &Range<u64>) -> Rectangle {
        let Integers { rows, bits, .. } = self.to;
        let (groups, each) = (self.to.groups(), self.each());
        match self.along() {
            Some(row_bytes) => Rectangle { rows: 0..rows, groups: bytes.start / row_bytes..bytes.end / row_bytes },
            None if self.is_packed_down() => {
                let row = |byte: u64| (byte / (groups * 4) * 32 / u64::from(bits)).min(rows);
                let end = if bytes.end == self.bytes() { rows } else { row(bytes.end) };
                Rectangle { rows: row(bytes.start)..end, groups: 0..groups }
            }
            None if self.to.is_transposed() => {
                Rectangle { rows: 0..rows, groups: bytes.start / (rows * each)..bytes.end / (rows * each) }
            }
            None => Rectangle { rows: bytes.start / (groups * each)..bytes.end / (groups * each), groups: 0..groups },
        }
    }

    /// Whether it takes offsets to make it.
    fn needs_offsets(&self) -> bool {
        self.of == Companion::Offsets || self.agreement != Agreement::Known
    }

    /// Bytes of the output.
    pub(crate) fn bytes(&self) -> u64 {
        let Integers { rows, bits, .. } = self.to;
        let groups = self.to.groups();
        match self.along() {
            Some(row_bytes) => groups * row_bytes,
            None if self.is_packed_down() => (rows * u64::from(bits)).div_ceil(32) * 4 * groups,
            None => rows * groups * self.each(),
        }
    }

    /// Bytes of a scale or offset that is not packed.
    fn each(&self) -> u64 {
        match (self.of, self.to.offsets) {
            (Companion::Offsets, OffsetLayout::Bytes) => 1,
            _ => self.to.scale.bytes(),
        }
    }

    fn is_packed_down(&self) -> bool {
        self.of == Companion::Offsets && matches!(self.to.offsets, OffsetLayout::Down { .. })
    }

    /// Bytes of the zero points of a group, where they are packed along the outputs.
    fn along(&self) -> Option<u64> {
        let is_along = self.of == Companion::Offsets && matches!(self.to.offsets, OffsetLayout::Along { .. });
        is_along.then(|| self.to.rows * u64::from(self.to.bits) / 8)
    }

    /// The same rectangle in the groups of the input, which may be larger.
    fn of_input(&self, rectangle: &Rectangle) -> Rectangle {
        let ratio = self.ratio() as u64;
        let groups = rectangle.groups.start / ratio..rectangle.groups.end.div_ceil(ratio);
        Rectangle { rows: rectangle.rows.clone(), groups }
    }

    /// Groups of the output in one of the input.
    fn ratio(&self) -> usize {
        (self.from.group / self.to.group.max(1)).max(1) as usize
    }

    fn write(&self, level: Level, rectangle: &Rectangle, ordered: &[f32], out: &mut [u8]) -> Result<usize> {
        let (rows, groups, bits) = (rectangle.rows(), rectangle.groups(), self.to.bits);
        match (self.of, self.to.offsets) {
            (Companion::Scales, _) | (Companion::Offsets, OffsetLayout::Biases) => {
                return Ok(self.to.scale.narrow(level, ordered, out));
            }
            (Companion::Offsets, OffsetLayout::Constant(_)) => return Err(mishandled("a constant to store")),
            (Companion::Offsets, OffsetLayout::Bytes) => {
                let middle = 1i16 << (bits - 1);
                let byte = |zero: f32| ((zero as i16 - middle) as i8).cast_unsigned();
                out.iter_mut().zip(ordered).for_each(|(out, &zero)| *out = byte(zero));
                return Ok(out.len().min(ordered.len()));
            }
            (Companion::Offsets, OffsetLayout::Down { dense }) => {
                out.fill(0);
                let words = out.as_chunks_mut::<4>().0;
                for (row, zeros) in ordered.chunks(groups.max(1)).take(rows).enumerate() {
                    let place = place(row as u64, bits, dense);
                    zeros.iter().enumerate().for_each(|(col, &zero)| put(words, place, groups, col, zero as u8));
                }
            }
            (Companion::Offsets, OffsetLayout::Along { minus_one }) => {
                out.fill(0);
                let mask = u8::MAX >> (8 - bits);
                let (of_word, of_code) = plus_one(minus_one, bits);
                let row_words = (rows * usize::from(bits) / 32).max(1);
                let words = out.as_chunks_mut::<4>().0.chunks_mut(row_words);
                for (words, zeros) in words.zip(ordered.chunks(rows.max(1))) {
                    for (row, &zero) in zeros.iter().enumerate() {
                        put(words, self.to.place_along(row as u64), 1, 0, (zero as u8).wrapping_sub(of_code) & mask);
                    }
                    for word in words {
                        *word = u32::from_le_bytes(*word).wrapping_sub(of_word).to_le_bytes();
                    }
                }
            }
        }
        // Words were cleared before codes were put into them.
        Ok(out.len())
    }

    /// Whether the output has all rows of a group together.
    fn is_by_group(&self) -> bool {
        match (self.of, self.to.offsets) {
            (Companion::Offsets, OffsetLayout::Down { .. }) => false,
            (Companion::Offsets, OffsetLayout::Along { .. }) => true,
            _ => self.to.is_transposed(),
        }
    }
}

impl ByteTiles for RepackedCompanion {
    fn granule(&self) -> u64 {
        let Integers { rows, bits, .. } = self.to;
        let groups = self.to.groups();
        match self.along() {
            Some(row_bytes) => row_bytes,
            None if self.is_packed_down() => u64::from(bits) * groups * 4,
            None if self.to.is_transposed() => rows * self.each(),
            None => STRIP * groups * self.each(),
        }
    }

    fn tile_bytes(&self) -> u64 {
        TILE_BYTES / 2
    }

    fn windows(&self, bytes: Range<u64>, windows: &mut Vec<Window>) {
        self.from.windows(&self.of_input(&self.rectangle(&bytes)), self.needs_offsets(), windows);
    }

    fn fill(&self, bytes: Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<usize> {
        let rectangle = self.rectangle(&bytes);
        let of_input = self.of_input(&rectangle);
        let level = context.level();
        let (stored, made) = (of_input.rows() * of_input.groups(), rectangle.rows() * rectangle.groups());
        let of_offsets = if self.needs_offsets() { stored } else { 0 };
        let (floats, ..) = context.scratch(2 * stored + of_offsets + made, 0, 0);
        let (scales, floats) = floats.split_at_mut(stored);
        let (offsets, floats) = floats.split_at_mut(of_offsets);
        let (spare, ordered) = floats.split_at_mut(stored);
        self.from.read(level, &of_input, inputs, [scales, offsets, spare])?;
        let mut agree = true;
        for (&scale, offset) in scales.iter().zip(&mut *offsets) {
            let agreed = self.from.offset_in(&self.to, scale, *offset, self.agreement == Agreement::Libraries);
            match agreed.filter(|&zero| self.zero.is_none_or(|wanted| zero == f32::from(wanted))) {
                Some(zero) => *offset = zero,
                None if self.agreement == Agreement::Known => return Err(changed(scale, *offset)),
                None => agree = false,
            }
        }
        if self.agreement != Agreement::Known {
            out.fill(u8::from(agree));
            return Ok(out.len());
        }
        let values = if self.of == Companion::Scales { &*scales } else { &*offsets };
        let (rows, groups, ratio) = (rectangle.rows(), rectangle.groups(), self.ratio());
        let first = rectangle.groups.start as usize - of_input.groups.start as usize * ratio;
        let value = |row: usize, group: usize| values[row * of_input.groups() + (first + group) / ratio];
        match self.is_by_group() {
            true => {
                for (group, ordered) in ordered.chunks_mut(rows.max(1)).take(groups).enumerate() {
                    ordered.iter_mut().enumerate().for_each(|(row, out)| *out = value(row, group));
                }
            }
            false => {
                for (row, ordered) in ordered.chunks_mut(groups.max(1)).take(rows).enumerate() {
                    ordered.iter_mut().enumerate().for_each(|(group, out)| *out = value(row, group));
                }
            }
        }
        self.write(level, &rectangle, &ordered[..made], out)
    }

    fn describe(&self) -> String {
        match self.of {
            Companion::Scales => "the same scales".to_owned(),
            Companion::Offsets => "the same zero points".to_owned(),
        }
    }
}

/// The refusal of a group that agreed while the conversion was planned.
fn changed(scale: f32, offset: f32) -> AnamnesisError {
    AnamnesisError::parse(format!(
        "a group with the scale {scale} and the offset {offset} stands for other numbers in the layout of the output: the \
         input has changed since the conversion was planned"
    ))
}
