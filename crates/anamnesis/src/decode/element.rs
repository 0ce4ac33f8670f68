//! The Rust types that values are decoded to.

use crate::catalog::TargetDtype;

/// A Rust type that tensors are decoded to. Half-precision values have no type of their own in Rust; they are bytes, of
/// [`decode_into`](crate::Checkpoint::decode_into).
pub trait DecodedElement: Sized + sealed::Sealed {
    /// The type that is decoded to.
    const DTYPE: TargetDtype;

    /// Adds values of that type, which are whole.
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

/// The F32 values, which F64 holds exactly.
impl DecodedElement for f64 {
    const DTYPE: TargetDtype = TargetDtype::F32;

    fn append(bytes: &[u8], values: &mut Vec<Self>) {
        values.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| Self::from(f32::from_le_bytes(*bytes))));
    }
}
