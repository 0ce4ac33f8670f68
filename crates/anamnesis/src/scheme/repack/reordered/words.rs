//! Repacking words of codes.

use std::ops::Range;

use anamnesis_kernels::{transpose_awq, transpose_words};

use super::TILE_BYTES;
use crate::error::Result;
use crate::scheme::coder::words::awq_word;
use crate::scheme::coder::{ByteTiles, CodeOrder, Context, Integers, Window, mishandled};

/// The words of codes (part 0) in the layout of another scheme.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct RepackedCodes {
    pub from: Integers,
    pub to: Integers,
}

impl RepackedCodes {
    /// The smallest unit of the output in bytes: a word, a row of words, or the rows that share words of the input.
    fn unit_bytes(&self) -> u64 {
        let (rows, words) = (self.from.rows, self.from.words_of_row());
        match (self.from.words, self.to.words) {
            (from, to) if from == to => 4,
            (CodeOrder::Awq, CodeOrder::Rows) => 8 * words * 4,
            (_, CodeOrder::Rows) => words * 4,
            // Eight rows of AWQ words have as many words as one row of GPTQ words.
            (_, CodeOrder::Columns | CodeOrder::Awq) => rows * 4,
        }
    }
}

impl ByteTiles for RepackedCodes {
    fn granule(&self) -> u64 {
        self.unit_bytes()
    }

    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    fn windows(&self, bytes: Range<u64>, windows: &mut Vec<Window>) {
        let (rows, words) = (self.from.rows, self.from.words_of_row());
        let (start, end) = (bytes.start / self.unit_bytes(), bytes.end / self.unit_bytes());
        windows.push(match (self.from.words, self.to.words) {
            (from, to) if from == to => Window::between(0, bytes),
            (CodeOrder::Columns, CodeOrder::Rows) => Window::columns(0, start * 4, (end - start) * 4, rows * 4, words),
            (CodeOrder::Awq, CodeOrder::Rows) => {
                Window::columns(0, start * 4, (end - start) * 4, rows / 2, self.from.cols)
            }
            (CodeOrder::Rows, _) => Window::columns(0, start * 4, (end - start) * 4, words * 4, rows),
            // One row of GPTQ words has as many bytes as eight rows of AWQ words.
            (CodeOrder::Columns | CodeOrder::Awq, _) => Window::between(0, bytes),
        });
    }

    fn fill(&self, _bytes: Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<usize> {
        let (level, rows, words) = (context.level(), self.from.rows as usize, self.from.words_of_row() as usize);
        let stored = inputs.first().copied().unwrap_or_default();
        // Rows of GPTQ words in this tile, and all words of it.
        let (wide, count) = ((out.len() / 4).checked_div(rows).unwrap_or(0), out.len() / 4);
        let written = match (self.from.words, self.to.words) {
            (from, to) if from == to => {
                out.copy_from_slice(stored);
                out.len()
            }
            (CodeOrder::Columns, CodeOrder::Rows) => transpose_words(level, stored, words, count / words.max(1), out),
            (CodeOrder::Awq, CodeOrder::Rows) => {
                let outputs = count / words.max(1);
                transpose_awq(level, stored, self.from.cols as usize, outputs / 8, out)
            }
            (CodeOrder::Rows, CodeOrder::Columns) => transpose_words(level, stored, rows, wide, out),
            (CodeOrder::Awq, CodeOrder::Columns) => {
                let (_, nibbles, _) = context.scratch(0, out.len(), 0);
                let count = transpose_awq(level, stored, 8 * wide, rows / 8, &mut nibbles[..out.len()]);
                transpose_words(level, &nibbles[..count], rows, wide, out)
            }
            (CodeOrder::Rows, CodeOrder::Awq) => to_awq(stored, |row, word| row * wide + word, rows, out),
            (CodeOrder::Columns, CodeOrder::Awq) => to_awq(stored, |row, word| word * rows + row, rows, out),
            _ => return Err(mishandled("an order of codes that it does not convert")),
        };
        Ok(written)
    }

    fn describe(&self) -> String {
        format!("the same codes of {} bits", self.from.bits)
    }
}

/// Repacks words with codes of inputs to AWQ words with codes of outputs; `at` is the index of a word by row and word.
fn to_awq(stored: &[u8], at: impl Fn(usize, usize) -> usize, rows: usize, out: &mut [u8]) -> usize {
    let stored = stored.as_chunks::<4>().0;
    for (input, out) in out.as_chunks_mut::<4>().0.chunks_mut((rows / 8).max(1)).enumerate() {
        for (eight, out) in out.iter_mut().enumerate() {
            let code = |row: usize| {
                let word = stored.get(at(8 * eight + row, input / 8)).copied().unwrap_or_default();
                u32::from_le_bytes(word) >> (4 * (input % 8)) & 15
            };
            *out = awq_word(code).to_le_bytes();
        }
    }
    out.len() / 4 * 4
}
