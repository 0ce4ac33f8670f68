//! Directory conversions that are killed or interrupted at any moment.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::checkpoint::{self, NAME, Tensor, assert_same_files, shard_name};
use crate::folder::{Folder, Run};

/// Weights of 4 MiB that take 8 MiB decoded.
const LARGE_WEIGHTS: usize = 24;
const KILLS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(120);
const OPTIONS: &str = "--shard-size 9MB --threads 2";

fn large() -> Folder {
    let folder = Folder::empty();
    let weight = |layer: usize| Tensor::fp8(&format!("layers.{layer}.weight"), [2048, 2048], layer);
    let scale = |layer: usize| Tensor::f32(&format!("layers.{layer}.weight_scale_inv"), [16, 16], 0.25 + layer as f32);
    let shards = [(0..LARGE_WEIGHTS).map(weight).collect(), (0..LARGE_WEIGHTS).map(scale).collect::<Vec<_>>()];
    checkpoint::write(&folder.path(NAME), &shards);
    folder
}

/// Kills the process if the test fails first.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// Kills the command a little after `events` new names have appeared in its output. Returns whether it was still
/// running.
fn kill_after(folder: &Folder, line: &str, output: &Path, events: usize, later: Duration) -> bool {
    let mut seen = names(output);
    let child = folder.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut guard = Guard(child);
    let (begin, mut left) = (Instant::now(), events);
    while left > 0 || !output.join(".anamnesis.json").is_file() {
        if guard.0.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(begin.elapsed() < PATIENCE, "nothing happens");
        let now = names(output);
        left = left.saturating_sub(now.difference(&seen).count());
        seen.extend(now);
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(later);
    guard.0.kill().unwrap();
    guard.0.wait().unwrap().code().is_none()
}

/// Pseudo-random numbers, the same in every run.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 33) as usize
}

#[test]
fn a_killed_conversion_goes_on_to_the_same_bytes() {
    let folder = large();
    folder.amn(&format!("remember {NAME} {OPTIONS} -o whole")).ok();
    let whole = checkpoint::files(&folder.path("whole"));
    let output = folder.path("out");
    let line = format!("remember {NAME} {OPTIONS} -o out");
    // A partially written file would differ: no value of the model is zero.
    let (mut kills, mut runs, mut unfinished, mut state) = (0, 0, 0, 7);
    while kills < KILLS {
        let (events, later) = (1 + next(&mut state) % 4, Duration::from_millis((next(&mut state) % 25) as u64));
        kills += usize::from(kill_after(&folder, &line, &output, events, later));
        runs += 1;
        assert!(runs < 10 * KILLS, "the conversion is too fast to be killed");
        let found = checkpoint::files(&output);
        for (name, bytes) in &found {
            let is_partial = name.starts_with('.') && name.ends_with(".partial");
            let is_manifest = name == ".anamnesis.json";
            assert!(
                is_partial || is_manifest || whole.get(name) == Some(bytes),
                "{name} has its name and is not complete"
            );
            unfinished += usize::from(is_manifest);
        }
        if !found.contains_key(".anamnesis.json") && kills < KILLS {
            fs::remove_dir_all(&output).unwrap();
        }
    }
    assert!(unfinished > 0, "no kill fell into the writing of the directory");
    let has_shards = names(&output).iter().any(|name| name.starts_with("model-") && name.ends_with(".safetensors"));
    let text = folder.amn(&line).ok();
    assert_eq!(text.contains("kept from an earlier run"), has_shards, "{text}");
    assert_same_files(&output, &folder.path("whole"));
    assert!(folder.amn("verify out").ok().ends_with("sound\n"));
}

#[test]
fn ctrl_c_exits_with_130_and_keeps_finished_shards() {
    let folder = large();
    let output = folder.path("out");
    let line = format!("remember {NAME} {OPTIONS} -o out");
    let child = folder.command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = child.id().to_string();
    let begin = Instant::now();
    while !output.join(shard_name(2, LARGE_WEIGHTS)).is_file() {
        assert!(begin.elapsed() < PATIENCE, "nothing happens");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let run = Run::of(child.wait_with_output().unwrap());
    assert_eq!(run.code, Some(130), "{run:?}");
    assert_eq!(run.stderr, "error: interrupted, finished files stay in out; the same command resumes\n");
    assert!(names(&output).iter().all(|name| !name.ends_with(".partial")));
    let text = folder.amn(&line).ok();
    assert!(text.contains("kept from an earlier run"), "{text}");
    assert!(folder.amn("verify out").ok().ends_with("sound\n"));
}

/// For systems with unnamed files; elsewhere the next run removes leftovers.
#[test]
fn a_killed_conversion_of_a_file_leaves_no_permanent_temporary_file() {
    let folder = Folder::empty();
    folder.add_sparse("huge.safetensors", "U8", &["a", "b"], 2 << 30);
    let line = "remember huge.safetensors --threads 1 -o out.safetensors";
    let child = folder.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut guard = Guard(child);
    std::thread::sleep(Duration::from_millis(300));
    assert!(guard.0.try_wait().unwrap().is_none(), "too fast to be killed");
    guard.0.kill().unwrap();
    guard.0.wait().unwrap();
    if cfg!(target_os = "linux") {
        assert_eq!(folder.names(), ["huge.safetensors"]);
    }
    fs::remove_file(folder.path("huge.safetensors")).unwrap();
    folder.add_sparse("huge.safetensors", "U8", &["a", "b"], 1 << 10);
    folder.amn(line).ok();
    assert_eq!(folder.names(), ["huge.safetensors", "out.safetensors"]);
}
