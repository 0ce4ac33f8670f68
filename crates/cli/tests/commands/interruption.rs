//! Ctrl-C and SIGTERM during a conversion.
#![cfg(unix)]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::folder::{Folder, Run};

/// More than can be written before the signal arrives, but not more than a typical disk.
const TENSOR_BYTES: u64 = 2 << 30;
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills the process if the test fails first.
struct Guard(Option<Child>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[track_caller]
fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the output has been created: with a temporary name, or as an unnamed open file.
fn has_temporary_file(folder: &Folder, process: u32) -> bool {
    let is_partial = |name: &String| name.starts_with(".huge-bf16.safetensors.") && name.ends_with(".partial");
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut places = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_nameless =
        places.any(|place| place.starts_with(folder.root()) && place.to_string_lossy().ends_with("(deleted)"));
    is_nameless || folder.names().iter().any(is_partial)
}

fn interrupt_with(signal: &str, option: &str) -> Run {
    let folder = Folder::empty();
    folder.add_sparse("huge.safetensors", "U8", &["a", "b"], TENSOR_BYTES);
    let line = format!("remember huge.safetensors --threads 1 {option}");
    let child = folder.command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut guard = Guard(Some(child));
    let child = guard.0.as_mut().unwrap();
    let id = child.id();
    wait_for("the temporary file", || has_temporary_file(&folder, id));
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    wait_for("the process to end", || child.try_wait().unwrap().is_some());
    let run = Run::of(guard.0.take().unwrap().wait_with_output().unwrap());
    assert_eq!(folder.names(), ["huge.safetensors"], "{run:?}");
    run
}

#[test]
fn ctrl_c_exits_with_130_and_leaves_nothing_behind() {
    let run = interrupt_with("-INT", "");
    assert_eq!((run.code, run.stderr.as_str()), (Some(130), "error: interrupted, nothing was written\n"), "{run:?}");
}

#[test]
fn sigterm_is_handled_like_ctrl_c() {
    let run = interrupt_with("-TERM", "--json");
    assert_eq!((run.code, run.stdout.as_str()), (Some(143), ""), "{run:?}");
    assert!(run.stderr.contains("\"kind\":\"cancelled\""), "{run:?}");
}
