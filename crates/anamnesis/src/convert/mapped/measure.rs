//! Reads the tensors that an architecture needs the values of.

use anamnesis_kernels::float::Fused;
use std::collections::BTreeMap;

use anamnesis_kernels::float::{bf16, f16};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Model;
use crate::architecture::measured::{Measure, Measured};
use crate::architecture::reshape::{Leaf, TableDecoder};
use crate::architecture::sidecars::{Directory, SidecarFiles};
use crate::architecture::types::IntegerTable;
use crate::catalog::{Dtype, TargetDtype};
use crate::checkpoint::Checkpoint;
use crate::convert::inputs::{ClaimedCatalog, InputTensor, SelectedTensors};
use crate::error::{AnamnesisError, Result, quoted};
use crate::json;
use crate::pipeline::{Origin, RememberOptions, Values, decode_range};

/// The most values of a tensor that is kept whole.
const MOST_VALUES: u64 = 1 << 16;
/// The values that are decoded at a time.
const STEP: u64 = 1 << 20;

impl Model<'_> {
    /// The measured tensors of a checkpoint.
    pub(super) fn measured(&self, selected: &SelectedTensors, layers: u64) -> Result<Measured> {
        let (mut read, mut integers) = (BTreeMap::new(), BTreeMap::new());
        if self.architecture.read_tensors().is_empty() {
            return Ok(Measured::new(read, integers));
        }
        for tensor in &selected.tensors {
            let Some((key, measure)) = self.architecture.reads(&tensor.new_name, layers) else { continue };
            if measure == Measure::Integers {
                integers.insert(key, self.integers(tensor).map_err(|error| error.in_tensor(&tensor.name))?);
                continue;
            }
            let values = self.measure(tensor, measure).map_err(|error| error.in_tensor(&tensor.name))?;
            read.insert(key, values);
        }
        Ok(Measured::new(read, integers))
    }

    /// All values of a small tensor of integers.
    fn integers(&self, tensor: &InputTensor) -> Result<Vec<i64>> {
        let unfit = || AnamnesisError::parse("it is not stored as integers");
        let decoder = tensor.stored.and_then(|stored| TableDecoder::of(IntegerTable::TokenIds, stored));
        let (decoder, &id) = decoder.zip(tensor.parts.first()).ok_or_else(unfit)?;
        let stored = self.checkpoint.catalog.get(id);
        if stored.elements() > MOST_VALUES {
            let why = format!("it has {} values, at most {MOST_VALUES} are possible", stored.elements());
            return Err(AnamnesisError::parse(why));
        }
        let mut bytes = vec![0; stored.extent.bytes as usize];
        self.checkpoint.sources[stored.extent.file as usize].read_at(stored.extent.offset, &mut bytes)?;
        Ok(decoder.stored(&bytes))
    }

    fn measure(&self, tensor: &InputTensor, measure: Measure) -> Result<Vec<f32>> {
        let Leaf { decoder, elements, parts, .. } = tensor.leaf(&self.checkpoint.catalog)?;
        let (sources, dtype, origin) = (Vec::new(), TargetDtype::F32, Origin::Plain);
        let values = Values { decoder, parts, sources, dtype, elements, origin };
        let input = ClaimedCatalog::of(self.checkpoint);
        let decode = |range: std::ops::Range<u64>| -> Result<Vec<f32>> {
            let mut bytes = vec![0; (range.end - range.start) as usize * size_of::<f32>()];
            decode_range(&values, input.sources, &RememberOptions::new(), range, &mut bytes)?;
            Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        };
        let row: u64 = tensor.shape.iter().skip(1).map(|&size| size as u64).product();
        let rows = tensor.shape.first().map_or(1, |&rows| rows as u64);
        let whole = |most: u64| match elements {
            0 => Err(AnamnesisError::parse("it has no values")),
            _ if elements > most => {
                Err(AnamnesisError::parse(format!("it has {elements} values, at most {most} are possible")))
            }
            _ => decode(0..elements),
        };
        match measure {
            Measure::Values | Measure::Integers => whole(MOST_VALUES),
            Measure::Mean => Ok(vec![mean(&whole(MOST_VALUES)?, tensor.stored)]),
            Measure::MeanMagnitude => {
                let mut sum = TorchSum::default();
                for start in (0..elements).step_by(STEP as usize) {
                    sum.add(decode(start..elements.min(start + STEP))?.into_iter().map(f32::abs));
                }
                Ok(vec![sum.total() / elements as f32])
            }
            Measure::ColumnNorms => {
                let mut squares = vec![0f32; usize::try_from(row.min(STEP)).unwrap_or(0)];
                if squares.is_empty() || row > STEP {
                    return Err(AnamnesisError::parse(format!("its rows have {row} values")));
                }
                let rows_at_once = (STEP / row).max(1);
                for start in (0..rows).step_by(rows_at_once as usize) {
                    let decoded = decode(start * row..rows.min(start + rows_at_once) * row)?;
                    for (place, value) in decoded.into_iter().enumerate() {
                        let square = &mut squares[place % row as usize];
                        *square = value.fused(value, *square);
                    }
                }
                Ok(squares.into_iter().map(f32::sqrt).collect())
            }
            Measure::ZeroRows => {
                let first = self.added_tokens()?;
                let mut zeros = Vec::new();
                for number in first..rows.min(first.saturating_add(MOST_VALUES)) {
                    if decode(number * row..(number + 1) * row)?.iter().all(|value| *value == 0.0) {
                        zeros.push(number as f32);
                    }
                }
                Ok(zeros)
            }
            Measure::Digest => {
                let mut digest = Sha256::new();
                for start in (0..elements).step_by(STEP as usize) {
                    for value in decode(start..elements.min(start + STEP))? {
                        digest.update(value.to_le_bytes());
                    }
                }
                Ok(digest.finalize().iter().copied().map(f32::from).collect())
            }
        }
    }

    /// The number of tokens in the vocabulary of `tokenizer.json`, after which added tokens come.
    fn added_tokens(&self) -> Result<u64> {
        let files = Directory::new(&self.directory, &self.checkpoint.limits);
        let document: Option<Value> = match files.read("tokenizer.json")? {
            Some(text) => json::from_slice(&text).ok(),
            None => None,
        };
        let vocabulary = document.as_ref().and_then(|document| document.get("model")?.get("vocab"));
        match vocabulary {
            Some(Value::Object(tokens)) => Ok(tokens.len() as u64),
            Some(Value::Array(tokens)) => Ok(tokens.len() as u64),
            _ => Err(AnamnesisError::parse(format!("{} has no vocabulary", quoted("tokenizer.json")))),
        }
    }
}

