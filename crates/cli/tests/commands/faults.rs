//! Fault injection: each system call of every command that writes fails once. The output must be the old or the new
//! one, a failed run must report an error, and no file may be left that the process could have removed.
//!
//! A sample of the calls by default; all of them, with every error, with `AMN_FAULTS=all`.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use nix::errno::Errno;

use crate::checkpoint::{self, NAME, SMALL};
use crate::folder::Folder;
use crate::tracer::{self, Fault, Injection, Kind};

/// Calls per kind in a sample.
const SAMPLE: usize = 3;

/// The result of a run: every file in the folder by its path, except inputs and printed output.
type State = BTreeMap<String, Vec<u8>>;

const PRINTED: &str = "printed";
const INPUTS: [&str; 4] = [NAME, "model.safetensors", "plain.safetensors", PRINTED];

fn state(folder: &Folder) -> State {
    fn walk(directory: &Path, prefix: &str, state: &mut State) {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
            let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
            if INPUTS.contains(&name.as_str()) {
                continue;
            }
            match entry.file_type().unwrap().is_dir() {
                true => {
                    state.insert(format!("{name}/"), Vec::new());
                    walk(&entry.path(), &format!("{name}/"), state);
                }
                false => drop(state.insert(name, fs::read(entry.path()).unwrap())),
            }
        }
    }
    let mut found = State::new();
    walk(folder.root(), "", &mut found);
    found
}

