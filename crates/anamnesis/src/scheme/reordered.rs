//! Codes, scales and offsets of [whole numbers](super::Integers) in the layout of another scheme that has the same. Codes keep
//! their bits; a group whose numbers would be others there is refused.

use std::ops::Range;

use anamnesis_kernels::{Level, transpose_words};

use super::integers::{Integers, Zeros};
use super::{Context, ScaleType, TileDecoder, Window};
use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};

/// Output bytes of a tile: what is turned is read in short pieces, and longer ones cost less.
const TILE_BYTES: u64 = 1 << 20;
/// Rows whose codes fill whole words, however many bits they have.
const STRIP: u64 = 32;
/// What a disagreement is told about.
const WHAT: &str = "the same codes in another layout";

/// The words of codes (part 0), turned where one of the layouts is.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct SameWords {
    pub from: Integers,
    pub to: Integers,
}

impl SameWords {
    /// Rows of words of the output, and words of each; `None` where nothing is turned.
    fn turned(&self) -> Option<(u64, u64)> {
        let (rows, words) = (self.from.rows, self.from.words());
        (self.from.is_turned != self.to.is_turned).then_some(if self.to.is_turned {
            (words, rows)
        } else {
            (rows, words)
        })
    }
}

impl TileDecoder for SameWords {
    fn granule(&self) -> u64 {
        self.turned().map_or(4, |(_, words)| words * 4)
    }

    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    fn windows(&self, bytes: Range<u64>, windows: &mut Vec<Window>) {
        windows.push(match self.turned() {
            None => Window::between(0, bytes),
            Some((rows, words)) => {
                let (start, end) = (bytes.start / (words * 4), bytes.end / (words * 4));
                Window::columns(0, start * 4, (end - start) * 4, rows * 4, words)
            }
        });
    }

    fn decode(
        &self,
        _bytes: Range<u64>,
        inputs: &[&[u8]],
        _target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<()> {
        let stored = inputs.first().copied().unwrap_or_default();
        match self.turned() {
            None => out.copy_from_slice(stored),
            Some((_, words)) => {
                let words = words as usize;
                transpose_words(context.level(), stored, words, out.len() / 4 / words.max(1), out);
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("the same codes of {} bits", self.from.bits)
    }
}

/// What stands beside codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Companion {
    Scales,
    Offsets,
}

/// Scales or offsets as another scheme stores them.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct SameGroups {
    pub from: Integers,
    pub to: Integers,
    pub of: Companion,
    /// The zero point that all groups must have.
    pub zero: Option<u8>,
    /// Whether numbers must also be the same by the arithmetic of both libraries.
    pub strictly: bool,
}

/// Some groups of some rows.
struct Rectangle {
    rows: Range<u64>,
    groups: Range<u64>,
}

impl Rectangle {
    const fn rows(&self) -> usize {
        (self.rows.end - self.rows.start) as usize
    }

    const fn groups(&self) -> usize {
        (self.groups.end - self.groups.start) as usize
    }
}

impl SameGroups {
    /// The groups of the output that these bytes are of.
    fn rectangle(&self, bytes: &Range<u64>) -> Rectangle {
        let Integers { rows, bits, is_turned, .. } = self.to;
        let (groups, each) = (self.to.groups(), self.each());
        match self.along() {
            Some(row_bytes) => Rectangle { rows: 0..rows, groups: bytes.start / row_bytes..bytes.end / row_bytes },
            None if self.is_packed_down() => {
                let row = |byte: u64| (byte / (groups * 4) * 32 / u64::from(bits)).min(rows);
                let end = if bytes.end == self.bytes() { rows } else { row(bytes.end) };
                Rectangle { rows: row(bytes.start)..end, groups: 0..groups }
            }
            None if is_turned => {
                Rectangle { rows: 0..rows, groups: bytes.start / (rows * each)..bytes.end / (rows * each) }
            }
            None => Rectangle { rows: bytes.start / (groups * each)..bytes.end / (groups * each), groups: 0..groups },
        }
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
            (Companion::Offsets, Zeros::Bytes) => 1,
            _ => self.to.scale.bytes(),
        }
    }

    fn is_packed_down(&self) -> bool {
        self.of == Companion::Offsets && matches!(self.to.offsets, Zeros::Down { .. })
    }

