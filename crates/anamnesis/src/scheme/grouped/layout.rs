//! Where the codes of a row lie, and how they come into bytes of their own.

use std::ops::Range;

use anamnesis_kernels::{Level, spread_bits, spread_plane, spread_words};

use crate::scheme::Window;

/// The layout of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Layout {
    /// One after the other from the lowest bit of the first byte on, without gaps; rows take `row_bytes`.
    Dense { bits: u8, row_bytes: u64 },
    /// In 32-bit words, as many in each as fit whole; rows take `row_bytes`.
    Words { bits: u8, row_bytes: u64 },
    /// In fields of bytes or words: the first rows are the first field of all of them, the next rows the next. `rows` of
    /// them are stored.
    Planes { bits: u8, unit: Unit, rows: u64, order: Order },
    /// Four bits of two rows in the bytes of one: the first of them in the low halves.
    RowPairs,
}

/// What fields are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    Byte,
    /// Of 32 bits.
    Word,
}

/// Which field comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// That of the lowest bits.
    LowestFirst,
    /// The highest that fits whole.
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
            Self::RowPairs => 4,
        }
    }

    /// A row may be cut at multiples of so many codes.
    pub(super) fn unit(self) -> u64 {
        match self {
            Self::Dense { bits: 8, .. } | Self::Planes { .. } => 1,
            Self::RowPairs => 2,
            Self::Dense { .. } => 8,
            Self::Words { bits, .. } => per_word(bits),
        }
    }

    /// Whether rows of so many codes follow each other without a gap.
    pub(super) fn is_gapless(self, cols: u64) -> bool {
        matches!(self, Self::Dense { bits, row_bytes } if row_bytes * 8 == cols * u64::from(bits))
    }

    /// Where an element starts, which is at a [cut](Self::unit). Planes and pairs have their own answer.
    pub(super) fn byte_of(self, cols: u64, element: u64) -> u64 {
        match self {
            Self::Dense { row_bytes, .. } | Self::Words { row_bytes, .. } => {
                element / cols * row_bytes + self.bytes_of(element % cols)
            }
            Self::Planes { unit, rows, .. } => (element / cols % rows * cols + element % cols) * unit.bytes(),
            Self::RowPairs => element / cols / 2 * cols + element % cols,
        }
    }

    /// Bytes that so many codes of a row take from its start.
    fn bytes_of(self, codes: u64) -> u64 {
        match self {
            Self::Dense { bits, .. } => (codes * u64::from(bits)).div_ceil(8),
            Self::Words { bits, .. } => codes.div_ceil(per_word(bits)) * 4,
            Self::Planes { unit, .. } => codes * unit.bytes(),
            Self::RowPairs => codes,
        }
    }

    /// The pieces of these elements that lie in one run of bytes: all of them, those of each plane, or of each row.
    fn runs(self, cols: u64, elements: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (mut at, end) = (elements.start, elements.end);
        std::iter::from_fn(move || {
            let start = at;
            at = match self {
                Self::Planes { rows, .. } => ((at / cols / rows + 1) * rows * cols).min(end),
                Self::RowPairs => ((at / cols + 1) * cols).min(end),
                Self::Dense { .. } | Self::Words { .. } => end,
            };
            (start < end).then_some(start..at)
        })
    }

    /// The bytes that codes of part 0 need.
    pub(super) fn windows(self, cols: u64, elements: &Range<u64>, windows: &mut Vec<Window>) {
        for run in self.runs(cols, elements) {
            let (start, last) = (self.byte_of(cols, run.start), run.end - 1);
            let of_last_row = self.bytes_of(last % cols + 1) - self.bytes_of(last % cols);
            windows.push(Window::run(0, start, self.byte_of(cols, last) + of_last_row - start));
        }
    }

    /// Brings the codes of these elements from their windows into bytes of their own, or those of pairs of rows into the first
    /// half of them, two in a byte. Takes the windows off `inputs`.
    pub(super) fn spread(self, level: Level, cols: u64, elements: &Range<u64>, inputs: &mut &[&[u8]], out: &mut [u8]) {
        let mut rest = out;
        for run in self.runs(cols, elements) {
            let Some((codes, others)) = inputs.split_first() else { return };
            *inputs = others;
            let (out, after) = rest.split_at_mut((run.end - run.start) as usize);
            rest = after;
            match self {
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
                Self::RowPairs => gather_halves(codes, (run.start / cols % 2) as u32 * 4, out),
                Self::Dense { bits, .. } if self.is_gapless(cols) => spread_bits(level, codes, bits, out),
                Self::Dense { bits, .. } => self.each_row(cols, &run, codes, out, |codes, out| {
                    spread_bits(level, codes, bits, out);
                }),
                Self::Words { bits, .. } => self.each_row(cols, &run, codes, out, |codes, out| {
                    spread_words(level, codes, bits, out);
                }),
            }
        }
    }

    /// Calls `row` with the codes and the output of each row, or piece of a row.
    fn each_row(self, cols: u64, run: &Range<u64>, codes: &[u8], out: &mut [u8], row: impl Fn(&[u8], &mut [u8])) {
        let mut at = run.start;
        while at < run.end {
            let until = ((at / cols + 1) * cols).min(run.end);
            let from = (self.byte_of(cols, at) - self.byte_of(cols, run.start)) as usize;
            let out = &mut out[(at - run.start) as usize..(until - run.start) as usize];
            row(codes.get(from..).unwrap_or_default(), out);
            at = until;
        }
    }
}

/// Brings one half of each byte together with that of the next, the first in the low half.
fn gather_halves(codes: &[u8], shift: u32, out: &mut [u8]) {
    let (pairs, last) = codes.as_chunks::<2>();
    for (out, [first, second]) in out.iter_mut().zip(pairs) {
        *out = (first >> shift & 15) | (second >> shift & 15) << 4;
    }
    if let ([last], Some(out)) = (last, out.get_mut(pairs.len())) {
        *out = last >> shift & 15;
    }
}

/// Codes that fit whole into a word.
const fn per_word(bits: u8) -> u64 {
    if bits == 0 { 32 } else { 32 / bits as u64 }
}
