//! The selected values of a tensor, read row by row.

use std::ops::Range;

use anamnesis::{Checkpoint, Dtype, RememberOptions, TargetDtype};

use super::slice::Axis;
use crate::exit::Failure;

/// Values that are decoded together, if they are needed.
const SPAN_VALUES: u64 = 1 << 20;
/// Columns of a row that are read together.
const PIECE_COLUMNS: u64 = 1 << 16;
/// A selection is dense if it has one of this many values.
const DENSE: u64 = 4;

/// The type in which values are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Decoded to F32.
    Decoded,
    /// As stored, in elements of this type.
    Stored(Dtype),
    /// As stored, byte by byte.
    Bytes,
}

impl Reading {
    /// Bytes of an element.
    pub(super) const fn each(self) -> usize {
        match self {
            Self::Decoded => 4,
            Self::Stored(dtype) => dtype.byte_size(),
            Self::Bytes => 1,
        }
    }

    /// The number in these bytes; `None` for types without a number that Rust has.
    pub(super) fn number(self, bytes: &[u8]) -> Number {
        fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
            let mut array = [0; N];
            array.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            array
        }
        match self {
            Self::Decoded | Self::Stored(Dtype::F32) => Number::Float(f32::from_le_bytes(array(bytes)).into()),
            Self::Stored(Dtype::F64) => Number::Float(f64::from_le_bytes(array(bytes))),
            Self::Stored(Dtype::BF16) => {
                Number::Float(f32::from_bits(u32::from(u16::from_le_bytes(array(bytes))) << 16).into())
            }
            Self::Stored(Dtype::F16) => Number::Float(half(u16::from_le_bytes(array(bytes)))),
            Self::Stored(Dtype::I8) => Number::Integer(i8::from_le_bytes(array(bytes)).into()),
            Self::Stored(Dtype::I16) => Number::Integer(i16::from_le_bytes(array(bytes)).into()),
            Self::Stored(Dtype::I32) => Number::Integer(i32::from_le_bytes(array(bytes)).into()),
            Self::Stored(Dtype::I64) => Number::Integer(i64::from_le_bytes(array(bytes)).into()),
            Self::Stored(Dtype::U16) => Number::Integer(u16::from_le_bytes(array(bytes)).into()),
            Self::Stored(Dtype::U32) => Number::Integer(u32::from_le_bytes(array(bytes)).into()),
            Self::Stored(Dtype::U64) => Number::Integer(u64::from_le_bytes(array(bytes)).into()),
            Self::Stored(Dtype::U8 | Dtype::Bool) => Number::Integer(array::<1>(bytes)[0].into()),
            Self::Stored(_) | Self::Bytes => {
                Number::Code(bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect())
            }
        }
    }
}

/// An F16 number.
fn half(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * (-24f64).exp2(),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * f64::from(exponent - 25).exp2(),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    Float(f64),
    Integer(i128),
    /// The code of a type without a number, in hexadecimal.
    Code(String),
}

impl Number {
    /// As a float; `None` for a code.
    pub(super) fn float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Integer(value) => Some(*value as f64),
            Self::Code(_) => None,
        }
    }
}

/// A selection of a tensor's values, as rows.
pub(super) struct Selected<'a> {
    pub checkpoint: &'a Checkpoint,
    pub name: &'a str,
    pub reading: Reading,
    pub run: &'a RememberOptions,
    shape: Vec<u64>,
    axes: Vec<Axis>,
    /// The elements that were read last.
    span: Range<u64>,
    bytes: Vec<u8>,
}

