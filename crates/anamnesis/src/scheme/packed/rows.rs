//! Decoding to `[in, out]`, the orientation of the stored matrix: input by input.

use anamnesis_kernels::{self as kernels, AwqNibbles, Level, Output};

use super::{Grouping, PackedMatrix, Words};
use crate::catalog::TargetDtype;
use crate::scheme::decoder::with_output;

/// Outputs done at a time, so that their zero points and scales stay in the first-level cache.
const STRIP: usize = 2048;

/// Decodes a whole matrix of 4- or 8-bit codes. `group_index` is little-endian I32 and within range; all lengths are those
/// of the matrix. Needs memory for two rows of floats and one of zero points.
pub(crate) fn decode_rows(
    matrix: &PackedMatrix,
    codes: &[u8],
    zeros: &[u8],
    scales: &[u8],
    group_index: Option<&[u8]>,
    target: TargetDtype,
    out: &mut [u8],
) {
    with_output!(target, out, O => decode::<O>(matrix, codes, zeros, scales, group_index, out));
}

fn decode<O: Output>(
    matrix: &PackedMatrix,
    codes: &[u8],
    zeros: &[u8],
    scales: &[u8],
    group_index: Option<&[u8]>,
    out: &mut [u8],
) {
    let level = Level::detect();
    let (inputs, outputs, bits) = (matrix.inputs as usize, matrix.outputs as usize, matrix.words.bits() as usize);
    let (zero_row_bytes, scale_bytes) = (outputs * bits / 8, matrix.scale.bytes() as usize);
    let strip = STRIP.min(outputs);
    let (mut zero_strip, mut scale_strip) = (vec![0.0; strip], vec![0.0; strip]);
    let mut zero_words = vec![0; strip * bits / 8];
    for start in (0..outputs).step_by(STRIP) {
        let columns = start..(start + STRIP).min(outputs);
        let (zero_strip, scale_strip) = (&mut zero_strip[..columns.len()], &mut scale_strip[..columns.len()]);
        let mut known_group = None;
        for input in 0..inputs {
            let group = match (group_index, matrix.grouping) {
                (Some(index), _) => {
                    index.as_chunks::<4>().0.get(input).map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
                }
                (None, Grouping::Runs(run)) => input / run as usize,
                (None, Grouping::Indexed) => 0,
            };
            if known_group != Some(group) {
                known_group = Some(group);
                let packed = &zeros[group * zero_row_bytes..][columns.start * bits / 8..columns.end * bits / 8];
                let words = &mut zero_words[..packed.len()];
                matrix.zeros.unpack(level, matrix.words, packed, words, zero_strip);
                let stored = &scales[(group * outputs + columns.start) * scale_bytes..][..columns.len() * scale_bytes];
                matrix.scale.widen(level, stored, scale_strip);
            }
            let out = &mut out[(input * outputs + columns.start) * O::BYTES..][..columns.len() * O::BYTES];
            match matrix.words {
                Words::Gptq(_) => {
                    let per_word = 32 / bits;
                    let words = &codes[(input / per_word * outputs + columns.start) * 4..][..columns.len() * 4];
                    let shift = (input % per_word * bits) as u32;
                    kernels::affine_fields::<O>(level, words, shift, bits as u32, zero_strip, scale_strip, out);
                }
                Words::Awq => {
                    let packed = &codes[(input * outputs + columns.start) / 2..][..columns.len() / 2];
                    kernels::affine_codes::<AwqNibbles, O>(level, packed, zero_strip, scale_strip, out);
                }
            }
        }
    }
}
