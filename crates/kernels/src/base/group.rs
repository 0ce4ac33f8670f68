//! Groups of [`GROUP`] elements, the unit that kernels process.
//!
//! `map!` is a macro instead of a function that takes a closure: a closure is compiled as a function for the baseline,
//! and where it is not inlined the kernel runs at a tenth of its speed.

/// Elements of a group: one 512-bit register of 16-bit words.
pub const GROUP: usize = 32;

/// `map!(element in group => expression)`: a group of the expression's values.
macro_rules! map {
    ($element:ident in $group:expr => $value:expr) => {{
        let group = $group;
        let mut results = [Default::default(); $crate::base::GROUP];
        for i in 0..$crate::base::GROUP {
            let $element = group[i];
            results[i] = $value;
        }
        results
    }};
}

/// Sixteen values, repeated once.
#[inline(always)]
pub(crate) fn twice<T: Copy + Default>(values: &[T; GROUP / 2]) -> [T; GROUP] {
    let mut group = [T::default(); GROUP];
    for i in 0..GROUP / 2 {
        group[i] = values[i];
        group[i + GROUP / 2] = values[i];
    }
    group
}

/// A slice of at most [`GROUP`] elements, padded with zeros.
#[inline(always)]
pub(crate) fn pad<T: Copy + Default>(rest: &[T]) -> [T; GROUP] {
    let mut padded = [T::default(); GROUP];
    for (to, from) in padded.iter_mut().zip(rest) {
        *to = *from;
    }
    padded
}
