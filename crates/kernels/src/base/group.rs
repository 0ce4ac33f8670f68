//! Groups of [`GROUP`] elements, which go through a kernel's body together.
//!
//! `map!` is a macro where one would expect a function that takes a closure: a closure is a function of its own, compiled
//! for the baseline, and where it is not inlined the kernel runs at a tenth of its speed.

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

/// Sixteen values, and once more.
#[inline(always)]
pub(crate) fn twice<T: Copy + Default>(values: &[T; GROUP / 2]) -> [T; GROUP] {
    let mut group = [T::default(); GROUP];
    for i in 0..GROUP / 2 {
        group[i] = values[i];
        group[i + GROUP / 2] = values[i];
    }
    group
}

/// The first elements of a slice, filled up with zeros to a group.
#[inline(always)]
pub(crate) fn pad<T: Copy + Default>(rest: &[T]) -> [T; GROUP] {
    let mut padded = [T::default(); GROUP];
    for (to, from) in padded.iter_mut().zip(rest) {
        *to = *from;
    }
    padded
}
