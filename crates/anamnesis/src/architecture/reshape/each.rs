//! A formula on every value, in F32; results of F16 tensors are rounded to F16, as in the converter.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use anamnesis_kernels::chosen::round_slice;
use anamnesis_kernels::float::{bf16, f16};

use crate::architecture::exponential::exponential;
use crate::architecture::sleef;
use crate::architecture::tree::Formula;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;
use crate::scheme::coder::rounded;
use crate::scheme::{Context, Inner, TileDecoder, Window};

use super::values::values;

/// A formula on the values of another decoder.
pub(super) struct Each {
    pub(super) inner: Inner,
    pub(super) formula: Formula,
    /// The common type of the stored values, if they are not quantised.
    pub(super) stored: Option<Dtype>,
}

impl Hash for Each {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.inner.hash(hasher);
        self.stored.hash(hasher);
        match &self.formula {
            Formula::Plus(number) => (0u8, number.to_bits()).hash(hasher),
            Formula::PlusStored(number) => (4u8, number.to_bits()).hash(hasher),
            Formula::OverColumns(divisors) => {
                5u8.hash(hasher);
                divisors.iter().for_each(|divisor| divisor.to_bits().hash(hasher));
            }
            Formula::Ternary(number) => (6u8, number.to_bits()).hash(hasher),
            Formula::NegativeExponential => 1u8.hash(hasher),
            Formula::LogarithmOfNegative => 2u8.hash(hasher),
            Formula::Exponential => 8u8.hash(hasher),
            Formula::Logarithm => 9u8.hash(hasher),
            Formula::Softplus(length) => (7u8, length).hash(hasher),
            Formula::Silu(length) => (10u8, length).hash(hasher),
            Formula::Times { row, period, factors } => {
                (3u8, row, period).hash(hasher);
                factors.iter().for_each(|(end, factor)| (end, factor.to_bits()).hash(hasher));
            }
        }
    }
}

impl Each {
    fn change(&self, first: u64, values: &mut [f32]) {
        match &self.formula {
            Formula::Plus(number) | Formula::PlusStored(number) => values.iter_mut().for_each(|value| *value += number),
            Formula::OverColumns(divisors) => {
                for (element, value) in (first..).zip(values.iter_mut()) {
                    let column = (element % divisors.len().max(1) as u64) as usize;
                    *value /= divisors.get(column).copied().unwrap_or(1.0);
                }
            }
            Formula::Ternary(inverse) => {
                values
                    .iter_mut()
                    .for_each(|value| *value = (*value * inverse).round_ties_even().clamp(-1.0, 1.0) / inverse);
            }
            Formula::NegativeExponential => values.iter_mut().for_each(|value| *value = -exponential(*value)),
            Formula::LogarithmOfNegative => values.iter_mut().for_each(|value| *value = logarithm(-*value)),
            Formula::Exponential => values.iter_mut().for_each(|value| *value = exponential(*value)),
            Formula::Logarithm => values.iter_mut().for_each(|value| *value = logarithm(*value)),
            Formula::Softplus(length) => {
                let in_vectors = sleef::in_vectors(*length);
                for (element, value) in (first..).zip(values.iter_mut()) {
                    *value = sleef::softplus(*value, element < in_vectors);
                }
            }
            Formula::Silu(length) => {
                let in_vectors = sleef::in_vectors(*length);
                for (element, value) in (first..).zip(values.iter_mut()) {
                    *value = sleef::silu(*value, element < in_vectors);
                }
            }
            Formula::Times { row, period, factors } => {
                for (element, value) in (first..).zip(values.iter_mut()) {
                    let place = element / (*row).max(1) % (*period).max(1);
                    let factor = factors.iter().find(|(end, _)| place < *end).map_or(1.0, |(_, factor)| *factor);
                    *value *= factor;
                }
            }
        }
        match (self.stored, &self.formula) {
            // The converter divides by columns in F32.
            (_, Formula::OverColumns(_)) => {}
            (Some(Dtype::F16), _) => values.iter_mut().for_each(|value| *value = f16::decode(f16::encode(*value))),
            (Some(Dtype::BF16), Formula::PlusStored(_)) => {
                values.iter_mut().for_each(|value| *value = bf16::decode(bf16::encode(*value)));
            }
            _ => {}
        }
    }
}

/// Rounded once from F64.
fn logarithm(value: f32) -> f32 {
    f64::from(value).ln() as f32
}

impl TileDecoder for Each {
    fn granule(&self) -> u64 {
        self.inner.decoder.granule()
    }

    fn tile_bytes(&self) -> u64 {
        self.inner.decoder.tile_bytes()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        self.inner.windows(&elements, windows);
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let level = context.level();
        let (mut values, _) = values(&self.inner, &elements, inputs, context)?;
        self.change(elements.start, &mut values);
        let written = round_slice(level, rounded(target), &values, out);
        context.take_back_floats(values);
        Ok(written)
    }

    fn describe(&self) -> String {
        self.inner.decoder.describe()
    }
}
