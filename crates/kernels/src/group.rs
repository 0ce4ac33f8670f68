//! How a slice of codes is walked: whole groups of [`GROUP`] elements, then one padded group for what is left.
//!
//! The rest goes through the same code as the groups, in a scratch group filled up with zeros, so an element's bits
//! never depend on where in the slice it stands.

use crate::GROUP;
use crate::output::Output;

/// Calls `words` for each group of codes in order and writes what it returns.
#[inline(always)]
pub(crate) fn walk<O: Output>(
    codes: &[u8],
    out: &mut [u8],
    mut words: impl FnMut(&[u8; GROUP]) -> [O::Word; GROUP],
) {
    let elements = codes.len().min(out.len() / O::BYTES);
    let (groups, rest) = codes[..elements].as_chunks::<GROUP>();
    let (whole, tail) = out.split_at_mut(groups.len() * GROUP * O::BYTES);
    for (group, bytes) in groups.iter().zip(whole.chunks_exact_mut(GROUP * O::BYTES)) {
        O::write(&words(group), bytes);
    }
    if !rest.is_empty() {
        let padded = pad(rest);
        write_some::<O>(&words(&padded), rest.len(), tail);
    }
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
pub(crate) fn write_some<O: Output>(words: &[O::Word; GROUP], elements: usize, out: &mut [u8]) {
    let mut bytes = [0; GROUP * 4];
    O::write(words, &mut bytes[..GROUP * O::BYTES]);
    for (to, from) in out.iter_mut().zip(&bytes[..elements * O::BYTES]) {
        *to = *from;
    }
}