impl<'a> Selected<'a> {
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        name: &'a str,
        reading: Reading,
        run: &'a RememberOptions,
        shape: &[usize],
        axes: Vec<Axis>,
    ) -> Self {
        let shape = shape.iter().map(|&length| length as u64).collect();
        Self { checkpoint, name, reading, run, shape, axes, span: 0..0, bytes: Vec::new() }
    }

    /// The shape of the selection.
    pub(super) fn shape(&self) -> Vec<u64> {
        self.axes.iter().filter(|axis| axis.is_kept).map(|axis| axis.count).collect()
    }

    /// The number of selected values.
    pub(super) fn len(&self) -> u64 {
        self.axes.iter().fold(1, |product, axis| product.saturating_mul(axis.count))
    }

    /// The lengths of the last two kept dimensions, and the number of such matrices.
    pub(super) fn matrix(&self) -> (u64, u64, u64) {
        match self.shape()[..] {
            [] => (1, 1, 1),
            [columns] => (1, columns, 1),
            [.., rows, columns] => {
                let all = self.len();
                (rows, columns, all.checked_div(rows.saturating_mul(columns)).unwrap_or(0))
            }
        }
    }

    /// The ranges of columns in which a row is read, so that long rows are never held whole.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (_, columns, _) = self.matrix();
        (0..columns.div_ceil(PIECE_COLUMNS))
            .map(move |piece| piece * PIECE_COLUMNS..((piece + 1) * PIECE_COLUMNS).min(columns))
    }

    /// The indices in the tensor of a row and of a column of the first matrix, for titles.
    pub(super) fn indices(&self, row: u64, column: u64) -> (u64, u64) {
        let mut kept = self.axes.iter().filter(|axis| axis.is_kept).rev();
        let column = kept.next().map_or(column, |axis| axis.at(column));
        (kept.next().map_or(row, |axis| axis.at(row)), column)
    }

    /// The bytes of `columns` of a row, in order. Rows are those of all matrices.
    pub(super) fn row(&mut self, row: u64, columns: Range<u64>, ahead: bool) -> Result<Vec<u8>, Failure> {
        let each = self.reading.each() as u64;
        let mut bytes = Vec::new();
        let places: Vec<u64> = columns.map(|column| self.place(row, column)).collect();
        // Pieces whose span is not much longer than their values.
        let mut rest = &places[..];
        while let Some(first) = rest.first() {
            let fits = |place: &&u64| place.abs_diff(*first) < SPAN_VALUES;
            let count = rest.iter().take_while(fits).count().max(1);
            let (piece, behind) = rest.split_at(count);
            let (low, high) = (piece.iter().min().unwrap_or(first), piece.iter().max().unwrap_or(first));
            self.read(*low..*high + 1, ahead)?;
            for place in piece {
                let start = ((place - self.span.start) * each) as usize;
                bytes.extend_from_slice(&self.bytes[start..start + each as usize]);
            }
            rest = behind;
        }
        Ok(bytes)
    }

    /// Whether most of the values between the first and the last are selected.
    pub(super) fn is_dense(&self) -> bool {
        let total: u64 = self.shape.iter().fold(1, |product, length| product.saturating_mul(*length));
        self.len().saturating_mul(DENSE) >= total || self.axes.iter().skip(1).all(|axis| axis.step == 1 && axis.is_kept)
    }

    /// The index of a value in the tensor.
    fn place(&self, row: u64, column: u64) -> u64 {
        // The last kept dimension counts columns, all others rows.
        let last = self.axes.iter().rposition(|axis| axis.is_kept);
        let mut row = row;
        let mut place = 0u64;
        let mut stride = 1u64;
        for (dimension, (axis, length)) in self.axes.iter().zip(&self.shape).enumerate().rev() {
            let position = match Some(dimension) == last {
                true => column,
                false if axis.is_kept => {
                    let position = row % axis.count.max(1);
                    row /= axis.count.max(1);
                    position
                }
                false => 0,
            };
            place = place.saturating_add(axis.at(position).saturating_mul(stride));
            stride = stride.saturating_mul(*length);
        }
        place
    }

    /// Makes `span` cover the wanted elements, and more of them if the rest will be read too.
    fn read(&mut self, wanted: Range<u64>, ahead: bool) -> Result<(), Failure> {
        if self.span.start <= wanted.start && wanted.end <= self.span.end {
            return Ok(());
        }
        let total: u64 = self.shape.iter().fold(1, |product, length| product.saturating_mul(*length));
        let end = if ahead { (wanted.start + SPAN_VALUES).max(wanted.end).min(total) } else { wanted.end };
        let span = wanted.start..end;
        let each = self.reading.each();
        self.bytes.resize((span.end - span.start) as usize * each, 0);
        match self.reading {
            Reading::Decoded => {
                self.checkpoint.decode_range_into(
                    self.name,
                    span.clone(),
                    &mut self.bytes,
                    TargetDtype::F32,
                    self.run,
                )?;
            }
            Reading::Stored(_) | Reading::Bytes => {
                self.checkpoint.read_tensor_data(self.name, span.start * each as u64, &mut self.bytes)?;
            }
        }
        self.span = span;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_decoded() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x7bff, 65504.0),
            (0x7c00, f64::INFINITY),
            (0x8000, 0.0),
        ] {
            assert_eq!(half(bits), value, "{bits:04x}");
        }
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn numbers_of_every_type_are_read() {
        let number = |dtype, bytes: &[u8]| Reading::Stored(dtype).number(bytes);
        assert_eq!(number(Dtype::I8, &[0xff]), Number::Integer(-1));
        assert_eq!(number(Dtype::U32, &[1, 0, 0, 0x80]), Number::Integer(0x8000_0001));
        assert_eq!(number(Dtype::BF16, &[0x80, 0x3f]), Number::Float(1.0));
        assert_eq!(number(Dtype::F8E4M3, &[0x38]), Number::Code("38".to_owned()));
    }
}
