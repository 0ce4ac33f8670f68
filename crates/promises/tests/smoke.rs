//! Every promise over its seeds and over changed seeds, without a fuzzer. `AMN_SEED` selects other changes, `AMN_CHANGES` sets
//! how many there are of each target.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use anamnesis_promises::{TARGETS, Target, seeds};

/// Seeds of a target that are tried.
const MAX_SEEDS: usize = 24;
/// Changed seeds of a target.
const CHANGES: usize = 150;
/// A target ends early after this time, so that all of them fit into a minute.
const MAX_TIME: Duration = Duration::from_millis(1200);

/// A linear congruential generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// A seed with a few changes: bytes, interesting numbers, pieces that are removed, repeated or taken from another seed.
fn changed(seed: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + numbers.below(4) {
        if bytes.is_empty() {
            bytes.push(0);
        }
        let at = numbers.below(bytes.len());
        let end = at + numbers.below(bytes.len() - at + 1).min(64);
        match numbers.below(6) {
            0 => bytes[at] = numbers.below(256) as u8,
            1 => bytes[at] ^= 1 << numbers.below(8),
            2 => {
                let number = [0, 1, u64::MAX, 1 << 31, 1 << 63, 0x7FFF_FFFF][numbers.below(6)];
                bytes[at..].iter_mut().zip(number.to_le_bytes()).for_each(|(byte, new)| *byte = new);
            }
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let from = numbers.below(other.len());
                let to = (from + numbers.below(64)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
    bytes
}

/// Tries the seeds and changes of one target; returns how many inputs.
fn run(target: &Target, seed: u64, changes: usize) -> usize {
    let start = Instant::now();
    let all = seeds::of(target.name);
    assert!(!all.is_empty(), "{} has no seeds", target.name);
    let step = all.len().div_ceil(MAX_SEEDS);
    let chosen: Vec<_> = all.iter().skip(seed as usize % step).step_by(step).collect();
    let mut numbers = Numbers(seed);
    let mut tried = 0;
    let inputs = (0..chosen.len() + changes).map(|index| match chosen.get(index) {
        Some(seed) => (*seed).clone(),
        None => {
            let (first, second) = (numbers.below(chosen.len()), numbers.below(chosen.len()));
            changed(chosen[first], chosen[second], &mut numbers)
        }
    });
    for input in inputs {
        if start.elapsed() > MAX_TIME {
            break;
        }
        let input = &input[..input.len().min(target.max_len)];
        let outcome = std::panic::catch_unwind(|| (target.run)(input));
        if let Err(panic) = outcome {
            let path = std::env::temp_dir().join(format!("promise-{}", target.name));
            std::fs::write(&path, input).unwrap();
            eprintln!("{} breaks on {}, AMN_SEED={seed}", target.name, path.display());
            std::panic::resume_unwind(panic);
        }
        tried += 1;
    }
    tried
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn every_promise_holds_for_seeds_and_changed_seeds() {
    let (seed, changes) = (number("AMN_SEED", 1), number("AMN_CHANGES", CHANGES as u64));
    for target in TARGETS {
        let tried = run(target, seed, changes as usize);
        println!("{} {tried}", target.name);
        assert!(tried > 0, "{}", target.name);
    }
}

#[test]
fn every_promise_has_a_fuzz_target() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");
    let manifest = std::fs::read_to_string(format!("{folder}/Cargo.toml")).unwrap();
    for target in TARGETS {
        let name = target.name;
        assert!(std::path::Path::new(&format!("{folder}/fuzz_targets/{name}.rs")).exists(), "{name}");
        assert!(manifest.contains(&format!("\"fuzz_targets/{name}.rs\"")), "{name}");
    }
}
