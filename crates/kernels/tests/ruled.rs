//! Packed codes by every rule, at every level of this CPU, against the formula element by element: bits, not closeness.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod naive;

use anamnesis_kernels::*;
use naive::packed::{code, put};

/// Scales and offsets: ordinary ones, then some of every kind.
const ORDINARY: [f32; 6] = [1.0, 0.37, -2.5e-3, 8.0, 1.7e4, 3.0];
const WILD: [f32; 10] =
    [0.37, 0.0, -0.0, 1e-45, -3e-39, 3.3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::from_bits(0xFF80_0001)];

/// E2M1, as it is and with one zero.
const FLOATS: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];
const ONE_ZERO: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];
/// All but one mirror each other.
const ASKEW: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.5, -6.0];

fn rounded(step: Step, value: f32) -> f32 {
    match step {
        Step::F32 => value,
        Step::Bf16 => half::bf16::from_f32(value).to_f32(),
        Step::F16 => half::f16::from_f32(value).to_f32(),
    }
}

fn number(Arithmetic { formula, step }: Arithmetic, value: f32, offset: f32, scale: f32) -> f32 {
    match formula {
        Formula::Affine => rounded(step, rounded(step, value - offset) * scale),
        Formula::Biased => rounded(step, rounded(step, value * scale) + offset),
        Formula::Divided => rounded(step, rounded(step, value - offset) / scale),
    }
}

/// Bytes whose period of 251 does not divide any block.
fn painted(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i % 251 * 7 + i / 251 * 13 + i) as u8).collect()
}

fn agrees<P: Packing, O: Output>(rule: Arithmetic, map: &[f32; 16], offsets: &[f32], scales: &[f32], block: usize) {
    // The last block is cut short, and so is its last group.
    let length = scales.len() * block - block / 3;
    let codes = painted((length * P::BITS).div_ceil(8));
    let mut expected = vec![0; length * O::BYTES];
    for i in 0..length {
        let code = code(P::NAME, &codes, i);
        let value = if P::BITS == 8 { f32::from(code) } else { map[usize::from(code)] };
        let offset = offsets.get(i / block).copied().unwrap_or(0.0);
        put(O::NAME, number(rule, value, offset, scales[i / block]), i, &mut expected);
    }
    for level in Level::available() {
        let mut found = vec![0xA5; length * O::BYTES];
        let written = ruled_blocks::<P, O>(level, rule, &codes, map, offsets, scales, block, &mut found);
        assert_eq!(written, length * O::BYTES);
        for (i, (found, expected)) in found.chunks(O::BYTES).zip(expected.chunks(O::BYTES)).enumerate() {
            let same = naive::same(O::NAME, found, expected);
            let what = format!("{} in blocks of {block} by {rule:?} to {}", P::NAME, O::NAME);
            assert!(same, "{what} at {level}, element {i}: {found:02X?} instead of {expected:02X?}");
        }
    }
}

fn every_rule_agrees<P: Packing, O: Output>() {
    let map = std::array::from_fn(|code| code as f32 * 0.5 - 2.0);
    for formula in [Formula::Affine, Formula::Biased, Formula::Divided] {
        for step in [Step::F32, Step::Bf16, Step::F16] {
            for block in [16, 32, 48, 64] {
                for seed in 0..3 {
                    let cycle =
                        |numbers: &[f32], count| numbers.iter().copied().cycle().skip(seed).take(count).collect();
                    let (scales, offsets): (Vec<f32>, Vec<f32>) = match seed {
                        0 => (cycle(&ORDINARY, 7), cycle(&ORDINARY[2..], 7)),
                        1 => (cycle(&WILD, 11), cycle(&ORDINARY, 11)),
                        _ => (cycle(&WILD, 10), vec![]),
                    };
                    agrees::<P, O>(Arithmetic { formula, step }, &map, &offsets, &scales, block);
                }
            }
        }
    }
}

fn mirrors_agree<O: Output>() {
    for map in [FLOATS, ONE_ZERO, ASKEW] {
        for scales in [&ORDINARY[..], &WILD[..6], &WILD, &[f32::NAN; 3]] {
            agrees::<LowNibbles, O>(Arithmetic::default(), &map, &[], scales, 16);
            agrees::<HighNibbles, O>(Arithmetic::default(), &map, &[], scales, 16);
        }
    }
}

#[test]
fn every_rule_agrees_with_its_formula() {
    every_rule_agrees::<LowNibbles, Bf16>();
    every_rule_agrees::<LowNibbles, F16>();
    every_rule_agrees::<LowNibbles, F32>();
    every_rule_agrees::<Bytes, Bf16>();
    every_rule_agrees::<Bytes, F16>();
    every_rule_agrees::<Bytes, F32>();
    every_rule_agrees::<Bits3, Bf16>();
}

#[test]
fn maps_that_mirror_themselves_agree_under_every_scale() {
    mirrors_agree::<Bf16>();
    mirrors_agree::<F16>();
    mirrors_agree::<F32>();
}
