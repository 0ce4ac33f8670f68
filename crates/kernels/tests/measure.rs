//! Measurements: every level against loops over one value at a time.

#![allow(missing_docs)]

use anamnesis_kernels::Level;
use anamnesis_kernels::measure::{
    Difference, LANES, Moments, NEAR_BINS, NOT_FINITE, add_squares, count_bins, count_near_bins, count_outliers,
    measure_difference, measure_moments,
};

/// Values of every kind: small and large ones, zeros of both signs, subnormals, infinities and NaN.
fn values(count: usize, seed: u32) -> Vec<f32> {
    println!("seed {seed}");
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state
    };
    let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-42, -1e-42, f32::MAX, f32::MIN];
    let mut value = || match next() >> 24 {
        kind @ 0..9 => special[kind as usize],
        _ => (next() as i32 as f32) / 3e8,
    };
    (0..count).map(|_| value()).collect()
}

fn bytes(values: &[f32]) -> Vec<[u8; 4]> {
    values.iter().map(|value| value.to_le_bytes()).collect()
}

const COUNTS: [usize; 8] = [0, 1, 7, 8, 9, 63, 1000, 4096];

#[test]
fn moments_are_those_of_a_plain_loop_at_every_level() {
    for (count, seed) in COUNTS.into_iter().zip(1..) {
        let values = values(count, seed);
        let mut want = Moments::default();
        let mut squares = [0.0; LANES];
        for (index, value) in values.iter().enumerate() {
            let lane = index % LANES;
            want.nan[lane] += u32::from(value.is_nan());
            want.infinite[lane] += u32::from(value.is_infinite());
            want.zeros[lane] += u32::from(*value == 0.0);
            if value.is_finite() {
                want.sum[lane] += f64::from(*value);
                want.min[lane] = if *value < want.min[lane] { *value } else { want.min[lane] };
                want.max[lane] = if *value > want.max[lane] { *value } else { want.max[lane] };
                squares[lane] += (f64::from(*value) - 0.25) * (f64::from(*value) - 0.25);
            }
        }
        for level in Level::available() {
            let (mut found, mut found_squares) = (Moments::default(), [0.0; LANES]);
            assert_eq!(measure_moments(level, &bytes(&values), &mut found), count);
            assert_eq!(found, want, "{count} values at {level}");
            assert_eq!(add_squares(level, &bytes(&values), 0.25, &mut found_squares), count);
            assert_eq!(found_squares, squares, "{count} values at {level}");
        }
    }
}

#[test]
fn bins_are_floors_at_every_level() {
    for (count, seed) in COUNTS.into_iter().zip(20..) {
        let values: Vec<f32> = values(count, seed)
            .into_iter()
            .map(|value| if value.abs() > 8.0 && value.is_finite() { 1.5 } else { value })
            .collect();
        let (scale, first) = (2.0, -16.0);
        let mut want = [0u32; 256];
        for value in &values {
            let bin = (f64::from(*value) * scale).floor() - first;
            want[if value.is_finite() { bin as usize } else { NOT_FINITE }] += 1;
        }
        for level in Level::available() {
            let mut found = [0; 256];
            assert_eq!(count_bins(level, &bytes(&values), scale, first, &mut found), count);
            assert_eq!(found, want, "{count} values at {level}");
        }
    }
}

#[test]
fn near_bins_are_the_same_bins() {
    for (count, seed) in COUNTS.into_iter().chain([40_000]).zip(60..) {
        let values: Vec<f32> =
            values(count, seed).into_iter().map(|value| if value.abs() < 8.0 { value } else { -1e-45 }).collect();
        for level in Level::available() {
            let (mut wanted, mut found) = ([0; 256], [0; NEAR_BINS]);
            assert_eq!(count_bins(level, &bytes(&values), 2.0, -16.0, &mut wanted), count);
            assert_eq!(count_near_bins(level, &bytes(&values), 2.0, -16.0, &mut found), count);
            assert_eq!(found, wanted[..NEAR_BINS], "{count} values at {level}");
        }
    }
}

#[test]
fn outliers_are_those_of_a_plain_loop_at_every_level() {
    for (count, seed) in COUNTS.into_iter().zip(80..) {
        let values = values(count, seed);
        let is_outlier = |value: &&f32| value.is_finite() && (f64::from(**value) - 0.25).abs() > 3.0;
        let wanted = values.iter().filter(is_outlier).count() as u32;
        for level in Level::available() {
            let mut found = [0; LANES];
            assert_eq!(count_outliers(level, &bytes(&values), 0.25, 3.0, &mut found), count);
            assert_eq!(found.iter().sum::<u32>(), wanted, "{count} values at {level}");
        }
    }
}

#[test]
fn a_value_just_below_zero_is_in_the_bin_below() {
    for level in Level::available() {
        let mut counts = [0; 256];
        assert_eq!(count_bins(level, &bytes(&[-1e-45, 0.0, -0.0, 1e-45]), 1.0 / 1024.0, -1.0, &mut counts), 4);
        assert_eq!(counts[..2], [1, 3], "{level}");
    }
}

#[test]
fn differences_are_those_of_a_plain_loop_at_every_level() {
    for (count, seed) in COUNTS.into_iter().zip(40..) {
        let (first, mut second) = (values(count, seed), values(count, seed / 2));
        second.iter_mut().zip(&first).step_by(3).for_each(|(y, x)| *y = -x);
        let mut want = Difference::default();
        for (index, (x, y)) in first.iter().zip(&second).enumerate() {
            let lane = index % LANES;
            let is_finite = x.is_finite() && y.is_finite();
            want.unequal[lane] += u32::from(x.to_bits() != y.to_bits());
            want.not_finite[lane] += u32::from(!is_finite);
            let is_nan = x.is_nan() && y.is_nan();
            want.incomparable[lane] += u32::from(!is_finite && !is_nan && x.to_bits() != y.to_bits());
            if is_finite {
                want.largest[lane] = want.largest[lane].max((f64::from(*x) - f64::from(*y)).abs());
            }
        }
        for level in Level::available() {
            let mut found = Difference::default();
            assert_eq!(measure_difference(level, &bytes(&first), &bytes(&second), &mut found), count);
            assert_eq!(found, want, "{count} values at {level}");
        }
    }
}
