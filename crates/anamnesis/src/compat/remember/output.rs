//! The output types of the slice functions, as marker types.

use anamnesis_kernels::chosen::round_slice;

use crate::catalog::{Dtype, TargetDtype};
use crate::scheme::Context;
use crate::scheme::coder::rounded;

/// An output type: BF16, F32 or F16. The trait is sealed.
pub trait OutputElement: sealed::Sealed {
    /// Bytes per element.
    const BYTES: usize;
    /// The same type as a [`Dtype`].
    const DTYPE: Dtype;

    /// Rounds `values` to little-endian elements in `out`, up to the length of the shorter.
    fn write_scratch(values: &[f32], out: &mut [u8]);

    /// A part of an output, which one thread fills.
    type Tile<'a>: Send;

    /// Splits an output into tiles of this many elements; the last may be shorter.
    fn split_tiles(out: &mut [u8], elements: usize) -> impl Iterator<Item = Self::Tile<'_>>;

    /// Rounds `values` into a tile, up to the length of the shorter.
    fn write_tile(tile: &mut Self::Tile<'_>, values: &[f32]);
}

/// BF16 output, rounded to nearest even.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bf16Out;

/// F32 output, not rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct F32Out;

/// F16 output, rounded to nearest even; overflow becomes infinity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct F16Out;

pub(crate) mod sealed {
    use crate::catalog::TargetDtype;

    pub trait Sealed {
        const TARGET: TargetDtype;
    }
}

macro_rules! output_element {
    ($name:ident, $target:ident) => {
        impl sealed::Sealed for $name {
            const TARGET: TargetDtype = TargetDtype::$target;
        }

        impl OutputElement for $name {
            const BYTES: usize = TargetDtype::$target.byte_size();
            const DTYPE: Dtype = TargetDtype::$target.dtype();

            fn write_scratch(values: &[f32], out: &mut [u8]) {
                let _ = round_slice(Context::default().level(), rounded(TargetDtype::$target), values, out);
            }

            type Tile<'a> = &'a mut [u8];

            fn split_tiles(out: &mut [u8], elements: usize) -> impl Iterator<Item = &mut [u8]> {
                out.chunks_mut(elements.saturating_mul(Self::BYTES).max(Self::BYTES))
            }

            fn write_tile(tile: &mut &mut [u8], values: &[f32]) {
                Self::write_scratch(values, tile);
            }
        }
    };
}
output_element!(Bf16Out, BF16);
output_element!(F32Out, F32);
output_element!(F16Out, F16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_make_up_the_output() {
        fn check<E: OutputElement>() {
            let values: Vec<f32> = (0..10).map(|index| index as f32 / 3.0).collect();
            let (mut whole, mut tiled) = (vec![0; 10 * E::BYTES], vec![0; 10 * E::BYTES]);
            E::write_scratch(&values, &mut whole);
            let mut count = 0;
            for (mut tile, values) in E::split_tiles(&mut tiled, 4).zip(values.chunks(4)) {
                E::write_tile(&mut tile, values);
                count += 1;
            }
            assert_eq!((count, tiled), (3, whole));
        }
        check::<Bf16Out>();
        check::<F16Out>();
        check::<F32Out>();
    }
}
