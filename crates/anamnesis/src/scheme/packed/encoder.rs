//! Encoding packed matrices: a tile is a range of rows of the weight, transposed to columns of the stored matrix.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::chosen::{self, Rounded};
use anamnesis_kernels::float::bf16;
use anamnesis_kernels::{self as kernels, F16, Goal, Level, Output, Ratio};

use super::{ColumnDecoder, Dialect, Grouping, PackedMatrix, Words, ZeroPoints};
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Request, Result, quoted};
use crate::scheme::coder::words::awq_word;
use crate::scheme::coder::{
    Context, EncodedIntegers, EncodedTensor, TileDecoder, TileEncoder, Window, filled, mishandled,
};
use crate::scheme::grouped::{Groups, ScaleRule};
use crate::scheme::quantise::Candidate;

/// Values per tile. The rows of a tile are the length of the pieces in which stored rows are written, and longer pieces
/// cost less.
const TILE_VALUES: u64 = 1 << 20;
/// The rows at whose multiples tiles may be cut: 32 codes of any width fill whole words.
const STRIP: u64 = 32;
/// Halfway between the largest F16 and the next power of two: values from here on round to infinity.
const F16_OVERFLOW: f32 = 65520.0;

/// The encoder of a packed matrix.
pub(crate) struct PackedEncoder {
    /// Codes, zero points, scales, and the group index if it is stored.
    outputs: Vec<EncodedTensor>,
    rule: Arc<dyn ScaleRule>,
    ratio: Ratio,
    /// Whether values are rounded to F16 first.
    from_f16: bool,
    /// Whether the library decodes the codes to BF16 and quantises the result again when it packs them.
    through_bf16: bool,
    /// The group size.
    group: u64,
    /// The zero point of all groups, if loaders assume it without reading it.
    zero: Option<u8>,
    decoder: ColumnDecoder,
}

impl Hash for PackedEncoder {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { outputs, rule, ratio, from_f16, through_bf16, group, zero, decoder } = self;
        (outputs, ratio, from_f16, through_bf16, group, zero, decoder).hash(state);
        rule.identify(state);
    }
}

/// Refuses a matrix that does not fill whole words of codes.
pub(crate) fn check_shape(target: &str, tensor: &Candidate<'_>, bits: u64) -> Result<()> {
    match *tensor.shape {
        [rows, cols] if (rows as u64 * bits).is_multiple_of(32) && (cols as u64 * bits).is_multiple_of(32) => Ok(()),
        _ => {
            let what = format!("{target} for tensor {}", quoted(tensor.name));
            let why = format!("its shape {:?} does not fill 32-bit words with codes of {bits} bits", tensor.shape);
            Err(Request::Contradiction { what, why }.into())
        }
    }
}

impl PackedEncoder {
    /// An encoder with F16 scales; `has_index` if a group index is stored.
    pub(crate) fn new(
        tensor: &Candidate<'_>,
        matrix: PackedMatrix,
        rule: Arc<dyn ScaleRule>,
        ratio: Ratio,
        has_index: bool,
        description: String,
    ) -> Self {
        let PackedMatrix { words, inputs, outputs, groups, .. } = matrix;
        let words_of = |codes: u64| (codes * words.bits() / 32) as usize;
        let tensor_named =
            |part: &str, dtype: Dtype, shape: Vec<usize>| EncodedTensor { name: tensor.part(part), dtype, shape };
        let codes = match words {
            Words::Gptq(_) => vec![words_of(inputs), outputs as usize],
            Words::Awq => vec![inputs as usize, words_of(outputs)],
        };
        let mut tensors = vec![
            tensor_named("qweight", Dtype::I32, codes),
            tensor_named("qzeros", Dtype::I32, vec![groups as usize, words_of(outputs)]),
            tensor_named("scales", Dtype::F16, vec![groups as usize, outputs as usize]),
            tensor_named("g_idx", Dtype::I32, vec![inputs as usize]),
        ];
        tensors.truncate(if has_index { 4 } else { 3 });
        let group = match matrix.grouping {
            Grouping::Runs(run) => run,
            Grouping::Indexed => inputs,
        };
        let decoder = ColumnDecoder { matrix, is_planar: false, dialect: Dialect::Default, description };
        let from_f16 = words == Words::Awq;
        Self { outputs: tensors, rule, ratio, from_f16, through_bf16: false, group, zero: None, decoder }
    }

