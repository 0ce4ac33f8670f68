//! How slices are walked: whole groups of [`GROUP`] elements, then one padded group for what is left.
//!
//! The rest goes through the same code as the groups, in a scratch group filled up with zeros, so an element's bits
//! never depend on where in the slice it stands.
//!
//! These are macros where one would expect functions that take closures: a closure is a function of its own, compiled
//! for the baseline, and where it is not inlined the kernel runs at a tenth of its speed.

use crate::GROUP;
use crate::output::Output;

/// The proof that a walk is under way, which writes in groups and ends with [`Output::finish`].
#[derive(Clone, Copy, Debug)]
pub struct Walking(());

impl Walking {
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        Self(())
    }
}

/// `map!(element in group => expression)`: a group of the expression's values.
macro_rules! map {
    ($element:ident in $group:expr => $value:expr) => {{
        let group = $group;
        let mut results = [Default::default(); $crate::GROUP];
        for i in 0..$crate::GROUP {
            let $element = group[i];
            results[i] = $value;
        }
        results
    }};
}

/// `walk!(O, group in codes => words, out)`: writes the words of each group of codes, in order.
macro_rules! walk {
    ($output:ident, $group:ident in $codes:expr => $words:expr, $out:expr) => {{
        let (codes, out) = ($codes, $out);
        let walking = $crate::group::Walking::begin();
        let elements = codes.len().min(out.len() / $output::BYTES);
        let (groups, rest) = codes[..elements].as_chunks::<{ $crate::GROUP }>();
        let (whole, tail) = out.split_at_mut(groups.len() * $crate::GROUP * $output::BYTES);
        for ($group, bytes) in groups.iter().zip(whole.chunks_exact_mut($crate::GROUP * $output::BYTES)) {
            $output::write(&$words, bytes, walking);
        }
        if !rest.is_empty() {
            let $group = &$crate::group::pad(rest);
            $crate::group::write_some::<$output>(&$words, rest.len(), tail, walking);
        }
        $output::finish(walking);
    }};
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

/// Writes the first `elements` words of a group.
#[inline(always)]
pub(crate) fn write_some<O: Output>(words: &[O::Word; GROUP], elements: usize, out: &mut [u8], walking: Walking) {
    let mut bytes = [0; GROUP * 4];
    O::write(words, &mut bytes[..GROUP * O::BYTES], walking);
    for (to, from) in out.iter_mut().zip(&bytes[..elements * O::BYTES]) {
        *to = *from;
    }
}
