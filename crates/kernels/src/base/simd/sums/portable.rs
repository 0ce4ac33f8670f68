//! The portable approximate distances.

use super::bytes::sums;
use super::{FEW, Points, Sums, Tables};
use crate::base::GROUP;
use crate::base::simd::Portable;

impl Sums for Portable {
    #[inline(always)]
    fn tables<const D: usize>(self, numbers: &[f32; GROUP]) -> Tables {
        // Adding this rounds to an integer.
        let whole =
            map!(number in numbers => ((if number < 255.0 { number } else { 255.0 }) + 8_388_608.0).to_bits() as u8);
        let mut tables = [[0; 16]; 4];
        for (place, table) in tables.iter_mut().enumerate() {
            for (nibble, entry) in table.iter_mut().enumerate() {
                *entry = if D == 8 {
                    whole[8 * place + nibble % 4].saturating_add(whole[8 * place + 4 + nibble / 4])
                } else {
                    whole[8 * place + nibble % 8]
                };
            }
        }
        tables
    }

    #[inline(always)]
    fn least(self, tables: &Tables, groups: &[Points]) -> u8 {
        let mut least = [u8::MAX; GROUP];
        for group in groups {
            let sums = sums(tables, group);
            for i in 0..GROUP {
                least[i] = least[i].min(sums[i]);
            }
        }
        let mut smallest = u8::MAX;
        for one in least {
            smallest = smallest.min(one);
        }
        smallest
    }

    #[inline(always)]
    fn at_most(self, tables: &Tables, group: &Points, limit: u8) -> u32 {
        let mut bits = 0;
        for (bit, sum) in sums(tables, group).into_iter().enumerate() {
            bits |= u32::from(sum <= limit) << bit;
        }
        bits
    }

    #[inline(always)]
    fn nearest_of_few<const D: usize>(self, terms: &[f32; GROUP], [lower, upper]: &Points) -> usize {
        let levels = GROUP / D;
        let (mut least, mut found) = (i32::MAX, 0);
        for place in 0..FEW {
            let point = usize::from(u16::from_le_bytes([lower[place], upper[place]]));
            let term = |element: usize| terms[levels * element + (point >> (16 / D * element)) % levels];
            let mut distance = 0.0;
            for element in 0..D {
                distance += term(element);
            }
            // Distances are non-negative: their bits compare like them.
            let bits = f32::to_bits(distance).cast_signed();
            (least, found) = if bits < least { (bits, place) } else { (least, found) };
        }
        found
    }
}
