//! Detection of large values that an encoding replaces by zero: quantisers search for scales by sums of squares, and some
//! choose a scale of zero when these overflow.

/// No code times an F16 scale exceeds this, and up to here the sums of all quantisers are finite.
pub(crate) const LARGEST_HELD: f32 = (1u32 << 28) as f32;

/// The factor by which the largest value of a block may shrink: one-bit codes are that coarse.
const COARSEST: f32 = 8.0;

/// The index of a value above `LARGEST_HELD` that decodes to almost zero although it is the largest of the `together` values
/// that share its scale. `decoded` returns the decoded value of an index.
pub(crate) fn vanished(values: &[f32], together: u64, decoded: impl Fn(usize) -> f32) -> Option<usize> {
    let together = usize::try_from(together.max(1)).unwrap_or(usize::MAX);
    values.chunks(together).enumerate().find_map(|(block, values)| {
        let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        if largest <= LARGEST_HELD {
            return None;
        }
        let place = block * together + values.iter().position(|value| value.abs() == largest)?;
        (decoded(place).abs() < largest / COARSEST).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_largest_of_a_block_must_stay() {
        let values = [1.0, 1e30, 1e10, 2.0, 3.0, 1e9];
        let found = |decoded: [f32; 6], together| vanished(&values, together, |place| decoded[place]);
        assert_eq!(found([0.0; 6], 3), Some(1));
        assert_eq!(found([0.0, 1e30, 0.0, 0.0, 0.0, 0.0], 3), Some(5));
        assert_eq!(found([0.0, 1e30, 0.0, 0.0, 0.0, 0.0], 6), None);
        assert_eq!(found([0.0, 0.9e30, 0.0, 0.0, 0.0, -1.1e9], 3), None);
        assert_eq!(vanished(&[1.0, -5.0], 2, |_| 0.0), None);
    }
}
