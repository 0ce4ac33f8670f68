//! The layouts of codes in rows, and unpacking them to one code per byte.

use crate::error::Result;
use std::ops::Range;

use anamnesis_kernels::{Level, spread_bits, spread_plane, spread_words};

use crate::scheme::coder::{Window, filled, mishandled};

/// The layout of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Layout {
    /// Consecutive from the lowest bit of the first byte on, without gaps; a row takes `row_bytes`.
    Dense { bits: u8, row_bytes: u64 },
    /// In 32-bit words, each with only whole codes; a row takes `row_bytes`.
    Words { bits: u8, row_bytes: u64 },
    /// In bit fields of bytes or words: the first `rows` rows are the first field of every byte or word, the next
    /// `rows` rows the next field. `rows` rows of bytes or words are stored.
    Planes { bits: u8, unit: Unit, rows: u64, order: Order },
    /// Four-bit codes, the high half of a byte first; each row begins a new byte.
    HighNibbles,
    /// Four-bit codes of two rows in the same bytes: the first row in the low nibbles.
    RowPairs,
}

/// The unit that bit fields are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    Byte,
    /// 32 bits.
    Word,
}

/// Which bit field comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// The field of the lowest bits.
    LowestFirst,
    /// The highest field that fits whole.
    HighestFirst,
}

impl Unit {
    const fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Word => 4,
        }
    }
}

impl Layout {
    /// Codes of `bits` bits without gaps, each row from a new byte on.
    pub(crate) fn bytes(bits: u8, cols: u64) -> Self {
        Self::Dense { bits, row_bytes: (cols * u64::from(bits)).div_ceil(8) }
    }

    /// Codes of `bits` bits without gaps, each row from a new 32-bit word on.
    pub(crate) fn words(bits: u8, cols: u64) -> Self {
        Self::Dense { bits, row_bytes: (cols * u64::from(bits)).div_ceil(32) * 4 }
    }

