//! The Rust types that values are decoded to.

use crate::catalog::TargetDtype;

/// A Rust type that tensors can be decoded to. Rust has no stable half-precision types; use
/// [`decode_into`](crate::Checkpoint::decode_into) for their bytes.
pub trait DecodedElement: Sized + sealed::Sealed {
    /// The type that tensors are decoded to.
    const DTYPE: TargetDtype;

    /// Appends the values in `bytes`, a whole number of them.
    #[doc(hidden)]
    fn append(bytes: &[u8], values: &mut Vec<Self>);
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

impl DecodedElement for f32 {
    const DTYPE: TargetDtype = TargetDtype::F32;

    fn append(bytes: &[u8], values: &mut Vec<Self>) {
        values.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| Self::from_le_bytes(*bytes)));
    }
}

/// Decoded as F32 and widened, which is exact.
impl DecodedElement for f64 {
    const DTYPE: TargetDtype = TargetDtype::F32;

    fn append(bytes: &[u8], values: &mut Vec<Self>) {
        values.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| Self::from(f32::from_le_bytes(*bytes))));
    }
}
