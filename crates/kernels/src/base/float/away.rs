//! Rounding to the nearest integer, ties away from zero.
//!
//! [`f32::round`] is a function of the C library on some CPUs, and MinGW's makes 1 of the number below one half.

/// A number whose integer part is `value` rounded to the nearest integer.
#[inline(always)]
pub(crate) fn to_truncate(value: f32) -> f32 {
    // One half itself would take the number below it, and odd integers of more than 22 bits, too far.
    value + 0.5f32.next_down().copysign(value)
}

/// `value` rounded to the nearest integer.
#[inline(always)]
pub(crate) fn round(value: f32) -> f32 {
    to_truncate(value).trunc()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By arithmetic in `f64`, where the sum with one half is exact or has no fraction.
    fn expected(value: f32) -> f32 {
        let magnitude = (f64::from(value).abs() + 0.5).floor();
        (magnitude as f32).copysign(value)
    }

    fn check(value: f32) {
        for value in [value, -value] {
            let (found, expected) = (round(value), expected(value));
            let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && value.is_nan();
            assert!(is_same, "{value:e}: {found}, not {expected}");
        }
    }

    #[test]
    fn values_are_rounded_to_the_nearest_integer_and_ties_away_from_zero() {
        (0..=f32::INFINITY.to_bits()).step_by(4099).for_each(|bits| check(f32::from_bits(bits)));
        for integer in (0..40_000).chain((22..26).flat_map(|power| (1 << power) - 9..(1 << power) + 9)) {
            for value in [integer as f32, integer as f32 + 0.5] {
                [value.next_down(), value, value.next_up()].into_iter().for_each(check);
            }
        }
        assert!(round(f32::NAN).is_nan());
    }
}