    /// Codes of `bits` bits in 32-bit words with gaps, each row from a new word on.
    pub(crate) fn padded_words(bits: u8, cols: u64) -> Self {
        Self::Words { bits, row_bytes: cols.div_ceil(per_word(bits)) * 4 }
    }

    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::Dense { bits, .. } | Self::Words { bits, .. } | Self::Planes { bits, .. } => bits,
            Self::HighNibbles | Self::RowPairs => 4,
        }
    }

    /// The number of codes at whose multiples a row may be cut.
    pub(super) fn unit(self) -> u64 {
        match self {
            Self::Dense { bits: 8, .. } | Self::Planes { .. } => 1,
            Self::HighNibbles | Self::RowPairs => 2,
            Self::Dense { .. } => 8,
            Self::Words { bits, .. } => per_word(bits),
        }
    }

    /// Whether rows of `cols` codes are stored without gaps between them.
    pub(super) fn is_gapless(self, cols: u64) -> bool {
        match self {
            Self::Dense { bits, row_bytes } => row_bytes * 8 == cols * u64::from(bits),
            Self::HighNibbles => cols.is_multiple_of(2),
            Self::Words { .. } | Self::Planes { .. } | Self::RowPairs => false,
        }
    }

    /// The byte at which an element starts, which must be at a [cut](Self::unit); for planes and pairs, the byte that
    /// contains it.
    pub(super) fn byte_of(self, cols: u64, element: u64) -> u64 {
        match self {
            Self::Dense { row_bytes, .. } | Self::Words { row_bytes, .. } => {
                element / cols * row_bytes + self.bytes_of(element % cols)
            }
            Self::HighNibbles => element / cols * cols.div_ceil(2) + self.bytes_of(element % cols),
            Self::Planes { unit, rows, .. } => (element / cols % rows * cols + element % cols) * unit.bytes(),
            Self::RowPairs => element / cols / 2 * cols + element % cols,
        }
    }

    /// The bytes that the first `codes` codes of a row take.
    fn bytes_of(self, codes: u64) -> u64 {
        match self {
            Self::Dense { bits, .. } => (codes * u64::from(bits)).div_ceil(8),
            Self::Words { bits, .. } => codes.div_ceil(per_word(bits)) * 4,
            Self::HighNibbles => codes.div_ceil(2),
            Self::Planes { unit, .. } => codes * unit.bytes(),
            Self::RowPairs => codes,
        }
    }

    /// Splits elements into runs of contiguous bytes: one run, one per plane, or one per row.
    fn runs(self, cols: u64, elements: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (mut at, end) = (elements.start, elements.end);
        std::iter::from_fn(move || {
            let start = at;
            at = match self {
                Self::Planes { rows, .. } => ((at / cols / rows + 1) * rows * cols).min(end),
                Self::RowPairs => ((at / cols + 1) * cols).min(end),
                Self::Dense { .. } | Self::Words { .. } | Self::HighNibbles => end,
            };
            (start < end).then_some(start..at)
        })
    }

    /// The windows of part 0, the codes, that these elements need.
    pub(super) fn windows(self, cols: u64, elements: &Range<u64>, windows: &mut Vec<Window>) {
        for run in self.runs(cols, elements) {
            let (start, last) = (self.byte_of(cols, run.start), run.end - 1);
            let of_last_row = self.bytes_of(last % cols + 1) - self.bytes_of(last % cols);
            let end = match self {
                // Padding after the last code of a row is read too, to check that it is zero.
                Self::Dense { row_bytes, .. } | Self::Words { row_bytes, .. } if run.end.is_multiple_of(cols) => {
                    run.end / cols * row_bytes
                }
                _ => self.byte_of(cols, last) + of_last_row,
            };
            windows.push(Window::run(0, start, end - start));
        }
    }

    /// Whether padding bits are set: those left over in words, and after the last code of a row. All writers leave them
    /// zero.
    pub(super) fn has_spare_bits(self, cols: u64, elements: &Range<u64>, codes: &[u8]) -> bool {
        let (bits, row_bytes, per_word) = match self {
            Self::Dense { bits, row_bytes } if !self.is_gapless(cols) => (u64::from(bits), row_bytes, None),
            Self::Words { bits, row_bytes } => (u64::from(bits), row_bytes, Some(per_word(bits))),
            _ => return false,
        };
        let start = self.byte_of(cols, elements.start);
        let mut at = elements.start;
        while at < elements.end {
            let row_end = (at / cols + 1) * cols;
            let until = row_end.min(elements.end);
            let end = if until == row_end { until / cols * row_bytes } else { self.byte_of(cols, until) };
            let from = (self.byte_of(cols, at) - start) as usize;
            let piece = codes.get(from..(end - start) as usize).unwrap_or_default();
            let is_set = match per_word {
                None => has_bits_from(piece, (until - at) * bits),
                Some(count) => (0..)
                    .step_by(count as usize)
                    .zip(piece.chunks(4))
                    .any(|(before, word)| has_bits_from(word, count.min((until - at).saturating_sub(before)) * bits)),
            };
            if is_set {
                return true;
            }
            at = until;
        }
        false
    }

    /// Unpacks the codes of these elements from their windows to one per byte; those of row pairs to two per byte, in
    /// the first half of `out`. Removes the windows from `inputs`.
    pub(super) fn unpack(
        self,
        level: Level,
        cols: u64,
        elements: &Range<u64>,
        inputs: &mut &[&[u8]],
        out: &mut [u8],
    ) -> Result<()> {
        let mut rest = out;
        for run in self.runs(cols, elements) {
            let Some((codes, others)) = inputs.split_first() else {
                return Err(mishandled("fewer windows than it asked for"));
            };
            *inputs = others;
            let (out, after) = rest.split_at_mut((run.end - run.start) as usize);
            rest = after;
            let wanted = if self == Self::RowPairs { out.len().div_ceil(2) } else { out.len() };
            let written = match self {
                Self::Planes { bits, unit, rows, order } => {
                    let (plane, fields) = (run.start / cols / rows, 8 * unit.bytes() / u64::from(bits.max(1)));
                    let field = match order {
                        Order::LowestFirst => plane,
                        Order::HighestFirst => fields.saturating_sub(plane + 1),
                    };
                    let shift = field as u32 * u32::from(bits);
                    match unit {
                        Unit::Byte => spread_plane::<1>(level, codes, shift, bits, out),
                        Unit::Word => spread_plane::<4>(level, codes, shift, bits, out),
                    }
                }
                // The kernels read these as they are.
                Self::HighNibbles => 0,
                Self::RowPairs => gather_halves(codes, (run.start / cols % 2) as u32 * 4, out),
                Self::Dense { bits, .. } if self.is_gapless(cols) => spread_bits(level, codes, bits, out),
                Self::Dense { bits, .. } => {
                    self.each_row(cols, &run, codes, out, |codes, out| spread_bits(level, codes, bits, out))
                }
                Self::Words { bits, .. } => {
                    self.each_row(cols, &run, codes, out, |codes, out| spread_words(level, codes, bits, out))
                }
            };
            filled(written, wanted)?;
        }
        Ok(())
    }

    /// Calls `row` with the codes and the output of each row or piece of a row, and returns how many codes were
    /// written.
    fn each_row(
        self,
        cols: u64,
        run: &Range<u64>,
        codes: &[u8],
        out: &mut [u8],
        row: impl Fn(&[u8], &mut [u8]) -> usize,
    ) -> usize {
        let (mut at, mut written) = (run.start, 0);
        while at < run.end {
            let until = ((at / cols + 1) * cols).min(run.end);
            let from = (self.byte_of(cols, at) - self.byte_of(cols, run.start)) as usize;
            let out = &mut out[(at - run.start) as usize..(until - run.start) as usize];
            written += row(codes.get(from..).unwrap_or_default(), out);
            at = until;
        }
        written
    }
}

