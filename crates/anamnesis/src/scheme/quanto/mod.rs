//! quanto: eight-bit numbers under one scale per row, and packed ones under a scale and a shift.
//!
//! | stored | holds | shape for a weight `[out, in]` |
//! |---|---|---|
//! | `X._data` | I8, or eight-bit floats | `[out, in]` |
//! | `X._data._data` | two or four codes in a byte: the lowest bits are the first rows | `[groups / 2, size]`, `[groups / 4, size]` |
//! | `X._scale` | a number for a row or group | `[out, 1]`, `[groups, 1]` |
//! | `X._shift` | what is taken off afterwards; where it is I8, before | as the scale |
//!
//! `scale * code - shift`, and the library's result is of the type of its scales: every step is rounded to it.
//!
//! Packed codes are stored as groups, and nowhere is said what shape they had: the length of a bias tells it, and so does a
//! length that no group has.

mod claim;
mod packed;
mod parts;
mod quantiser;

pub(crate) use claim::Quanto;
pub(crate) use quantiser::ENCODINGS;