    /// Sets whether the library decodes the codes to BF16 and quantises the result again. This changes only codes that
    /// are more than 127 steps from the zero point.
    pub(crate) const fn through_bf16(mut self, through: bool) -> Self {
        self.through_bf16 = through;
        self
    }

    /// Sets the zero point that loaders assume for all groups.
    pub(crate) const fn with_zero(mut self, zero: Option<u8>) -> Self {
        self.zero = zero;
        self
    }

    /// The group index of an input, as stored.
    fn group_of(&self, input: usize) -> [u8; 4] {
        ((input / self.group as usize) as u32).to_le_bytes()
    }

    /// The values to encode: rounded to F16 if the library does so.
    fn prepared<'a>(
        &self,
        level: Level,
        range: &Range<u64>,
        values: &'a [f32],
        halves: &mut [u8],
        floats: &'a mut [f32],
    ) -> Result<&'a [f32]> {
        if !self.from_f16 {
            return Ok(values);
        }
        // The scale may not depend on a value that became infinite, so it would decode to a wrong finite value.
        if let Some(place) = values.iter().position(|value| value.abs() >= F16_OVERFLOW) {
            let (index, value) = (range.start + place as u64, values[place]);
            let (decoded, encoding) = (f32::INFINITY.copysign(value), self.describe());
            return Err(AnamnesisError::Overflow { tensor: String::new(), index, value, decoded, encoding });
        }
        filled(chosen::round_slice(level, Rounded::F16, values, halves), halves.len())?;
        filled(kernels::widen_f16(level, halves, floats), values.len())?;
        Ok(floats)
    }

    /// Packs codes of one per byte and transposes them to columns of the stored matrix. Returns the bytes written.
    fn transpose_codes(&self, level: Level, codes: &[u8], packed: &mut [u8], out: &mut [u8]) -> usize {
        let inputs = self.decoder.matrix.inputs as usize;
        let rows = codes.len() / inputs;
        match self.decoder.matrix.words {
            Words::Gptq(bits) => {
                let written = kernels::pack_bits(level, codes, bits, packed);
                let words = inputs * usize::from(bits) / 32;
                kernels::transpose_words(level, &packed[..written], rows, words, out)
            }
            Words::Awq => {
                let out = out.as_chunks_mut::<4>().0;
                for (column, eight) in codes.chunks_exact(8 * inputs).enumerate() {
                    for input in 0..inputs {
                        let code = |row: usize| u32::from(eight[row * inputs + input]);
                        out[input * (rows / 8) + column] = awq_word(code).to_le_bytes();
                    }
                }
                4 * inputs * (rows / 8)
            }
        }
    }

    /// Packs zero points and transposes them to columns of the stored matrix. Returns the bytes written.
    fn transpose_zeros(&self, level: Level, zeros: &[f32], packed: &mut [u8], out: &mut [u8]) -> usize {
        let mut written = 0;
        let PackedMatrix { words, groups, zeros: stored, .. } = self.decoder.matrix;
        let (groups, bits) = (groups as usize, words.bits());
        let rows = zeros.len() / groups;
        let row_bytes = rows * bits as usize / 8;
        for (group, out) in out.chunks_mut(row_bytes.max(1)).take(groups).enumerate() {
            let zero = |row: usize| zeros[row * groups + group] as u32;
            let mask = (1u32 << bits) - 1;
            match words {
                Words::Awq => {
                    for (column, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                        *out = awq_word(|row| zero(8 * column + row)).to_le_bytes();
                        written += 4;
                    }
                }
                Words::Gptq(bits) => {
                    // The first format stores zero points less one: subtracted from whole words with borrows, or for 3
                    // bits from each field.
                    let minus_one = u32::from(stored == ZeroPoints::PlusOne && bits == 3);
                    for (row, code) in packed[..rows].iter_mut().enumerate() {
                        *code = (zero(row).wrapping_sub(minus_one) & mask) as u8;
                    }
                    written += kernels::pack_bits(level, &packed[..rows], bits, out);
                    if stored == ZeroPoints::PlusOne && bits != 3 {
                        for word in out.as_chunks_mut::<4>().0 {
                            *word = u32::from_le_bytes(*word).wrapping_sub(u32::MAX / mask).to_le_bytes();
                        }
                    }
                }
            }
        }
        written
    }
}

