//! Iteration over slices: whole groups of [`GROUP`] elements, then one padded group for the rest.
//!
//! The rest goes through the same code as the groups, padded with zeros, so that the bits of an element never depend on
//! its position in the slice.
//!
//! These are macros for the same reason as `map!`: a closure might not be inlined.

use crate::base::GROUP;
use crate::base::output::Output;

/// `walk!(O, group in codes, item in items… => words, out)`: writes the words of each group of codes in order and
/// returns the bytes written.
///
/// Each `item` is the group of a companion slice, which has at least as many elements.
macro_rules! walk {
    ($output:ident, $group:ident in $codes:expr $(, $item:ident in $items:expr)* => $words:expr, $out:expr) => {{
        let (codes, out) = ($codes, $out);
        let elements = codes.len().min(out.len() / $output::BYTES);
        let (groups, rest) = codes[..elements].as_chunks::<{ $crate::base::GROUP }>();
        let (whole, tail) = out.split_at_mut(groups.len() * $crate::base::GROUP * $output::BYTES);
        {
            $( let mut $item = $items[..elements].as_chunks::<{ $crate::base::GROUP }>().0.iter(); )*
            for ($group, bytes) in groups.iter().zip(whole.chunks_exact_mut($crate::base::GROUP * $output::BYTES)) {
                $( let Some($item) = $item.next() else { break }; )*
                $output::write(&$words, bytes);
            }
        }
        if !rest.is_empty() {
            $( let $item = &$crate::base::group::pad(&$items[elements - rest.len()..elements]); )*
            let $group = &$crate::base::group::pad(rest);
            $crate::base::walk::write_some::<$output>(&$words, rest.len(), tail);
        }
        elements * $output::BYTES
    }};
}

/// `walk_packed!(P, O, elements, group in packed, item in items… => words, out)`: writes the words of each group and
/// returns the bytes written.
///
/// `group` is the packed bytes of a group, each `item` the group of a companion slice with one value per element. The
/// packed bytes, companions and output hold at least `elements` elements.
macro_rules! walk_packed {
    (
        $packing:ident, $output:ident, $elements:expr, $group:ident in $packed:expr $(, $item:ident in $items:expr)*
        => $words:expr, $out:expr
    ) => {{
        let (elements, packed, out) = ($elements, $packed, $out);
        let whole = elements - elements % $crate::base::GROUP;
        let (groups, rest) = packed.split_at(whole / 8 * $packing::BITS);
        let (words, tail) = out.split_at_mut(whole * $output::BYTES);
        {
            $( let mut $item = $items[..whole].as_chunks::<{ $crate::base::GROUP }>().0.iter(); )*
            let groups = groups.chunks_exact(4 * $packing::BITS);
            for (group, bytes) in groups.zip(words.chunks_exact_mut($crate::base::GROUP * $output::BYTES)) {
                $( let Some($item) = $item.next() else { break }; )*
                let $group = &$crate::base::packing::load::<$packing>(group);
                $output::write(&$words, bytes);
            }
        }
        if elements > whole {
            $( let $item = &$crate::base::group::pad(&$items[whole..elements]); )*
            let $group = &$crate::base::packing::load::<$packing>(rest);
            $crate::base::walk::write_some::<$output>(&$words, elements - whole, tail);
        }
        elements * $output::BYTES
    }};
}

/// Writes the first `elements` words of a group.
#[inline(always)]
pub(crate) fn write_some<O: Output>(words: &[O::Word; GROUP], elements: usize, out: &mut [u8]) {
    debug_assert!(elements <= GROUP && elements * O::BYTES <= out.len(), "the caller counts these elements as written");
    let mut bytes = [0; GROUP * 4];
    O::write(words, &mut bytes[..GROUP * O::BYTES]);
    for (to, from) in out.iter_mut().zip(&bytes[..elements * O::BYTES]) {
        *to = *from;
    }
}
