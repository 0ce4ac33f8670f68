//! Interprets the bodies of the fuzz targets with Miri: `cargo xtask miri --seconds N [target ...]`.
//!
//! Miri stops at undefined behaviour, and runs the portable level, which is that of every CPU without AVX2. It takes a thousand
//! times as long as the CPU, so every target gets the smallest of its seeds, and no new one after its seconds. It is stopped
//! after thirty times as long, with the build.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::fuzz::{chosen, write_seeds};

const SEEDS: &str = "target/miri/seeds";
/// Seeds of a target, at most.
const MOST_SEEDS: usize = 12;
/// One of so many seeds is taken, in the order of their sizes: seeds of the same size are much alike.
const STEP: usize = 5;
/// The longest time of a target, in its seconds: some inputs make an encoder build its tables.
const LONGEST: u32 = 30;
/// The exit code of `timeout` for a command that it has stopped.
const TIMED_OUT: i32 = 124;

pub(crate) fn run() -> Result<(), String> {
    let (seconds, targets) = chosen("--seconds", 20)?;
    write_seeds(SEEDS)?;
    let mut failed = Vec::new();
    for target in targets {
        if let Err(why) = interpret(&target.name, seconds) {
            failed.push(why);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Interprets a target over its small seeds; it prints how many there was time for.
fn interpret(target: &str, seconds: u32) -> Result<(), String> {
    let limit = LONGEST * seconds;
    let mut miri = Command::new("timeout");
    miri.args([&limit.to_string(), "cargo", "+nightly", "miri", "run", "--quiet"]);
    miri.args(["-p", "anamnesis-promises", "--example", "replay", "--"]);
    miri.args(["--seconds", &seconds.to_string(), target]).args(small_seeds(target)?);
    // Seeds are files. The bits of a NaN would be chosen at random, and two runs of one kernel are compared.
    miri.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-deterministic-floats");
    // The variables of the cargo that runs this task name another compiler.
    miri.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    let status = miri.env("CARGO_TARGET_DIR", "target/miri").status().map_err(|error| format!("timeout: {error}"))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(TIMED_OUT) => {
            println!("{target}: stopped after {limit} s");
            Ok(())
        }
        _ => Err(format!("{target} failed")),
    }
}

/// The paths of some small seeds, by size.
fn small_seeds(target: &str) -> Result<Vec<PathBuf>, String> {
    let folder = format!("{SEEDS}/{target}");
    let failed = |error: std::io::Error| format!("{folder}: {error}");
    let mut seeds = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        seeds.push((entry.metadata().map_err(failed)?.len(), entry.path()));
    }
    seeds.sort();
    Ok(seeds.into_iter().step_by(STEP).take(MOST_SEEDS).map(|(_, path)| path).collect())
}
