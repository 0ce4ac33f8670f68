//! The operations that are hand-written for each CPU level.
//!
//! Everything else in this crate is loops over groups of [`GROUP`] elements, which the compiler vectorises for each
//! level. The operations here are those it does not vectorise well: conversions between `f32` and half precision, and
//! look-ups and searches in tables held in registers.
//!
//! A value of a level type is the proof that the CPU has the level's instructions.

#[cfg_attr(target_arch = "aarch64", path = "neon.rs")]
#[cfg_attr(not(target_arch = "aarch64"), path = "elements.rs")]
mod baseline;
mod codes;
mod groups;
mod moves;
mod nibbles;
mod portable;
mod sums;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::base::GROUP;

pub(crate) use codes::arrange;
pub use codes::{Arrangement, Codes, EachTwice, ProductsTwice, SMALL_TABLE, Twice};
pub use groups::Groups;
pub use moves::{Moves, TILE, Tile};
pub use nibbles::{LimitTree, Nibbles};
pub(crate) use nibbles::{NEAR, NEGATIVE_ZERO, key, pack};
pub use portable::Portable;
pub use sums::{FEW, Points, Sums, Tables};
#[cfg(target_arch = "x86_64")]
pub use x86::{V3, V4};

/// Entries of a look-up table: the magnitudes of an eight-bit signed format.
pub const TABLE: usize = 128;

/// A CPU level's hand-written operations. Only this crate implements it.
pub trait Simd: Copy + Send + Sync + 'static + Codes + Groups + Moves + Nibbles + Sums + sealed::Sealed {
    /// Whether half precision conversion is one instruction.
    const HALF: bool;
    /// Whether [`look_up`](Self::look_up) is faster than decoding by arithmetic.
    const TABLES: bool;

    /// Half precision to `f32`, exactly; signalling NaN becomes quiet.
    fn widen_f16(self, halves: &[u16; GROUP]) -> [f32; GROUP];

    /// E4M3 to `f32`, exactly; NaN becomes 0x7FF00000, which is quiet, with its sign.
    fn widen_e4m3(self, codes: &[u8; GROUP]) -> [f32; GROUP];

    /// `f32` to half precision, to nearest even; NaN keeps its sign and upper payload and becomes quiet.
    fn narrow_f16(self, values: &[f32; GROUP]) -> [u16; GROUP];

    /// `f32` to BF16, to nearest even; NaN keeps its sign and upper payload and becomes quiet.
    fn round_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP];

    /// `f32` to BF16, to nearest even, for values whose NaNs are quiet and not all ones.
    ///
    /// Those NaNs survive the rounding by themselves, which saves a third of its instructions.
    fn narrow_bf16(self, values: &[f32; GROUP]) -> [u16; GROUP];

    /// Truncates to `i32`, with `i32::MIN` for values out of range, as `cvttps2dq` does.
    fn truncate(self, values: &[f32; GROUP]) -> [i32; GROUP];

    /// The larger of each pair. Hand-written because the compiler otherwise vectorises a running maximum across groups.
    fn larger(self, a: &[i32; GROUP], b: &[i32; GROUP]) -> [i32; GROUP];

    /// `table[code & 0x7F]` with bit 15 flipped where the code's sign bit is set.
    fn look_up(self, table: &[u16; TABLE], codes: &[u8; GROUP]) -> [u16; GROUP];
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Portable {}
    #[cfg(target_arch = "x86_64")]
    impl Sealed for super::V3 {}
    #[cfg(target_arch = "x86_64")]
    impl Sealed for super::V4 {}
}