/// Restores a state of the folder.
fn restore(folder: &Folder, wanted: &State) {
    let found = state(folder);
    if found == *wanted {
        return;
    }
    for name in found.keys() {
        let path = folder.path(name.trim_end_matches('/'));
        let _ = if name.ends_with('/') { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    for (name, bytes) in wanted {
        match name.strip_suffix('/') {
            Some(name) => fs::create_dir_all(folder.path(name)).unwrap(),
            None => fs::write(folder.path(name), bytes).unwrap(),
        }
    }
}

/// The errors that a call may fail with.
fn faults(kind: Kind) -> Vec<Fault> {
    let errors: &[Errno] = match kind {
        Kind::Open => &[Errno::EMFILE, Errno::EACCES, Errno::EIO, Errno::ENOSPC],
        Kind::Read => &[Errno::EIO, Errno::EINTR],
        Kind::Write | Kind::Size => &[Errno::ENOSPC, Errno::EIO, Errno::EINTR],
        Kind::Sync => &[Errno::EIO, Errno::ENOSPC],
        Kind::Rename | Kind::Link | Kind::Make => &[Errno::EIO, Errno::ENOSPC, Errno::EACCES],
        Kind::Remove => &[Errno::EIO, Errno::EACCES],
        Kind::Look => &[Errno::EIO, Errno::EACCES],
        Kind::List => &[Errno::EIO],
        Kind::Lock => &[Errno::ENOLCK, Errno::EWOULDBLOCK],
    };
    let short = matches!(kind, Kind::Read | Kind::Write).then_some(Fault::Short);
    errors.iter().map(|error| Fault::Error(*error)).chain(short).collect()
}

fn is_all() -> bool {
    std::env::var_os("AMN_FAULTS").is_some_and(|faults| faults == "all")
}

/// The guarantee of a command that fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// The old state or the new one.
    AllOrNothing,
    /// Or finished files, from which the same command resumes.
    Resumes,
    /// Standard output cannot be undone.
    Stream,
}

/// Runs a command with each of its calls failing, after `before`. Returns the number of runs.
fn fails_well(folder: &Folder, before: &[&str], line: &str, promise: Promise) -> usize {
    restore(folder, &State::new());
    before.iter().for_each(|line| drop(folder.amn(line).ok()));
    let old = state(folder);
    let run = |injection| {
        let printed = File::create(folder.path(PRINTED)).unwrap();
        let mut command = folder.command(line);
        command.stdout(printed).stderr(Stdio::null()).env("TMPDIR", folder.root());
        tracer::run(command, injection)
    };
    let Some(baseline) = run(None) else {
        println!("skipped: this system does not let processes be traced");
        return 0;
    };
    assert_eq!(baseline.code, Some(0), "{line}");
    let new = state(folder);
    let printed = fs::read(folder.path(PRINTED)).unwrap();
    assert!(promise == Promise::Stream || new != old, "{line} changes nothing");
    let mut runs = 0;
    for kind in Kind::ALL {
        let calls = baseline.calls.get(&kind).copied().unwrap_or(0);
        let faults = faults(kind);
        for number in 0..calls {
            let is_sampled = |sample: usize| number == sample * calls / SAMPLE + (calls / SAMPLE) / 2;
            if !is_all() && !(0..SAMPLE).any(is_sampled) {
                continue;
            }
            let faults = if is_all() { faults.clone() } else { vec![faults[number % faults.len()]] };
            for fault in faults {
                restore(folder, &old);
                let injection = Injection { kind, number, fault };
                let traced = run(Some(injection)).unwrap();
                runs += 1;
                let what = format!("{line}: {injection:?}");
                assert!(!traced.is_stuck, "{what} does not end");
                let code = traced.code.unwrap_or_else(|| panic!("{what}: killed"));
                let found = state(folder);
                let is_whole = |printed: &[u8]| fs::read(folder.path(PRINTED)).unwrap() == printed;
                if code == 0 {
                    assert!(found == new, "{what}: exit 0, and {}", difference(&found, &new));
                    assert!(promise != Promise::Stream || is_whole(&printed), "{what}: exit 0, and a part printed");
                    continue;
                }
                // Removable files are removed.
                let leftovers = found.keys().filter(|name| name.ends_with(".partial") || name.ends_with(".old"));
                assert!(
                    kind == Kind::Remove || leftovers.clone().count() == 0,
                    "{what}: {:?}",
                    leftovers.collect::<Vec<_>>()
                );
                if found == old || found == new {
                    continue;
                }
                let without = |state: &State| -> State {
                    let is_kept = |name: &String| !name.ends_with(".partial") && !name.ends_with(".old");
                    state.clone().into_iter().filter(|(name, _)| is_kept(name)).collect()
                };
                if kind == Kind::Remove && (without(&found) == new || without(&found) == old) {
                    continue;
                }
                assert!(promise == Promise::Resumes, "{what}: exit {code}, and {}", difference(&found, &old));
                for (name, bytes) in &old {
                    assert!(found.get(name) == Some(bytes), "{what}: exit {code}, and {name} is not as it was");
                }
                folder.amn(line).ok();
                assert!(state(folder) == new, "{what}: after another run, {}", difference(&state(folder), &new));
            }
        }
    }
    runs
}

/// The difference of two states, without their bytes.
fn difference(found: &State, wanted: &State) -> String {
    let mut differences: Vec<_> =
        found.keys().filter(|name| !wanted.contains_key(*name)).map(|name| format!("{name} is there")).collect();
    for (name, bytes) in wanted {
        match found.get(name) {
            None => differences.push(format!("{name} is missing")),
            Some(other) if other != bytes => differences.push(format!("{name} differs")),
            Some(_) => {}
        }
    }
    differences.join(", ")
}

/// A checkpoint directory, a quantised file and a plain one.
fn folder() -> Folder {
    let folder = checkpoint::folder();
    let tensors = checkpoint::shards().concat();
    fs::write(folder.path("model.safetensors"), checkpoint::safetensors(&tensors)).unwrap();
    let matrix = |name: &str, value: f32| checkpoint::Tensor::f32(name, [64, 64], value);
    let plain = ["a", "b", "c", "d"].map(|name| matrix(&format!("{name}.weight"), 0.5));
    fs::write(folder.path("plain.safetensors"), checkpoint::safetensors(&plain)).unwrap();
    folder
}

fn all_fail_well(cases: &[(&[&str], &str, Promise)]) {
    let folder = folder();
    let mut runs = 0;
    for (before, line, promise) in cases {
        runs += fails_well(&folder, before, &format!("{line} --threads 2"), *promise);
    }
    println!("{runs} runs with a fault");
}

#[test]
fn a_file_is_written_or_unchanged() {
    use Promise::AllOrNothing;
    all_fail_well(&[
        (&[], "remember model.safetensors -o out.safetensors", AllOrNothing),
        (
            &["remember model.safetensors --to f32 -o out.safetensors"],
            "remember model.safetensors -o out.safetensors --force",
            AllOrNothing,
        ),
        (&[], "convert plain.safetensors --to npz -o out.npz", AllOrNothing),
        (
            &["convert plain.safetensors --to gguf -o out.gguf"],
            "forget plain.safetensors --to q8_0 -o out.gguf --force",
            AllOrNothing,
        ),
        (&[], "forget plain.safetensors --to nf4 -o out.safetensors", AllOrNothing),
    ]);
}

#[test]
fn a_split_model_is_written_or_unchanged() {
    use Promise::AllOrNothing;
    let split = "convert plain.safetensors --to gguf --split-max-tensors 1 -o out.gguf";
    all_fail_well(&[
        (&[], split, AllOrNothing),
        (&[split], "forget plain.safetensors --to q8_0 --split-max-tensors 1 -o out.gguf --force", AllOrNothing),
    ]);
}

#[test]
fn a_directory_is_written_unchanged_or_resumable() {
    use Promise::Resumes;
    let [new, forget, old, force] = [
        format!("remember {NAME} {SMALL} -o out"),
        format!("forget {NAME} --to nf4 {SMALL} -o out"),
        format!("remember {NAME} --to f32 --shard-size 4KB -o out"),
        format!("remember {NAME} {SMALL} -o out --force"),
    ];
    all_fail_well(&[(&[], &new, Resumes), (&[], &forget, Resumes), (&[&old], &force, Resumes)]);
}

#[test]
fn a_stream_is_complete_or_reported_as_partial() {
    use Promise::Stream;
    all_fail_well(&[
        (&[], "remember model.safetensors -o -", Stream),
        (&[], "convert plain.safetensors --to npz -o -", Stream),
        (&[], "forget plain.safetensors --to nf4 -o -", Stream),
    ]);
}

#[test]
fn a_sidecar_that_cannot_be_read_is_an_error() {
    let folder = folder();
    let line = format!("remember {NAME} -o out");
    let run = |injection| {
        let mut command = folder.command(&line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        tracer::run(command, injection)
    };
    let Some(baseline) = run(None) else { return };
    let whole = state(&folder);
    assert!(whole.contains_key("out/config.json") && whole.contains_key("out/tokenizer.json"));
    for kind in [Kind::Open, Kind::Look, Kind::Read] {
        for number in 0..baseline.calls.get(&kind).copied().unwrap_or(0) {
            let errors: &[_] = if is_all() { &[Errno::EIO, Errno::EACCES, Errno::EMFILE] } else { &[Errno::EACCES] };
            for error in errors {
                restore(&folder, &State::new());
                let injection = Injection { kind, number, fault: Fault::Error(*error) };
                let code = run(Some(injection)).unwrap().code;
                let has_all = state(&folder) == whole;
                assert!(
                    code != Some(0) || has_all,
                    "{injection:?}: exit 0, and {}",
                    difference(&state(&folder), &whole)
                );
            }
        }
    }
}