impl TileEncoder for PackedEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn granule(&self) -> u64 {
        let inputs = self.decoder.matrix.inputs.max(1);
        TILE_VALUES.div_ceil(inputs).next_multiple_of(STRIP) * inputs
    }

    fn scale_values(&self) -> u64 {
        self.group
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        self.decoder.windows(range.clone(), places);
        if let Some(index) = self.outputs.get(3) {
            let bytes = if range.start == 0 { index.shape[0] as u64 * 4 } else { 0 };
            places.push(Window::run(3, 0, bytes));
        }
    }

    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let group = self.group as usize;
        let count = values.len() / group;
        let (as_f16, bits) = (if self.from_f16 { values.len() } else { 0 }, self.decoder.matrix.words.bits());
        let (floats, bytes, _) = context.scratch(4 * count + as_f16, 3 * values.len(), 0);
        let (codes, bytes) = bytes.split_at_mut(values.len());
        let (floats, widened) = floats.split_at_mut(4 * count);
        let values = self.prepared(level, range, values, &mut bytes[..2 * as_f16], &mut widened[..as_f16])?;
        let (factors, floats) = floats.split_at_mut(count);
        let (shifts, floats) = floats.split_at_mut(count);
        let (scales, offsets) = floats.split_at_mut(count);
        filled(kernels::block_range(level, values, group, factors, shifts), count)?;
        let mut groups = Groups { factors, shifts, scales, offsets };
        self.rule.groups(1.0, &mut groups);
        let goal = Goal::Integer { ratio: self.ratio, low: 0, high: (1 << bits) - 1, plus: 0 };
        filled(kernels::group_codes(level, goal, values, group, groups.factors, groups.shifts, codes), codes.len())?;
        if self.through_bf16 {
            for ((codes, &scale), &zero) in codes.chunks_mut(group).zip(&*groups.factors).zip(&*groups.shifts) {
                requantise_from_bf16(codes, scale, zero, bits);
            }
        }
        let [codes_out, zeros_out, scales_out, rest @ ..] = outs else {
            return Err(mishandled("fewer outputs than it asked for"));
        };
        let mut written = self.transpose_codes(level, codes, bytes, codes_out);
        written += self.transpose_zeros(level, groups.offsets, bytes, zeros_out);
        let per_row = self.decoder.matrix.groups as usize;
        let rows = count / per_row;
        for (index, &scale) in groups.scales.iter().enumerate() {
            let at = index % per_row * rows + index / per_row;
            if let Some(out) = scales_out.as_chunks_mut::<2>().0.get_mut(at) {
                *out = F16::round(scale).to_le_bytes();
                written += 2;
            }
        }
        if let [index] = rest {
            written += index.len();
            for (input, out) in index.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *out = self.group_of(input);
            }
        }
        Ok(written)
    }

    fn decoder(&self) -> Option<&dyn TileDecoder> {
        Some(&self.decoder)
    }

    fn integers(&self) -> Option<EncodedIntegers> {
        let integers = self.decoder.codes().integers()?;
        let index = self.outputs.get(3).map(|_| (0..integers.cols as usize).flat_map(|input| self.group_of(input)));
        let constants = index.map(Iterator::collect).into_iter().collect();
        Some(EncodedIntegers { integers, zero: self.zero, any_scale: false, constants })
    }
}

/// Decodes codes to BF16 and quantises the result again, as GPTQModel does when it packs them.
fn requantise_from_bf16(codes: &mut [u8], scale: f32, zero: f32, bits: u64) {
    let highest = ((1u64 << bits) - 1) as f32;
    for code in codes {
        let weight = bf16::decode(bf16::encode(scale * (f32::from(*code) - zero)));
        *code = ((weight + zero * scale) / scale).round_ties_even().clamp(0.0, highest) as u8;
    }
}
