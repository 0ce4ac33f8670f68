//! Quantisation error: sums that do not depend on the assignment of tiles to workers.

use crate::error::Result;
use std::ops::Range;

use crate::scheme::coder::filled;
use anamnesis_kernels::measure::sum_of_lanes;
use anamnesis_kernels::{self as kernels, DistanceSums, Level};

/// Sums over values `x` and their decoded encodings `y`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Distance {
    pub values: u64,
    /// Number of NaNs and infinities that were replaced.
    pub replaced: u64,
    /// Number of finite values that decode to an infinity or NaN.
    pub overflowed: u64,
    /// Of `|x − y|`.
    pub absolute: f64,
    /// Of `(x − y)²`.
    pub squared: f64,
    /// Of `x²`.
    pub before: f64,
    /// Of `y²`.
    pub after: f64,
    /// Of `x · y`.
    pub product: f64,
}

impl Distance {
    /// `after` is little-endian F32.
    pub(crate) fn between(level: Level, before: &[f32], after: &[u8]) -> Result<Self> {
        let mut lanes = DistanceSums::default();
        filled(kernels::add_distance(level, before, after, &mut lanes), before.len())?;
        let [absolute, squared, before_sum, after_sum, product] = lanes.map(sum_of_lanes);
        let values = before.len() as u64;
        let (before, after) = (before_sum, after_sum);
        Ok(Self { values, replaced: 0, overflowed: 0, absolute, squared, before, after, product })
    }

    /// Signal-to-noise ratio in decibels; infinite if there is no difference.
    pub(crate) fn sqnr(&self) -> f64 {
        if self.squared == 0.0 { f64::INFINITY } else { 10.0 * (self.before / self.squared).log10() }
    }

    /// Cosine similarity. It is not defined for zero vectors: here that of two is 1, and that of one and another is 0.
    pub(crate) fn cosine(&self) -> f64 {
        match (self.before * self.after).sqrt() {
            0.0 if self.squared == 0.0 => 1.0,
            0.0 => 0.0,
            energies => self.product / energies,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.replaced += other.replaced;
        self.overflowed += other.overflowed;
        self.absolute += other.absolute;
        self.squared += other.squared;
        self.before += other.before;
        self.after += other.after;
        self.product += other.product;
    }
}

/// The error of one tensor, summed in tile order. Tiles that arrive early are kept back.
#[derive(Debug, Default)]
pub(super) struct DistanceSum {
    total: Distance,
    next: u64,
    /// Sorted by range.
    early: Vec<(Range<u64>, Distance)>,
}

impl DistanceSum {
    pub(super) fn add(&mut self, tile: Range<u64>, distance: Distance) {
        let place = self.early.partition_point(|(early, _)| early.start < tile.start);
        self.early.insert(place, (tile, distance));
        let mut ready = 0;
        while let Some((tile, distance)) = self.early.get(ready).filter(|(tile, _)| tile.start == self.next) {
            self.total.add(distance);
            self.next = tile.end;
            ready += 1;
        }
        self.early.drain(..ready);
    }

    /// The total. Tiles without a measurement leave gaps, which are ignored here.
    pub(super) fn total(mut self) -> Distance {
        for (_, distance) in &self.early {
            self.total.add(distance);
        }
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_tiles_are_ignored() {
        let mut measured = DistanceSum::default();
        measured.add(200..300, Distance { overflowed: 2, ..Distance::default() });
        measured.add(100..200, Distance { overflowed: 1, ..Distance::default() });
        assert_eq!(measured.total().overflowed, 3);
    }

    #[test]
    fn the_sum_does_not_depend_on_the_order_of_tiles() {
        let values: Vec<f32> = (0..1000).map(|index| (index as f32 * 0.37).sin()).collect();
        let coarse: Vec<f32> = values.iter().map(|value| (value * 4.0).round() / 4.0).collect();
        let bytes: Vec<u8> = coarse.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tile = |index: usize| {
            let range = index * 100..(index + 1) * 100;
            (
                range.start as u64..range.end as u64,
                Distance::between(Level::detect(), &values[range.clone()], &bytes[range.start * 4..range.end * 4])
                    .unwrap(),
            )
        };
        let total = |order: &[usize]| {
            let mut measured = DistanceSum::default();
            for (range, distance) in order.iter().map(|&index| tile(index)) {
                measured.add(range, distance);
            }
            measured.total()
        };
        let forwards = total(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(forwards, total(&[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]));
        assert_eq!(forwards, total(&[3, 0, 9, 1, 7, 2, 8, 4, 6, 5]));
        assert_eq!(forwards.values, 1000);
        let exact: f64 = values.iter().zip(&coarse).map(|(x, y)| (f64::from(*x) - f64::from(*y)).abs()).sum();
        assert!((forwards.absolute - exact).abs() < 1e-9);
    }
}
