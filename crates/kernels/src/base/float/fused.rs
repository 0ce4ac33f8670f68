//! Fused multiplication and addition.

/// Whether the function of the C library rounds twice, as MinGW's does, which programs call for CPUs without FMA.
pub(crate) const ROUNDS_TWICE: bool = cfg!(all(windows, target_env = "gnu"));

/// Multiplication and addition that are rounded once, also where [`f32::mul_add`] is not.
///
/// ```
/// use anamnesis_kernels::float::Fused;
///
/// assert_eq!(2.0f32.fused(3.0, 4.0), 10.0);
/// ```
pub trait Fused {
    /// `self · factor + term`.
    #[must_use]
    fn fused(self, factor: Self, term: Self) -> Self;
}

impl Fused for f32 {
    #[inline(always)]
    fn fused(self, factor: Self, term: Self) -> Self {
        if ROUNDS_TWICE { rounded_once(self, factor, term) } else { self.mul_add(factor, term) }
    }
}

/// The fused sum by arithmetic in `f64`.
#[inline(always)]
fn rounded_once(a: f32, b: f32, c: f32) -> f32 {
    // The product is exact.
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    if !sum.is_finite() || error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum as f32;
    }
    // Rounded to odd instead of to even, so that the next rounding is as if it were the only one.
    let is_away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if is_away { sum.to_bits() + 1 } else { sum.to_bits() - 1 }) as f32
}

#[cfg(all(test, not(all(windows, target_env = "gnu"))))]
mod tests {
    use super::*;

    #[test]
    fn sums_are_rounded_once() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 32) as u32
        };
        let check = |a: f32, b: f32, c: f32| {
            let (found, expected) = (rounded_once(a, b, c), a.mul_add(b, c));
            let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(is_same, "{a:e} {b:e} {c:e}: {found:e}, not {expected:e}");
        };
        for _ in 0..200_000 {
            let [a, b, c] = [next(), next(), next()].map(f32::from_bits);
            check(a, b, c);
            // A term of about the product's size, and one of the size of its last bits.
            for power in [0, 12, 24, 25, 36, 48] {
                check(a, b, -(a * b) * 2f32.powi(-power) * (1.0 + c.abs().min(1.0) / 8.0));
            }
        }
        for special in [0.0, -0.0, f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX, f32::INFINITY, f32::NAN] {
            check(special, 1.5, -1.5);
            check(1.0, special, -special);
        }
    }
}
