//! Four-bit codes in blocks of half a group: a group is looked up in two tables at once. NaN operands are canonical.

#![allow(
    clippy::too_many_arguments,
    reason = "slices must be separate arguments, or the compiler loses that they do not overlap"
)]

use crate::base::GROUP;
use crate::base::group::twice;
use crate::base::output::Output;
use crate::base::packing::{Packing, load};
use crate::base::simd::{SMALL_TABLE, Simd};
use crate::base::walk::write_some;
use crate::decode::extent::{count, zero_of};
use crate::decode::mirror::{Mirror, are_finite};
use crate::decode::rule::Rule;

kernel! {
    /// Decodes with any formula.
    pub(crate) fn looked_up_by_half<P: Packing, R: Rule>(
        rule: R,
        packed: &[u8],
        map: &[f32; 16],
        zeros: &[f32],
        scales: &[f32],
    ) -> O in out = half_tables
}

kernel! {
    /// Decodes `map[code] * scale`; `mirror` belongs to `map`.
    pub(crate) fn products_by_half<P: Packing>(
        packed: &[u8],
        map: &[f32; 16],
        mirror: Option<&Mirror>,
        scales: &[f32],
    ) -> O in out = half_products
}

/// `walk_pairs!(P, O, elements, packed, (scales, index) in all => tables, out)`: writes the words of each group, where blocks
/// are half groups.
macro_rules! walk_pairs {
    (
        $simd:ident, $packing:ident, $output:ident, $elements:expr, $packed:ident, ($pair:ident, $index:ident) in $scales:ident
        => $tables:expr, $out:ident
    ) => {{
        let elements = $elements;
        let whole = elements / GROUP;
        let (groups, rest) = $packed.split_at(whole * (GROUP / 2));
        let (words, tail) = $out.split_at_mut(whole * GROUP * $output::BYTES);
        let groups = groups.as_chunks::<{ GROUP / 2 }>().0.iter().zip(words.chunks_exact_mut(GROUP * $output::BYTES));
        for (($index, &$pair), (group, bytes)) in $scales.as_chunks::<2>().0.iter().enumerate().zip(groups) {
            let tables = $tables;
            $output::write(&$output::look_up_by_half::<S, $packing>($simd, &tables, &load::<$packing>(group)), bytes);
        }
        if let Some(&first) = $scales.get(2 * whole) {
            let ($index, $pair) = (whole, [first, $scales.get(2 * whole + 1).copied().unwrap_or(0.0)]);
            let words = $output::look_up_by_half::<S, $packing>($simd, &$tables, &load::<$packing>(rest));
            write_some::<$output>(&words, elements - whole * GROUP, tail);
        }
        elements * $output::BYTES
    }};
}

/// Looks codes up, with two tables per group.
#[inline(always)]
fn half_tables<S: Simd, P: Packing, R: Rule, O: Output>(
    simd: S,
    rule: R,
    packed: &[u8],
    map: &[f32; 16],
    zeros: &[f32],
    scales: &[f32],
    out: &mut [u8],
) -> usize {
    let elements = count::<P, O>(packed, zeros, scales, GROUP / 2, out);
    walk_pairs!(simd, P, O, elements, packed, (pair, index) in scales => {
        let zeros = [zero_of(zeros, 2 * index), zero_of(zeros, 2 * index + 1)];
        two_tables::<S, R, O>(simd, rule, map, zeros, pair)
    }, out)
}

/// [`half_tables`] without zero points or biases.
#[inline(always)]
fn half_products<S: Simd, P: Packing, O: Output>(
    simd: S,
    packed: &[u8],
    map: &[f32; 16],
    mirror: Option<&Mirror>,
    scales: &[f32],
    out: &mut [u8],
) -> usize {
    let elements = count::<P, O>(packed, &[], scales, GROUP / 2, out);
    let scales = &scales[..elements.div_ceil(GROUP / 2)];
    match mirror {
        Some(mirror) if O::TABLES && are_finite(scales) => {
            walk_pairs!(simd, P, O, elements, packed, (pair, _index) in scales => {
                mirror.tables::<S, O>(simd, &mirror.products(pair))
            }, out)
        }
        _ => walk_pairs!(simd, P, O, elements, packed, (pair, _index) in scales => {
            let mut products = [pair[0]; GROUP];
            products[SMALL_TABLE..].fill(pair[1]);
            for i in 0..GROUP {
                products[i] *= map[i % SMALL_TABLE];
            }
            O::round_products(simd, &products)
        }, out),
    }
}

/// The rounded words of all codes of two blocks.
#[inline(always)]
fn two_tables<S: Simd, R: Rule, O: Output>(
    simd: S,
    rule: R,
    map: &[f32; 16],
    zeros: [f32; 2],
    scales: [f32; 2],
) -> [O::Word; GROUP] {
    let (mut of_zeros, mut of_scales) = ([zeros[0]; GROUP], [scales[0]; GROUP]);
    of_zeros[SMALL_TABLE..].fill(zeros[1]);
    of_scales[SMALL_TABLE..].fill(scales[1]);
    O::round_products(simd, &rule.numbers(simd, &twice(map), &of_zeros, &of_scales))
}
