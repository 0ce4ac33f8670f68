//! quanto: eight-bit integers and floats with a scale per row, and packed codes with a scale and a shift per group.
//!
//! | stored | holds | shape for a weight `[out, in]` |
//! |---|---|---|
//! | `X._data` | I8, or eight-bit floats | `[out, in]` |
//! | `X._data._data` | U8, two or four codes in a byte: the lowest bits are the first rows | `[groups / 2, size]`, `[groups / 4, size]` |
//! | `X._scale` | a scale per row or group | `[out, 1]`, `[groups, 1]` |
//! | `X._shift` | the shift, subtracted after scaling; an I8 shift is subtracted before | the shape of the scale |
//!
//! A value is `scale * code - shift`; the library rounds every step to the type of the scales.
//!
//! Packed codes are stored as a matrix of groups, without the original shape. It follows from the length of a bias, or
//! from a row length that is not a default group size: then groups are rows.

mod claim;
mod packed;
mod parts;
#[cfg(feature = "encode")]
mod quantiser;

pub(crate) use claim::Quanto;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;