    /// Bytes of the zero points of a group, where they are packed along the outputs.
    fn along(&self) -> Option<u64> {
        let is_along = self.of == Companion::Offsets && matches!(self.to.offsets, Zeros::Along { .. });
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

    fn write(&self, level: Level, rectangle: &Rectangle, ordered: &[f32], out: &mut [u8]) {
        let (rows, groups, bits) = (rectangle.rows(), rectangle.groups(), self.to.bits);
        match (self.of, self.to.offsets) {
            (Companion::Scales, _) | (Companion::Offsets, Zeros::Biases) => self.to.scale.narrow(level, ordered, out),
            (Companion::Offsets, Zeros::Constant(_)) => {}
            (Companion::Offsets, Zeros::Bytes) => {
                let middle = 1i16 << (bits - 1);
                let byte = |zero: f32| ((zero as i16 - middle) as i8).cast_unsigned();
                out.iter_mut().zip(ordered).for_each(|(out, &zero)| *out = byte(zero));
            }
            (Companion::Offsets, Zeros::Down { dense }) => {
                out.fill(0);
                let words = out.as_chunks_mut::<4>().0;
                for (row, zeros) in ordered.chunks(groups.max(1)).take(rows).enumerate() {
                    let place = place(row as u64, bits, dense);
                    zeros.iter().enumerate().for_each(|(col, &zero)| put(words, place, groups, col, zero as u8));
                }
            }
            (Companion::Offsets, Zeros::Along { less }) => {
                out.fill(0);
                let mask = u8::MAX >> (8 - bits);
                let (of_word, of_code) = one_more(less, bits);
                let row_words = (rows * usize::from(bits) / 32).max(1);
                let words = out.as_chunks_mut::<4>().0.chunks_mut(row_words);
                for (words, zeros) in words.zip(ordered.chunks(rows.max(1))) {
                    for (row, &zero) in zeros.iter().enumerate() {
                        put(words, place(row as u64, bits, true), 1, 0, (zero as u8).wrapping_sub(of_code) & mask);
                    }
                    for word in words {
                        *word = u32::from_le_bytes(*word).wrapping_sub(of_word).to_le_bytes();
                    }
                }
            }
        }
    }

    /// Whether the output has all rows of a group together.
    fn is_by_group(&self) -> bool {
        match (self.of, self.to.offsets) {
            (Companion::Offsets, Zeros::Down { .. }) => false,
            (Companion::Offsets, Zeros::Along { .. }) => true,
            _ => self.to.is_turned,
        }
    }
}

impl TileDecoder for SameGroups {
    fn granule(&self) -> u64 {
        let Integers { rows, bits, is_turned, .. } = self.to;
        let groups = self.to.groups();
        match self.along() {
            Some(row_bytes) => row_bytes,
            None if self.is_packed_down() => u64::from(bits) * groups * 4,
            None if is_turned => rows * self.each(),
            None => STRIP * groups * self.each(),
        }
    }

    fn tile_bytes(&self) -> u64 {
        TILE_BYTES / 2
    }

    fn windows(&self, bytes: Range<u64>, windows: &mut Vec<Window>) {
        self.from.windows(&self.of_input(&self.rectangle(&bytes)), windows);
    }

