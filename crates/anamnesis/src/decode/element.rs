//! The Rust types that values are decoded to.

use crate::catalog::TargetDtype;
use crate::error::Result;

/// A Rust type that tensors can be decoded to: `f32`, `f64`, and with the feature `half` `bf16` and `f16` of that crate.
/// [`decode_into`](crate::Checkpoint::decode_into) decodes to bytes of every type.
pub trait DecodedElement: sealed::Sealed {
    /// The type that tensors are decoded to.
    const DTYPE: TargetDtype;

    /// Sets all values to those that `decode` writes as bytes of [`DTYPE`](Self::DTYPE), little endian.
    #[doc(hidden)]
    fn fill(values: &mut [Self], decode: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()>;
}

mod sealed {
    pub trait Sealed: bytemuck::Pod {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    #[cfg(feature = "half")]
    impl Sealed for half::bf16 {}
    #[cfg(feature = "half")]
    impl Sealed for half::f16 {}
}

impl DecodedElement for f32 {
    const DTYPE: TargetDtype = TargetDtype::F32;

    fn fill(values: &mut [Self], decode: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        decode(bytemuck::cast_slice_mut(values))?;
        for value in values {
            *value = Self::from_bits(u32::from_le(value.to_bits()));
        }
        Ok(())
    }
}

/// Decoded as F32 and widened, which is exact.
impl DecodedElement for f64 {
    const DTYPE: TargetDtype = TargetDtype::F32;

    fn fill(values: &mut [Self], decode: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        // Decoded into the second half and widened from the start: no value is overwritten before it is read.
        let halves: &mut [u32] = bytemuck::cast_slice_mut(values);
        let count = halves.len() / 2;
        decode(bytemuck::cast_slice_mut(&mut halves[count..]))?;
        for index in 0..count {
            let value = Self::from(f32::from_bits(u32::from_le(halves[count + index])));
            halves[2 * index..][..2].copy_from_slice(bytemuck::cast_slice(&[value]));
        }
        Ok(())
    }
}

#[cfg(feature = "half")]
macro_rules! half_precision {
    ($element:ty, $target:ident) => {
        impl DecodedElement for $element {
            const DTYPE: TargetDtype = TargetDtype::$target;

            fn fill(values: &mut [Self], decode: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
                decode(bytemuck::cast_slice_mut(values))?;
                for value in values {
                    *value = Self::from_bits(u16::from_le(value.to_bits()));
                }
                Ok(())
            }
        }
    };
}
#[cfg(feature = "half")]
half_precision!(half::bf16, BF16);
#[cfg(feature = "half")]
half_precision!(half::f16, F16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_little_endian_and_widened_in_place() {
        for count in [0, 1, 2, 3, 100] {
            let numbers: Vec<f32> = (0..count).map(|index| index as f32 - 1.5).collect();
            let mut decode = |out: &mut [u8]| {
                let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                out.copy_from_slice(&bytes);
                Ok(())
            };
            let (mut narrow, mut wide) = (vec![0f32; count], vec![0f64; count]);
            f32::fill(&mut narrow, &mut decode).unwrap();
            f64::fill(&mut wide, &mut decode).unwrap();
            assert_eq!(narrow, numbers);
            assert_eq!(wide, numbers.iter().copied().map(f64::from).collect::<Vec<_>>());
        }
    }
}