/// Packs one nibble of each byte with that of the next, the first in the low nibble.
fn gather_halves(codes: &[u8], shift: u32, out: &mut [u8]) -> usize {
    let (pairs, last) = codes.as_chunks::<2>();
    for (out, [first, second]) in out.iter_mut().zip(pairs) {
        *out = (first >> shift & 15) | (second >> shift & 15) << 4;
    }
    if let ([last], Some(out)) = (last, out.get_mut(pairs.len())) {
        *out = last >> shift & 15;
    }
    codes.len().div_ceil(2)
}

/// Whether any bit from `first` on is set, counted from the lowest bit of the first byte.
fn has_bits_from(bytes: &[u8], first: u64) -> bool {
    let mut rest = bytes.iter().skip((first / 8) as usize);
    let partial = if first.is_multiple_of(8) { None } else { rest.next() };
    partial.is_some_and(|byte| byte >> (first % 8) != 0) || rest.any(|&byte| byte != 0)
}

/// The number of codes that fit whole into a word.
const fn per_word(bits: u8) -> u64 {
    if bits == 0 { 32 } else { 32 / bits as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_bits_that_are_set_are_noticed_wherever_they_are() {
        // Rows of 5 codes: of 3 bits in one word without gaps, of 7 bits in two words of four.
        for (layout, spare) in [
            (Layout::words(3, 5), [15..32, 0..0]),
            (Layout::padded_words(7, 5), [28..32, 39..64]),
            (Layout::words(8, 5), [40..64, 0..0]),
        ] {
            let (Layout::Dense { row_bytes, .. } | Layout::Words { row_bytes, .. }) = layout else { panic!() };
            for row in 0..2 {
                for bit in 0..row_bytes * 8 {
                    let mut codes = vec![0; 2 * row_bytes as usize];
                    codes[(row * row_bytes + bit / 8) as usize] = 1 << (bit % 8);
                    let is_spare = spare.iter().any(|bits| bits.contains(&bit));
                    assert_eq!(layout.has_spare_bits(5, &(0..10), &codes), is_spare, "{layout:?} bit {bit}");
                }
            }
        }
        assert!(!Layout::words(4, 8).has_spare_bits(8, &(0..16), &[255; 8]));
    }

    #[test]
    fn windows_include_the_padding_after_the_last_code_of_a_row() {
        let mut windows = Vec::new();
        Layout::words(3, 5).windows(5, &(0..10), &mut windows);
        assert_eq!(windows, [Window::run(0, 0, 8)]);
    }
}
