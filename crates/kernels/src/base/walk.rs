//! How slices are walked: whole groups of [`GROUP`] elements, then one padded group for what is left.
//!
//! The rest goes through the same code as the groups, in a scratch group filled up with zeros, so an element's bits
//! never depend on where in the slice it stands.
//!
//! These are macros for the same reason as `map!`: a closure might not be inlined.

use crate::base::GROUP;
use crate::base::output::Output;

/// `walk!(O, group in codes => words, out)`: writes the words of each group of codes, in order.
macro_rules! walk {
    ($output:ident, $group:ident in $codes:expr => $words:expr, $out:expr) => {{
        let (codes, out) = ($codes, $out);
        let elements = codes.len().min(out.len() / $output::BYTES);
        let (groups, rest) = codes[..elements].as_chunks::<{ $crate::base::GROUP }>();
        let (whole, tail) = out.split_at_mut(groups.len() * $crate::base::GROUP * $output::BYTES);
        for ($group, bytes) in groups.iter().zip(whole.chunks_exact_mut($crate::base::GROUP * $output::BYTES)) {
            $output::write(&$words, bytes);
        }
        if !rest.is_empty() {
            let $group = &$crate::base::group::pad(rest);
            $crate::base::walk::write_some::<$output>(&$words, rest.len(), tail);
        }
    }};
}

/// Groups of packed codes at most that are read from the copy of a [stream](crate::base::packing::Stream).
pub(crate) const FEW: usize = 8;

/// `walk_packed!(stream, bytes, first, O, group, item in items… => words, out)`: writes the words of each group into `out`.
///
/// `group` is the packed bytes of a group of a [stream](crate::base::packing::Stream): of the next of its `bytes`, and where
/// they end, of those from the group `first` on that were not written. Each `item` is the group of a companion slice that
/// has a value per element, at least as many as `out` has room for.
macro_rules! walk_packed {
    (
        $stream:expr, $bytes:expr, $first:expr, $output:ident, $group:ident $(, $item:ident in $items:expr)*
        => $words:expr, $out:expr
    ) => {{
        let group_bytes = $crate::base::GROUP * $output::BYTES;
        let (stream, bytes, first, out) = (&$stream, $bytes, $first, $out);
        let mut done = 0;
        {
            $( let mut $item = $items.as_chunks::<{ $crate::base::GROUP }>().0.iter(); )*
            for out in out.chunks_exact_mut(group_bytes) {
                $( let Some($item) = $item.next() else { break }; )*
                let Some($group) = stream.next(bytes) else { break };
                $output::write(&$words, out);
                done += 1;
            }
        }
        // A few groups are left at the end of a stream, and one where it is not whole: they are written elsewhere and copied.
        for (batch, out) in out[done * group_bytes..].chunks_mut($crate::base::walk::FEW * group_bytes).enumerate() {
            let mut few = [0; $crate::base::walk::FEW * $crate::base::GROUP * 4];
            let places = few.chunks_exact_mut(group_bytes).take(out.len().div_ceil(group_bytes));
            for (index, place) in places.enumerate() {
                let index = done + batch * $crate::base::walk::FEW + index;
                $( let $item = &$crate::base::group::pad($items.get(index * $crate::base::GROUP..).unwrap_or_default()); )*
                let $group = stream.group(first + index);
                $output::write(&$words, place);
            }
            for (to, from) in out.iter_mut().zip(few) {
                *to = from;
            }
        }
    }};
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
