//! Every command that writes, killed (`SIGKILL`) again and again: after a random delay, and before each of its calls
//! that change files. The output is the old or the new one, and the next run removes all leftovers.
//!
//! `AMN_KILLS` sets the number of random kills: `cargo xtask faults --rounds 1000`.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::faults::{self, Case};
use crate::folder::Folder;
use crate::states::{State, assert_survives_kill, restore, state};
use crate::tracer::{self, Fault, Injection, Kind};

/// Random kills by default.
const ROUNDS: usize = 40;

/// Calls per kind and command that a kill precedes by default.
const SAMPLE: usize = 4;

/// The kinds of calls that change files.
const CHANGES: [Kind; 7] = [Kind::Open, Kind::Write, Kind::Sync, Kind::Rename, Kind::Link, Kind::Make, Kind::Remove];

fn rounds() -> usize {
    std::env::var("AMN_KILLS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

fn cases() -> Vec<Case> {
    [faults::files(), faults::small_files(), faults::splits(), faults::directories(), faults::pipelines()].concat()
}

/// The states before and after a command, and how long it takes.
fn baseline(folder: &Folder, (before, line, _): &Case) -> (State, State, Duration) {
    restore(folder, &State::new());
    before.iter().for_each(|line| drop(folder.amn(line).ok()));
    let old = state(folder);
    let begin = Instant::now();
    folder.amn_within(line).ok();
    (old, state(folder), begin.elapsed())
}

/// Pseudo-random numbers, the same in every run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

#[test]
fn a_command_killed_at_any_moment_loses_nothing() {
    let folder = faults::folder();
    let (cases, rounds, mut seed) = (cases(), rounds(), 11);
    let (mut killed, mut changed) = (0, 0);
    for (number, case) in cases.iter().enumerate() {
        let (old, new, time) = baseline(&folder, case);
        let (_, line, promise) = case;
        for round in (number..rounds).step_by(cases.len()) {
            restore(&folder, &old);
            // The first third of a run is mostly the loader and the parser.
            let time = time.as_micros() as u64;
            let delay = Duration::from_micros(time / 3 + next(&mut seed) % (time * 3 / 4).max(1));
            let mut command = folder.command(line);
            command.env("TMPDIR", folder.root()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            std::thread::sleep(delay);
            child.kill().unwrap();
            let is_killed = child.wait().unwrap().code().is_none();
            killed += usize::from(is_killed);
            changed += usize::from(is_killed && state(&folder) != old);
            let what = format!("{line}: killed in round {round} after {delay:?}");
            assert_survives_kill(&folder, &old, &new, line, *promise, &what);
        }
    }
    println!("{rounds} rounds over {} commands: {killed} killed, {changed} after the first change", cases.len());
    assert!(killed > 0, "no kill came in time");
}

#[test]
fn a_command_killed_before_each_change_loses_nothing() {
    let folder = faults::folder();
    let is_all = std::env::var_os("AMN_FAULTS").is_some_and(|faults| faults == "all");
    let mut kills = 0;
    for case in cases() {
        let (old, new, _) = baseline(&folder, &case);
        let (_, line, promise) = case;
        let run = |injection| {
            let mut command = folder.command(&line);
            command.env("TMPDIR", folder.root()).stdout(Stdio::null()).stderr(Stdio::null());
            tracer::run(command, injection)
        };
        restore(&folder, &old);
        let Some(baseline) = run(None) else { return };
        for kind in CHANGES {
            let calls = baseline.calls.get(&kind).copied().unwrap_or(0);
            let samples = if is_all { calls } else { calls.min(SAMPLE) };
            // The last calls name files and remove old ones.
            for sample in 0..samples {
                let number = calls - 1 - sample * calls / samples;
                restore(&folder, &old);
                let injection = Injection { kind, number, fault: Fault::Kill };
                run(Some(injection)).unwrap();
                kills += 1;
                let what = format!("{line}: {injection:?}");
                assert_survives_kill(&folder, &old, &new, &line, promise, &what);
            }
        }
    }
    println!("{kills} kills before a change");
}
