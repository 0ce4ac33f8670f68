//! Decoding to `[in, out]`, the orientation of the stored matrix, input by input.

use std::ops::Range;

use anamnesis_kernels::chosen::{self as kernels, Rounded};
use anamnesis_kernels::{Level, canonical_nans};

use super::{Grouping, PackedMatrix, Words};
use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{filled, rounded};

/// Outputs decoded at a time, so that their zero points and scales stay in the L1 cache.
const STRIP: usize = 2048;

/// The bytes of a packed matrix, of the lengths that its geometry needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedBytes<'a> {
    pub codes: &'a [u8],
    pub zeros: &'a [u8],
    pub scales: &'a [u8],
    /// Little-endian I32, within range.
    pub group_index: Option<&'a [u8]>,
}

/// Zero points and scales of one group, as floats. Zero points are integers; a NaN scale is canonical.
struct GroupRows {
    group: Option<usize>,
    zeros: Vec<f32>,
    scales: Vec<f32>,
    zero_words: Vec<u8>,
}

impl GroupRows {
    fn new(matrix: &PackedMatrix) -> Self {
        let outputs = matrix.outputs as usize;
        let zero_words = vec![0; outputs * matrix.words.bits() as usize / 8];
        Self { group: None, zeros: vec![0.0; outputs], scales: vec![0.0; outputs], zero_words }
    }

    fn load(&mut self, level: Level, matrix: &PackedMatrix, group: usize, zeros: &[u8], scales: &[u8]) -> Result<()> {
        if self.group == Some(group) {
            return Ok(());
        }
        self.group = Some(group);
        let (zero_bytes, scale_bytes) = (self.zero_words.len(), self.scales.len() * matrix.scale.bytes() as usize);
        let packed = &zeros[group * zero_bytes..(group + 1) * zero_bytes];
        matrix.zeros.unpack(level, matrix.words, packed, &mut self.zero_words, &mut self.zeros)?;
        matrix.scale.widen(level, &scales[group * scale_bytes..(group + 1) * scale_bytes], &mut self.scales)?;
        filled(canonical_nans(level, &mut self.scales), self.scales.len())
    }
}

/// Decodes a matrix of 4- or 8-bit codes row by row. Holds one row of zero points and scales.
pub(crate) struct RowDecoder<'a> {
    level: Level,
    matrix: &'a PackedMatrix,
    stored: PackedBytes<'a>,
    to: Rounded,
    group: GroupRows,
}

impl<'a> RowDecoder<'a> {
    pub(crate) fn new(level: Level, matrix: &'a PackedMatrix, stored: PackedBytes<'a>, target: TargetDtype) -> Self {
        Self { level, matrix, stored, to: rounded(target), group: GroupRows::new(matrix) }
    }

    fn group_of(&self, input: usize) -> usize {
        match (self.stored.group_index, self.matrix.grouping) {
            (Some(index), _) => {
                index.as_chunks::<4>().0.get(input).map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
            }
            (None, Grouping::Runs(run)) => input / run as usize,
            (None, Grouping::Indexed) => 0,
        }
    }

    /// Decodes the rows of `inputs`, and returns the bytes written.
    pub(crate) fn decode(&mut self, inputs: Range<usize>, out: &mut [u8]) -> Result<usize> {
        let Self { level, matrix, stored: PackedBytes { codes, zeros, scales, .. }, to, .. } = *self;
        let (outputs, bits) = (matrix.outputs as usize, matrix.words.bits() as usize);
        let per_word = matrix.inputs_per_word();
        let row_bytes = codes.len() / (matrix.inputs as usize / per_word);
        let (mut input, mut written) = (inputs.start, 0);
        while input < inputs.end {
            // The inputs of one row of words that also share a group.
            let group = self.group_of(input);
            let row_end = ((input / per_word + 1) * per_word).min(inputs.end);
            let end = (input..row_end).find(|&other| self.group_of(other) != group).unwrap_or(row_end);
            self.group.load(level, matrix, group, zeros, scales)?;
            let words = &codes[input / per_word * row_bytes..][..row_bytes];
            for start in (0..outputs).step_by(STRIP) {
                let columns = start..(start + STRIP).min(outputs);
                let (zeros, scales) = (&self.group.zeros[columns.clone()], &self.group.scales[columns.clone()]);
                for input in input..end {
                    let row = (input - inputs.start) * outputs;
                    let out = &mut out[(row + start) * to.bytes()..][..columns.len() * to.bytes()];
                    written += match matrix.words {
                        Words::Gptq(_) => {
                            let shift = (input % per_word * bits) as u32;
                            let words = &words[start * 4..columns.end * 4];
                            kernels::affine_fields(level, to, words, shift, bits as u32, zeros, scales, out)
                        }
                        Words::Awq => {
                            let packed = &words[start / 2..columns.end / 2];
                            kernels::awq_codes(level, to, packed, zeros, scales, out)
                        }
                    };
                }
            }
            input = end;
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::coder::ScaleType;
    use crate::scheme::packed::ZeroPoints;

    fn painted(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index * 151 % 251) as u8).collect()
    }

    #[test]
    fn every_level_gives_the_same_rows() {
        let (inputs, outputs, groups) = (64, 72, 4);
        let index: Vec<u8> = (0..inputs as i32).flat_map(|input| (input * 7 % 4).to_le_bytes()).collect();
        for (words, zeros) in [
            (Words::Gptq(4), ZeroPoints::PlusOneUnbounded),
            (Words::Gptq(8), ZeroPoints::PlusOne),
            (Words::Awq, ZeroPoints::Stored),
        ] {
            let grouping = Grouping::Runs(inputs / groups);
            let matrix = PackedMatrix { words, inputs, outputs, groups, grouping, zeros, scale: ScaleType::F16 };
            let packed = |rows: u64| painted((rows * outputs * words.bits() / 8) as usize);
            let (codes, zeros, scales) = (packed(inputs), packed(groups), painted((groups * outputs * 2) as usize));
            for group_index in [None, Some(&index[..])] {
                let stored = PackedBytes { codes: &codes, zeros: &zeros, scales: &scales, group_index };
                for target in [TargetDtype::BF16, TargetDtype::F16, TargetDtype::F32] {
                    let decoded = |level| {
                        let mut out = vec![0; (inputs * outputs) as usize * target.byte_size()];
                        let mut rows = RowDecoder::new(level, &matrix, stored, target);
                        let cut = outputs as usize * 24 * target.byte_size();
                        let (first, rest) = out.split_at_mut(cut);
                        assert_eq!(rows.decode(0..24, first).unwrap(), first.len());
                        assert_eq!(rows.decode(24..inputs as usize, rest).unwrap(), rest.len());
                        out
                    };
                    let portable = decoded(Level::portable());
                    assert!(portable.iter().any(|&byte| byte != 0));
                    for level in Level::available() {
                        assert!(decoded(level) == portable, "{words:?} to {target} at {level}");
                    }
                }
            }
        }
    }
}
