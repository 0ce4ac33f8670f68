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
        }
    };
}
output_element!(Bf16Out, BF16);
output_element!(F32Out, F32);
output_element!(F16Out, F16);
