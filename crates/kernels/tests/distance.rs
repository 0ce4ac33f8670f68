//! Distances: every level against sums one at a time.

#![allow(missing_docs)]

use anamnesis_kernels::{DISTANCE_LANES, DistanceSums, Level, add_distance};

#[test]
fn sums_are_those_of_a_plain_loop_at_every_level() {
    let mut state = 9u32;
    println!("seed {state}");
    let mut number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state as i32 as f32) / 3e6
    };
    for count in [0, 1, 7, 8, 9, 31, 64, 1000, 1003] {
        let before: Vec<f32> = (0..count).map(|_| number()).collect();
        let after: Vec<f32> = before.iter().map(|value| value + number() / 100.0).collect();
        let bytes: Vec<u8> = after.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut want = DistanceSums::default();
        for (index, (x, y)) in before.iter().zip(&after).enumerate() {
            let (x, y, lane) = (f64::from(*x), f64::from(*y), index % DISTANCE_LANES);
            for (sums, term) in want.iter_mut().zip([(x - y).abs(), (x - y) * (x - y), x * x, y * y, x * y]) {
                sums[lane] += term;
            }
        }
        for level in Level::available() {
            let mut found = DistanceSums::default();
            assert_eq!(add_distance(level, &before, &bytes, &mut found), count);
            assert_eq!(found, want, "{count} values at {level}");
        }
    }
}
