//! Keeps values in memory instead of registers.

use std::hint::black_box;

/// The same values, opaque to the optimiser and loaded from memory.
///
/// A broadcast from memory needs no separate instruction. Without this the compiler keeps vectors of scales in registers
/// and extracts their elements one by one.
#[inline(always)]
pub(super) fn in_memory<T>(values: T) -> T {
    black_box(values)
}
