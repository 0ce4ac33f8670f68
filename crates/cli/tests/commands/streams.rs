//! Standard streams, and failures to write to them.

use std::fs::{self, File};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::checkpoint::{self, Tensor};
use crate::folder::{Folder, MODEL, Run};

#[test]
fn quiet_prints_nothing_but_errors() {
    let folder = Folder::with_model();
    for line in
        ["parse model-fp8.safetensors -q", "inspect -q model-fp8.safetensors", "--quiet remember model-fp8.safetensors"]
    {
        assert_eq!(folder.amn(line).ok(), "", "{line}");
    }
    let error = folder.amn("-q remember model-fp8.safetensors").failed();
    assert!(error.contains("exists already"), "{error}");
}

#[test]
fn no_progress_bar_is_drawn_without_a_terminal() {
    let folder = Folder::empty();
    folder.add_sparse("plain.safetensors", "U8", &["a", "b"], 4 << 20);
    folder.amn("remember plain.safetensors").ok();
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let folder = Folder::with_model();
    for line in [
        "--help",
        "parse -l model-fp8.safetensors",
        "inspect model-fp8.safetensors --json",
        "remember model-fp8.safetensors",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = Run::of(folder.command(line).stdout(writer).output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{line}: {run:?}");
    }
    assert_eq!(folder.names(), ["config.json", "model-bf16.safetensors", MODEL]);
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_cannot_be_printed_are_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let folder = Folder::with_model();
    let run = folder.command("inspect model-fp8.safetensors").stdout(full).stderr(Stdio::piped()).output().unwrap();
    let error = Run::of(run).failed();
    assert!(error.contains("standard output: "), "{error}");
}

const PATIENCE: Duration = Duration::from_secs(120);

/// Kills the process if the test fails first.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guard {
    /// Waits for the process to exit.
    #[track_caller]
    fn code(&mut self, what: &str) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < PATIENCE, "{what} does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Weights of several tiles each, and their scales.
fn with_many_tiles() -> Folder {
    let folder = Folder::empty();
    let layers = 0..3;
    let weight = |layer: usize| Tensor::fp8(&format!("layers.{layer}.weight"), [320, 1024], layer);
    let scale = |layer: usize| Tensor::f32(&format!("layers.{layer}.weight_scale_inv"), [3, 8], 0.25 + layer as f32);
    let tensors: Vec<_> = layers.clone().map(weight).chain(layers.map(scale)).collect();
    fs::write(folder.path("many.safetensors"), checkpoint::safetensors(&tensors)).unwrap();
    folder
}

#[test]
fn streams_of_many_tiles_in_and_out_of_pipes_are_those_of_files() {
    let folder = with_many_tiles();
    for (number, line) in [
        "remember {} --to bf16",
        "remember {} --to f32",
        "convert {} --to safetensors",
        "convert {} --to gguf",
        "convert {} --to npz",
        "forget {} --to q8_0",
        "forget {} --to q4_k_m",
        "forget {} --to bnb-nf4",
        "forget {} --to fp8-channel",
    ]
    .iter()
    .enumerate()
    {
        let output = format!("out-{number}");
        let ending = if line.contains("gguf") || line.contains("--to q") { "gguf" } else { "safetensors" };
        let ending = if line.contains("npz") { "npz" } else { ending };
        let file = format!("{output}.{ending}");
        folder.amn(&format!("{} -o {file}", line.replace("{}", "many.safetensors"))).ok();
        let wanted = fs::read(folder.path(&file)).unwrap();
        for (threads, input) in [(2, "many.safetensors"), (5, "-"), (16, "many.safetensors")] {
            let line = format!("{} -o - --threads {threads}", line.replace("{}", input));
            let mut command = folder.command(&line);
            command.stdin(File::open(folder.path("many.safetensors")).unwrap());
            let mut child = Guard(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
            let mut stdout = child.0.stdout.take().unwrap();
            let reader = std::thread::spawn(move || {
                let mut bytes = Vec::new();
                stdout.read_to_end(&mut bytes).map(|_| bytes)
            });
            assert_eq!(child.code(&line), Some(0), "{line}");
            assert!(reader.join().unwrap().unwrap() == wanted, "{line}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_blocked_stream() {
    let folder = with_many_tiles();
    for (signal, code) in [("-TERM", 143), ("-INT", 130), ("-HUP", 129)] {
        for line in ["remember many.safetensors --to f32 -o - --threads 4", "remember - -o out.safetensors"] {
            let mut command = folder.command(line);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = Guard(command.spawn().unwrap());
            // Long enough to fill the pipe, or to block on the other process.
            std::thread::sleep(Duration::from_millis(700));
            assert!(child.0.try_wait().unwrap().is_none(), "{line} has ended though nobody reads");
            let sent = Command::new("kill").args([signal, &child.0.id().to_string()]).status().unwrap();
            assert!(sent.success());
            assert_eq!(child.code(line), Some(code), "{line}");
        }
    }
    assert_eq!(folder.names(), ["many.safetensors"]);
}

#[test]
fn a_reader_that_disappears_ends_a_stream() {
    let folder = with_many_tiles();
    for threads in [1, 4, 16] {
        let line = format!("remember many.safetensors --to f32 -o - --threads {threads}");
        let mut child = Guard(folder.command(&line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut stdout = child.0.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 100_000]).unwrap();
        drop(stdout);
        assert_eq!(child.code(&line), Some(1), "{line}");
    }
}
