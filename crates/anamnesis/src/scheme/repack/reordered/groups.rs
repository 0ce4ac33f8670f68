//! Repacking the scales and offsets of groups, and checking that both layouts decode to the same values.

use std::ops::Range;

use anamnesis_kernels::Level;

use super::TILE_BYTES;
use super::stored::{Rectangle, plus_one};
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::words::{place, put};
use crate::scheme::coder::{ByteTiles, Context, Integers, OffsetLayout, Window, mishandled};

/// The number of rows whose codes fill whole words for any number of bits.
const STRIP: u64 = 32;

/// The companion that is repacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Companion {
    Scales,
    Offsets,
}

/// Whether the groups are known to decode to the same values in both layouts, or are to be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Agreement {
    /// They are known to agree: the output is the companion.
    Known,
    /// They are checked: every byte of an output tile is 1 if all groups of the tile agree, otherwise 0.
    Numbers,
    /// Like `Numbers`; the libraries of both formats must also decode to the same values by their own arithmetic.
    Libraries,
}

/// The scales or offsets of a weight in the layout of another scheme.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct RepackedCompanion {
    pub from: Integers,
    pub to: Integers,
    pub companion: Companion,
    /// The zero point that all groups must have, if loaders of the output assume one.
    pub zero: Option<u8>,
    pub agreement: Agreement,
}

impl RepackedCompanion {
    /// The groups of the output that these bytes belong to.
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

    /// Whether the output depends on the offsets.
    fn needs_offsets(&self) -> bool {
        self.companion == Companion::Offsets || self.agreement != Agreement::Known
    }

    /// The bytes of the output.
    pub(crate) fn bytes(&self) -> u64 {
        let Integers { rows, bits, .. } = self.to;
        let groups = self.to.groups();
        match self.along() {
            Some(row_bytes) => groups * row_bytes,
            None if self.is_packed_down() => (rows * u64::from(bits)).div_ceil(32) * 4 * groups,
            None => rows * groups * self.each(),
        }
    }

    /// The bytes of an unpacked scale or offset.
    fn each(&self) -> u64 {
        match (self.companion, self.to.offsets) {
            (Companion::Offsets, OffsetLayout::Bytes) => 1,
            _ => self.to.scale.bytes(),
        }
    }

    fn is_packed_down(&self) -> bool {
        self.companion == Companion::Offsets && matches!(self.to.offsets, OffsetLayout::Down { .. })
    }

    /// The bytes of the zero points of one group, if they are packed along the outputs.
    fn along(&self) -> Option<u64> {
        let is_along = self.companion == Companion::Offsets && matches!(self.to.offsets, OffsetLayout::Along { .. });
        is_along.then(|| self.to.rows * u64::from(self.to.bits) / 8)
    }

    /// The rectangle in groups of the input, which may be larger than those of the output.
    fn input_rectangle(&self, rectangle: &Rectangle) -> Rectangle {
        let ratio = self.ratio() as u64;
        let groups = rectangle.groups.start / ratio..rectangle.groups.end.div_ceil(ratio);
        Rectangle { rows: rectangle.rows.clone(), groups }
    }

    /// The number of groups of the output per group of the input.
    fn ratio(&self) -> usize {
        (self.from.group / self.to.group.max(1)).max(1) as usize
    }

    fn write(&self, level: Level, rectangle: &Rectangle, ordered: &[f32], out: &mut [u8]) -> Result<usize> {
        let (rows, groups, bits) = (rectangle.rows(), rectangle.groups(), self.to.bits);
        match (self.companion, self.to.offsets) {
            (Companion::Scales, _) | (Companion::Offsets, OffsetLayout::Biases) => {
                return Ok(self.to.scale.narrow(level, ordered, out));
            }
            (Companion::Offsets, OffsetLayout::Constant(_)) => {
                return Err(mishandled("constant zero points, which are not stored"));
            }
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
                let (per_word, per_code) = plus_one(minus_one, bits);
                let row_words = (rows * usize::from(bits) / 32).max(1);
                let words = out.as_chunks_mut::<4>().0.chunks_mut(row_words);
                for (words, zeros) in words.zip(ordered.chunks(rows.max(1))) {
                    for (row, &zero) in zeros.iter().enumerate() {
                        put(words, self.to.place_along(row as u64), 1, 0, (zero as u8).wrapping_sub(per_code) & mask);
                    }
                    for word in words {
                        *word = u32::from_le_bytes(*word).wrapping_sub(per_word).to_le_bytes();
                    }
                }
            }
        }
        // All words were cleared before codes were written to them, so the whole output is written.
        Ok(out.len())
    }

    /// Whether the output is ordered by group, then by row.
    fn is_by_group(&self) -> bool {
        match (self.companion, self.to.offsets) {
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
        self.from.windows(&self.input_rectangle(&self.rectangle(&bytes)), self.needs_offsets(), windows);
    }

    fn fill(&self, bytes: Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<usize> {
        let rectangle = self.rectangle(&bytes);
        let input = self.input_rectangle(&rectangle);
        let level = context.level();
        let (stored_count, output_count) = (input.rows() * input.groups(), rectangle.rows() * rectangle.groups());
        let offset_count = if self.needs_offsets() { stored_count } else { 0 };
        let (floats, ..) = context.scratch(2 * stored_count + offset_count + output_count, 0, 0);
        let (scales, floats) = floats.split_at_mut(stored_count);
        let (offsets, floats) = floats.split_at_mut(offset_count);
        let (spare, ordered) = floats.split_at_mut(stored_count);
        self.from.read(level, &input, inputs, [scales, offsets, spare])?;
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
        let values = if self.companion == Companion::Scales { &*scales } else { &*offsets };
        let (rows, groups, ratio) = (rectangle.rows(), rectangle.groups(), self.ratio());
        let first = rectangle.groups.start as usize - input.groups.start as usize * ratio;
        let value = |row: usize, group: usize| values[row * input.groups() + (first + group) / ratio];
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
        self.write(level, &rectangle, &ordered[..output_count], out)
    }

    fn describe(&self) -> String {
        match self.companion {
            Companion::Scales => "the same scales".to_owned(),
            Companion::Offsets => "the same zero points".to_owned(),
        }
    }
}

/// The error for a group that agreed while the conversion was planned, but no longer does.
fn changed(scale: f32, offset: f32) -> AnamnesisError {
    AnamnesisError::parse(format!(
        "a group with the scale {scale} and the offset {offset} decodes to other values in the layout of the output: the \
         input has changed since the conversion was planned"
    ))
}