/// All values of a tensor, at most this many.
pub(super) fn decoded(checkpoint: &Checkpoint, tensor: &InputTensor, most: u64) -> Result<Vec<f32>> {
    let Leaf { decoder, elements, parts, .. } = tensor.leaf(&checkpoint.catalog)?;
    if elements > most {
        let why = format!("it has {elements} values, at most {most} are possible");
        return Err(AnamnesisError::parse(why).in_tensor(&tensor.name));
    }
    let (sources, dtype, origin) = (Vec::new(), TargetDtype::F32, Origin::Plain);
    let values = Values { decoder, parts, sources, dtype, elements, origin };
    let mut bytes = vec![0; elements as usize * size_of::<f32>()];
    decode_range(&values, &checkpoint.sources, &RememberOptions::new(), 0..elements, &mut bytes)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// The mean of F32, rounded to the stored type.
fn mean(values: &[f32], stored: Option<Dtype>) -> f32 {
    let rounded = |value: f32| match stored {
        Some(Dtype::BF16) => bf16::decode(bf16::encode(value)),
        Some(Dtype::F16) => f16::decode(f16::encode(value)),
        _ => value,
    };
    let mut sum = TorchSum::default();
    sum.add(values.iter().copied());
    rounded(sum.total() / values.len() as f32)
}

/// A sum in the order of torch's kernel for F32 (of AVX2) on one thread: four vectors at a time, in levels.
#[derive(Debug, Default)]
struct TorchSum {
    values: Vec<f32>,
}

/// Values of a vector, and vectors that are summed at a time.
const LANES: usize = 8;
const AT_ONCE: usize = 4;
const LEVELS: usize = 4;

impl TorchSum {
    fn add(&mut self, values: impl Iterator<Item = f32>) {
        self.values.extend(values);
    }

    fn total(&self) -> f32 {
        let vectors = self.values.as_chunks::<LANES>();
        let (groups, rest) = vectors.0.as_chunks::<AT_ONCE>();
        let power = (usize::BITS - groups.len().saturating_sub(1).leading_zeros()).max(16) / LEVELS as u32;
        let step = 1usize << power;
        let mut levels = [[[0f32; LANES]; AT_ONCE]; LEVELS];
        let plus = |sum: &mut [[f32; LANES]; AT_ONCE], more: &[[f32; LANES]; AT_ONCE]| {
            sum.as_flattened_mut().iter_mut().zip(more.as_flattened()).for_each(|(sum, more)| *sum += more);
        };
        let mut blocks = groups.chunks_exact(step);
        let mut done = 0usize;
        for block in &mut blocks {
            block.iter().for_each(|group| plus(&mut levels[0], group));
            done += step;
            for level in 1..LEVELS {
                let lower = std::mem::take(&mut levels[level - 1]);
                plus(&mut levels[level], &lower);
                if done & ((step - 1) << (level as u32 * power)) != 0 {
                    break;
                }
            }
        }
        blocks.remainder().iter().for_each(|group| plus(&mut levels[0], group));
        let [mut sums, upper @ ..] = levels;
        upper.iter().for_each(|level| plus(&mut sums, level));
        let [mut sum, others @ ..] = sums;
        let add = |sum: &mut [f32; LANES], more: &[f32; LANES]| {
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        };
        rest.iter().for_each(|vector| add(&mut sum, vector));
        others.iter().for_each(|vector| add(&mut sum, vector));
        let total = vectors.1.iter().fold(0f32, |total, value| total + value);
        sum.iter().fold(total, |total, value| total + value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of `torch.sum` of F32 by torch 2.13 on one thread.
    #[test]
    fn sums_are_those_of_torch() {
        for (count, wanted) in [
            (5u32, 1_078_773_306),
            (100, 1_111_804_502),
            (1000, 1_140_490_338),
            (5000, 1_159_499_838),
            (40_000, 1_184_665_662),
            (300_000, 1_209_190_202),
        ] {
            let mut sum = TorchSum::default();
            sum.add((0..count).map(|at| ((u64::from(at) * 7919) % 1000) as f32 / 997.0));
            assert_eq!(sum.total().to_bits(), wanted, "{count}");
        }
    }

    #[test]
    fn means_are_rounded_to_the_stored_type() {
        let values = [1.0, 2.0, 0.5, 4.0, 0.125];
        assert_eq!(mean(&values, Some(Dtype::F32)), 7.625 / 5.0);
        // The sum 7.625 is exact, the quotient 1.525 has more than eight bits.
        assert_eq!(mean(&values, Some(Dtype::BF16)), 1.523_437_5);
        // torch 2.13: the sum is not rounded, and 0.14892578125 lies between two numbers.
        assert_eq!(mean(&[0.304_687_5, 0.030_273_438, 0.111_816_406], Some(Dtype::BF16)), 0.148_437_5);
    }
}
