//! Numbers that the compiler shall find in memory, not in registers.

use std::hint::black_box;

/// The same, from memory.
///
/// A number that is broadcast from memory costs no instruction of its own. Without this the compiler keeps vectors of
/// scales in registers and takes them apart element by element.
#[inline(always)]
pub(super) fn in_memory<T>(values: T) -> T {
    black_box(values)
}
