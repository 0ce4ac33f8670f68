//! The mean of block scales, added up in torch's order.
//!
//! Numbers are dealt to 32 lanes, 4 rows of 8. A lane adds its numbers in runs; full runs go up into the next of four
//! levels, which are added to each other last. How long a run is depends on how many numbers there are in all, so that
//! has to be known first. Vectors of 8 that fill no step of 32 join the first row, the rows are added up, and then, one
//! after the other, the numbers that fill no vector and the 8 lanes.

use crate::error::{AnamnesisError, Result};

/// Numbers in a vector; fewer than that are added as vectors of one.
const VECTOR: usize = 8;
/// Vectors that are added side by side.
const ROWS: usize = 4;
const LEVELS: usize = 4;

/// The mean of a known number of scales that come one after the other.
#[derive(Debug, Clone)]
pub(crate) struct NestedMean {
    count: usize,
    /// Numbers taken so far.
    taken: usize,
    vector: usize,
    /// Steps in a run, as a power of two.
    power: u32,
    sums: [[f32; VECTOR * ROWS]; LEVELS],
    /// Sum of the numbers behind the last whole vector.
    tail: f32,
}

impl NestedMean {
    /// The mean of `count` numbers.
    pub(crate) fn new(count: usize) -> Self {
        let vector = if count < VECTOR { 1 } else { VECTOR };
        let steps = count / (vector * ROWS);
        let power = (steps.max(1).next_power_of_two().ilog2() / LEVELS as u32).max(4);
        Self { count, taken: 0, vector, power, sums: [[0.0; VECTOR * ROWS]; LEVELS], tail: 0.0 }
    }

    /// Takes the next numbers.
    pub(crate) fn push(&mut self, numbers: &[f32]) {
        let step = self.vector * ROWS;
        let in_steps = self.count / step * step;
        let in_vectors = self.count / self.vector * self.vector;
        for &number in numbers {
            let at = self.taken;
            self.taken += 1;
            if at < in_steps {
                self.sums[0][at % step] += number;
                if self.taken.is_multiple_of(step) {
                    self.carry(self.taken / step);
                }
                if self.taken == in_steps {
                    self.join_levels();
                }
            } else if at < in_vectors {
                self.sums[0][at % self.vector] += number;
            } else {
                self.tail += number;
            }
        }
    }

    /// The mean, once all numbers were taken.
    ///
    /// # Errors
    /// `Parse` where their sum is beyond F32.
    pub(crate) fn mean(&self) -> Result<f32> {
        let mut lanes = [0.0; VECTOR];
        lanes[..self.vector].copy_from_slice(&self.sums[0][..self.vector]);
        for row in 1..ROWS {
            for (lane, sum) in lanes.iter_mut().zip(&self.sums[0][row * self.vector..(row + 1) * self.vector]) {
                *lane += sum;
            }
        }
        let sum = lanes[..self.vector].iter().fold(self.tail, |sum, lane| sum + lane);
        let mean = sum / self.count as f32;
        if !mean.is_finite() {
            let why = format!("the sum of {} block scales is {sum}: they cannot be quantised themselves", self.count);
            return Err(AnamnesisError::parse(why));
        }
        Ok(mean)
    }

    /// Moves full runs up, after `steps` steps.
    fn carry(&mut self, steps: usize) {
        let mask = (1 << self.power) - 1;
        if steps & mask != 0 {
            return;
        }
        for level in 1..LEVELS {
            let below = std::mem::replace(&mut self.sums[level - 1], [0.0; VECTOR * ROWS]);
            add(&mut self.sums[level], &below);
            if steps & (mask << (level as u32 * self.power)) != 0 {
                break;
            }
        }
    }

    fn join_levels(&mut self) {
        let [first, others @ ..] = &mut self.sums;
        others.iter().for_each(|level| add(first, level));
    }
}

fn add(sums: &mut [f32], others: &[f32]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}
