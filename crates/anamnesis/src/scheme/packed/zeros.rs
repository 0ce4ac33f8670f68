//! Unpacking zero points, which are packed like the codes, along the outputs.

use crate::error::Result;
use anamnesis_kernels::Level;
use anamnesis_kernels::chosen::{self as kernels, Packed};

use super::Words;
use crate::scheme::coder::filled;

/// How the zero point that is subtracted is derived from the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ZeroPoints {
    /// It is the stored value.
    Stored,
    /// The stored value plus one, added to whole 32-bit words so that carries reach the next field (for 3 bits, added
    /// to each field): how GPTQModel reads the first GPTQ format.
    PlusOne,
    /// The stored value plus one, without wrapping: a field of all ones becomes one more than the highest code.
    PlusOneUnbounded,
}

impl ZeroPoints {
    /// Unpacks one row of zero points. `scratch` must have as many bytes as `packed`.
    pub(crate) fn unpack(
        self,
        level: Level,
        words: Words,
        packed: &[u8],
        scratch: &mut [u8],
        out: &mut [f32],
    ) -> Result<()> {
        let bits = words.bits();
        let packed = if self == Self::PlusOne && bits != 3 {
            let ones = u32::MAX / ((1 << bits) - 1);
            for (to, from) in scratch.as_chunks_mut::<4>().0.iter_mut().zip(packed.as_chunks::<4>().0) {
                *to = u32::from_le_bytes(*from).wrapping_add(ones).to_le_bytes();
            }
            &*scratch
        } else {
            packed
        };
        let written = match words {
            Words::Awq => kernels::unpack_awq(level, packed, out),
            Words::Gptq(2) => kernels::unpack_codes(level, Packed::Bits2, packed, out),
            Words::Gptq(3) => kernels::unpack_codes(level, Packed::Bits3, packed, out),
            Words::Gptq(4) => kernels::unpack_codes(level, Packed::LowNibbles, packed, out),
            Words::Gptq(_) => kernels::unpack_codes(level, Packed::Bytes, packed, out),
        };
        filled(written, out.len())?;
        match self {
            Self::PlusOne if bits == 3 => {
                out.iter_mut().for_each(|zero| *zero = if *zero == 7.0 { 0.0 } else { *zero + 1.0 })
            }
            Self::PlusOneUnbounded => out.iter_mut().for_each(|zero| *zero += 1.0),
            Self::Stored | Self::PlusOne => {}
        }
        Ok(())
    }
}
