//! Powers of two in half precision: exponents below 2^-24 vanish, and those above the range are infinite.

use std::ops::Range;

use anamnesis_kernels::float::f16;

use crate::error::Result;
use crate::scheme::coder::{Context, Restore, Swizzled, Window};

/// Restores exponents in tiles to F16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct HalfPowers {
    pub exponents: Swizzled,
}

/// The exponents of these halves.
fn exponents(plain: &Range<u64>) -> Range<u64> {
    plain.start / 2..plain.end / 2
}

impl Restore for HalfPowers {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        self.exponents.windows(&exponents(plain), windows);
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], context: &mut Context) -> Result<()> {
        let mut bytes = context.lend(out.len() / 2);
        self.exponents.restore(&exponents(plain), inputs, &mut bytes, context)?;
        for (out, exponent) in out.as_chunks_mut::<2>().0.iter_mut().zip(&bytes) {
            let value = match exponent {
                255 => f32::NAN,
                // 2^-127 is far below the range of halves, and vanishes like zero.
                exponent => f32::from_bits(u32::from(*exponent) << 23),
            };
            *out = f16::encode(value).to_le_bytes();
        }
        context.take_back(bytes);
        Ok(())
    }
}
