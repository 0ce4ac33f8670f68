//! The mean of block scales, summed in the order of `torch.mean` (torch's cascade sum).
//!
//! Values are distributed over 32 lanes, 4 rows of 8. A lane sums its values in runs; the sum of a full run moves up to
//! the next of four levels, and the levels are added at the end. The length of a run depends on the total count, which
//! must be known first. Vectors of 8 that do not fill a step of 32 are added to the first row, then the rows are added
//! up, and finally, one after the other, the values that do not fill a vector and the 8 lanes.

use crate::error::{AnamnesisError, Result};

/// Values in a vector; fewer values in total are added as vectors of one.
const VECTOR: usize = 8;
/// Independent vectors of sums.
const ROWS: usize = 4;
const LEVELS: usize = 4;

/// The mean of a known number of scales, pushed in order.
#[derive(Debug, Clone)]
pub(crate) struct NestedMean {
    count: usize,
    /// Values pushed so far.
    pushed: usize,
    vector: usize,
    /// Steps in a run, as a power of two.
    power: u32,
    sums: [[f32; VECTOR * ROWS]; LEVELS],
    /// Sum of the values after the last full vector.
    tail: f32,
}

impl NestedMean {
    /// An empty sum for `count` values.
    pub(crate) fn new(count: usize) -> Self {
        let vector = if count < VECTOR { 1 } else { VECTOR };
        let steps = count / (vector * ROWS);
        let power = (steps.max(1).next_power_of_two().ilog2() / LEVELS as u32).max(4);
        Self { count, pushed: 0, vector, power, sums: [[0.0; VECTOR * ROWS]; LEVELS], tail: 0.0 }
    }

    /// Adds the next values.
    pub(crate) fn push(&mut self, values: &[f32]) {
        let step = self.vector * ROWS;
        let in_steps = self.count / step * step;
        let in_vectors = self.count / self.vector * self.vector;
        for &value in values {
            let at = self.pushed;
            self.pushed += 1;
            if at < in_steps {
                self.sums[0][at % step] += value;
                if self.pushed.is_multiple_of(step) {
                    self.carry(self.pushed / step);
                }
                if self.pushed == in_steps {
                    self.join_levels();
                }
            } else if at < in_vectors {
                self.sums[0][at % self.vector] += value;
            } else {
                self.tail += value;
            }
        }
    }

    /// The mean, after all values were pushed.
    ///
    /// # Errors
    /// `Parse` if the sum overflows F32.
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

    /// Moves the sums of full runs to the next level, after `steps` steps.
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
