//! The sixteen bits of a grid point: `D` levels, the first element lowest.

/// Bits per level.
pub(super) const fn bits<const D: usize>() -> usize {
    16 / D
}

/// One level of a point.
#[inline(always)]
pub(super) const fn level<const D: usize>(point: u16, element: usize) -> u16 {
    point >> (bits::<D>() * element) & ((1 << bits::<D>()) - 1)
}