    fn decode(
        &self,
        bytes: Range<u64>,
        inputs: &[&[u8]],
        _target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<()> {
        let rectangle = self.rectangle(&bytes);
        let of_input = self.of_input(&rectangle);
        let level = context.level();
        let (stored, made) = (of_input.rows() * of_input.groups(), rectangle.rows() * rectangle.groups());
        let (floats, ..) = context.all(3 * stored + made, 0, 0);
        let (scales, floats) = floats.split_at_mut(stored);
        let (offsets, floats) = floats.split_at_mut(stored);
        let (spare, ordered) = floats.split_at_mut(stored);
        self.from.read(level, &of_input, inputs, [scales, offsets, spare]);
        for (&scale, offset) in scales.iter().zip(&mut *offsets) {
            let agreed = self.from.agree(&self.to, scale, *offset, self.strictly);
            let agreed = agreed.filter(|&zero| self.zero.is_none_or(|wanted| zero == f32::from(wanted)));
            *offset = agreed.ok_or_else(|| {
                let detail = format!("a group with the scale {scale} and the offset {offset} has other numbers there");
                AnamnesisError::unsupported(WHAT, detail)
            })?;
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
        self.write(level, &rectangle, &ordered[..made], out);
        Ok(())
    }

    fn describe(&self) -> String {
        match self.of {
            Companion::Scales => "the same scales".to_owned(),
            Companion::Offsets => "the same zero points".to_owned(),
        }
    }
}

impl Integers {
    /// The bytes of scales and offsets of a rectangle.
    fn windows(&self, rectangle: &Rectangle, windows: &mut Vec<Window>) {
        let Rectangle { rows, groups } = rectangle;
        let (count, wide) = (rows.end - rows.start, groups.end - groups.start);
        let bits = u64::from(self.bits);
        let in_order = |part: usize, each: u64| match self.is_turned {
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
        let Some(part) = self.offsets_part() else { return };
        windows.push(match self.offsets {
            Zeros::Constant(_) | Zeros::Biases => in_order(part, self.scale.bytes()),
            Zeros::Bytes => in_order(part, 1),
            Zeros::Down { dense } => {
                let (first, _) = place(rows.start, self.bits, dense);
                let (last, shift) = place(rows.end.saturating_sub(1).max(rows.start), self.bits, dense);
                let end = last + if shift + u32::from(self.bits) > 32 { 2 } else { 1 };
                let row_bytes = self.groups() * 4;
                Window::columns(part, first * row_bytes + groups.start * 4, wide * 4, row_bytes, end - first)
            }
            Zeros::Along { .. } => {
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

    /// Scales and offsets of a rectangle, row by row. The last slice is for numbers on their way.
    fn read(&self, level: Level, rectangle: &Rectangle, inputs: &[&[u8]], [scales, offsets, spare]: [&mut [f32]; 3]) {
        let (rows, groups) = (rectangle.rows(), rectangle.groups());
        let widen = |kind: ScaleType, bytes: &[u8], out: &mut [f32], spare: &mut [f32]| match self.is_turned {
            false => kind.widen(level, bytes, out),
            true => {
                kind.widen(level, bytes, spare);
                turn(spare, rows, out);
            }
        };
        let mut inputs = inputs.iter().copied();
        widen(self.scale, inputs.next().unwrap_or_default(), scales, spare);
        if let Zeros::Constant(zero) = self.offsets {
            return offsets.fill(zero.into());
        }
        let stored = inputs.next().unwrap_or_default();
        match self.offsets {
            Zeros::Constant(_) => {}
            Zeros::Biases => widen(self.scale, stored, offsets, spare),
            Zeros::Bytes => {
                widen(ScaleType::I8, stored, offsets, spare);
                let middle = f32::from(1u8 << (self.bits - 1));
                offsets.iter_mut().for_each(|offset| *offset += middle);
            }
            Zeros::Down { dense } => {
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
            Zeros::Along { less } => {
                let mask = u8::MAX >> (8 - self.bits);
                let (of_word, of_code) = one_more(less, self.bits);
                let row_words = (rows * usize::from(self.bits) / 32).max(1);
                for (group, words) in stored.as_chunks::<4>().0.chunks(row_words).take(groups).enumerate() {
                    let word = |at: u64| words.get(at as usize).copied().unwrap_or_default();
                    for row in 0..rows {
                        let place = place(row as u64, self.bits, true);
                        let code = get(|at| u32::from_le_bytes(word(at)).wrapping_add(of_word), place, self.bits);
                        offsets[row * groups + group] = (code.wrapping_add(of_code) & mask).into();
                    }
                }
            }
        }
    }
}

/// What is added to every word, or to every code of three bits, where zero points are stored less one.
const fn one_more(less: bool, bits: u8) -> (u32, u8) {
    match (less, bits) {
        (false, _) => (0, 0),
        (true, 3) => (0, 1),
        (true, _) => (u32::MAX / (u8::MAX >> (8 - bits)) as u32, 0),
    }
}

/// The word in which a code begins, and at which bit.
const fn place(index: u64, bits: u8, dense: bool) -> (u64, u32) {
    match dense {
        true => (index * bits as u64 / 32, (index * bits as u64 % 32) as u32),
        false => {
            let each = 32 / bits as u64;
            (index / each, (index % each) as u32 * bits as u32)
        }
    }
}

/// The code at a place, which may reach into the next word.
fn get(word: impl Fn(u64) -> u32, (at, shift): (u64, u32), bits: u8) -> u8 {
    let next = if shift + u32::from(bits) > 32 { u64::from(word(at + 1)) } else { 0 };
    ((u64::from(word(at)) | next << 32) >> shift) as u8 & (u8::MAX >> (8 - bits))
}

/// Puts a code into a column of zeros.
fn put(words: &mut [[u8; 4]], (at, shift): (u64, u32), cols: usize, col: usize, code: u8) {
    let code = u64::from(code) << shift;
    for (at, part) in [(at as usize, code as u32), (at as usize + 1, (code >> 32) as u32)] {
        if part != 0
            && let Some(word) = words.get_mut(at * cols + col)
        {
            *word = (u32::from_le_bytes(*word) | part).to_le_bytes();
        }
    }
}

/// Rows of `rows` numbers to as many columns.
fn turn(numbers: &[f32], rows: usize, out: &mut [f32]) {
    let groups = numbers.len() / rows.max(1);
    for (group, numbers) in numbers.chunks(rows.max(1)).enumerate() {
        numbers.iter().enumerate().for_each(|(row, &number)| out[row * groups + group] = number);
    }
}

/// Bytes that are the same whatever the codes are.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Constant(pub Vec<u8>);

impl TileDecoder for Constant {
    fn granule(&self) -> u64 {
        1
    }

    fn windows(&self, _bytes: Range<u64>, _windows: &mut Vec<Window>) {}

    fn decode(
        &self,
        bytes: Range<u64>,
        _inputs: &[&[u8]],
        _target: TargetDtype,
        out: &mut [u8],
        _context: &mut Context,
    ) -> Result<()> {
        out.copy_from_slice(self.0.get(bytes.start as usize..bytes.end as usize).unwrap_or_default());
        Ok(())
    }

    fn describe(&self) -> String {
        "what depends on no value".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: u64 = 32;

    fn matrix(bits: u8, group: u64, offsets: Zeros) -> Integers {
        let is_turned = matches!(offsets, Zeros::Along { .. });
        Integers { bits, rows: ROWS, cols: 64, group, is_turned, scale: ScaleType::F16, offsets }
    }

    /// All of a companion, from parts.
    fn converted(decoder: &SameGroups, parts: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        let (all, step) = (decoder.bytes(), decoder.granule());
        // One granule after the other, as the smallest tiles are.
        for start in (0..all).step_by(step as usize) {
            let range = start..(start + step).min(all);
            let mut windows = Vec::new();
            decoder.windows(range.clone(), &mut windows);
            let rows = |window: &Window| -> Vec<u8> {
                let row = |row: u64| (window.offset + row * window.stride) as usize;
                let rows = (0..window.rows).map(|at| &parts[window.part][row(at)..row(at) + window.row_bytes as usize]);
                rows.flatten().copied().collect()
            };
            let inputs: Vec<Vec<u8>> = windows.iter().map(rows).collect();
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let mut tile = vec![0; (range.end - range.start) as usize];
            decoder.decode(range, &inputs, TargetDtype::F32, &mut tile, &mut Context::default()).unwrap();
            out.extend(tile);
        }
        out
    }

    /// The parts of `from` in the layout of `to`: codes are left empty.
    fn turned(from: Integers, to: Integers, parts: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let companion = |of| converted(&SameGroups { from, to, of, zero: None, strictly: true }, parts);
        let mut made = vec![Vec::new(), companion(Companion::Scales), companion(Companion::Offsets)];
        if to.is_turned {
            made.swap(1, 2);
        }
        made
    }

    #[test]
    fn zero_points_go_through_every_layout_and_back() {
        for bits in [2, 3, 4, 8] {
            let layouts = [
                Zeros::Biases,
                Zeros::Bytes,
                Zeros::Down { dense: true },
                Zeros::Along { less: true },
                Zeros::Along { less: false },
            ];
            let first = matrix(bits, 32, Zeros::Bytes);
            let count = ROWS * first.groups();
            let scales = (0..count).flat_map(|at| (0x3000u16 + 0x400 * (at % 5) as u16).to_le_bytes()).collect();
            let zeros = (0..count).map(|at| (at * 7) as u8 & (u8::MAX >> (8 - bits)));
            let parts = vec![Vec::new(), scales, zeros.map(|zero| zero.wrapping_sub(1 << (bits - 1))).collect()];
            for from in layouts.map(|offsets| matrix(bits, 32, offsets)) {
                let there = turned(first, from, &parts);
                for to in layouts.map(|offsets| matrix(bits, 32, offsets)) {
                    assert_eq!(turned(to, first, &turned(from, to, &there)), parts, "{bits} bits, {from:?} {to:?}");
                }
                // Smaller groups repeat their scales.
                let smaller = turned(from, matrix(bits, 16, Zeros::Bytes), &there);
                let twice = |each: usize, part: &[u8]| part.chunks(each).flat_map(|one| [one, one].concat()).collect();
                let wanted: Vec<Vec<u8>> = vec![Vec::new(), twice(2, &parts[1]), twice(1, &parts[2])];
                assert_eq!(smaller, wanted, "{bits} bits, {from:?}");
            }
        }
    }

    #[test]
    fn a_group_that_disagrees_is_refused() {
        let (from, to) = (matrix(4, 64, Zeros::Biases), matrix(4, 64, Zeros::Along { less: true }));
        let decoder = SameGroups { from, to, of: Companion::Scales, zero: Some(8), strictly: false };
        let mut out = vec![0; 2 * ROWS as usize];
        let mut with = |bias: u16| {
            let scales = 0x3C00u16.to_le_bytes().repeat(ROWS as usize);
            let mut biases = 0xC800u16.to_le_bytes().repeat(ROWS as usize);
            biases[10..12].copy_from_slice(&bias.to_le_bytes());
            let inputs = [&scales[..], &biases];
            decoder.decode(0..2 * ROWS, &inputs, TargetDtype::F32, &mut out, &mut Context::default())
        };
        assert!(with(0xC800).is_ok(), "-8");
        assert!(with(0xC700).is_err(), "-7, where 8 is taken for granted");
        assert!(with(0xC780).is_err(), "-7.5");
    }
}
