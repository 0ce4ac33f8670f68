//! Tensors that are stored in an ordinary float type: values of the output type are copied, NaNs with all of their
//! bits; others are widened to F32 (F64 is rounded to it) and then rounded to the output type.

use std::ops::Range;

use anamnesis_kernels::Level;
use anamnesis_kernels::chosen::round_slice;

use super::context::Context;
use super::decoder::{TileDecoder, Window, rounded};
use super::filled::{filled, mishandled};
use super::scale::ScaleType;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;

/// Decodes F32, F16, BF16 and F64.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct PlainDecoder {
    dtype: Dtype,
    /// `None` for F64.
    narrow: Option<ScaleType>,
}

impl PlainDecoder {
    /// The decoder of tensors of type `dtype`; `None` if it is not an ordinary float type.
    pub(crate) fn of(dtype: Dtype) -> Option<Self> {
        let narrow = ScaleType::of_float(dtype);
        (narrow.is_some() || dtype == Dtype::F64).then_some(Self { dtype, narrow })
    }
}

impl TileDecoder for PlainDecoder {
    fn granule(&self) -> u64 {
        1
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let each = self.dtype.byte_size() as u64;
        windows.push(Window::run(0, elements.start * each, (elements.end - elements.start) * each));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        if target.dtype() == self.dtype {
            filled(inputs[0].len(), out.len())?;
            out.copy_from_slice(inputs[0]);
            return Ok(out.len());
        }
        let level = context.level();
        let values = context.floats((elements.end - elements.start) as usize);
        match self.narrow {
            Some(narrow) => narrow.widen(level, inputs[0], values)?,
            // Rounded to F32 first, like torch, whatever the output type.
            None => {
                filled(inputs[0].len() / 8, values.len())?;
                for (value, bytes) in values.iter_mut().zip(inputs[0].as_chunks::<8>().0) {
                    *value = f64::from_le_bytes(*bytes) as f32;
                }
            }
        }
        Ok(round_slice(level, rounded(target), values, out))
    }

    fn is_exact_in(&self, target: TargetDtype) -> bool {
        self.narrow.is_some() && (target == TargetDtype::F32 || target.dtype() == self.dtype)
    }

    fn widen(&self, inputs: &[&[u8]], out: &mut [f32], level: Level) -> Result<usize> {
        match (self.narrow, inputs) {
            (Some(narrow), [bytes]) => narrow.widen(level, bytes, out).map(|()| out.len()),
            _ => Err(mishandled("other windows than it asked for")),
        }
    }

    fn describe(&self) -> String {
        self.dtype.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(dtype: Dtype, bytes: &[u8], target: TargetDtype) -> Vec<u8> {
        let decoder = PlainDecoder::of(dtype).unwrap();
        let elements = bytes.len() / dtype.byte_size();
        let mut out = vec![0; elements * target.byte_size()];
        decoder.decode(0..elements as u64, &[bytes], target, &mut out, &mut Context::default()).unwrap();
        out
    }

    #[test]
    fn every_float_type_is_widened_exactly_and_rounded_once() {
        let one_and_a_bit = 0x3f80_8001_u32;
        assert_eq!(decoded(Dtype::F32, &one_and_a_bit.to_le_bytes(), TargetDtype::BF16), 0x3f81_u16.to_le_bytes());
        assert_eq!(decoded(Dtype::BF16, &[0x80, 0x3f], TargetDtype::F32), 1.0f32.to_le_bytes());
        assert_eq!(decoded(Dtype::F16, &[0x00, 0x3c], TargetDtype::BF16), [0x80, 0x3f]);
        assert_eq!(decoded(Dtype::F64, &(-2.5f64).to_le_bytes(), TargetDtype::F32), (-2.5f32).to_le_bytes());
        for nan in [0x7f81_u16, 0xffc1, 0x7fff] {
            assert_eq!(decoded(Dtype::BF16, &nan.to_le_bytes(), TargetDtype::BF16), nan.to_le_bytes());
        }
        assert!(PlainDecoder::of(Dtype::F8E4M3).is_none() && PlainDecoder::of(Dtype::I32).is_none());
    }
}
