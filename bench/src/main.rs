//! Measures anamnesis beside the published crate, ggml's C, `safetensors` and memcpy, and prints a report in Markdown.
//!
//! `anamnesis-bench weights [GGML]` decodes in memory, GGML is a shared library of ggml where there is one;
//! `anamnesis-bench headers` reads a long header; `anamnesis-bench files AMN` times this command line on a checkpoint.
//! Times are medians of runs taken in turn, so that a noisy neighbour meets everybody.

mod clock;
mod files;
mod ggml;
mod headers;
mod memory;
mod slices;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static MEMORY: memory::Memory = memory::Memory::new();

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (topic, path) = (arguments.next(), arguments.next());
    let outcome = match (topic.as_deref().and_then(Path::to_str), path) {
        (Some("weights"), path) => weights(path.as_deref()),
        (Some("headers"), None) => headers::report().map_err(|error| error.to_string()),
        (Some("files"), Some(amn)) => files::report(&amn).map_err(|error| error.to_string()),
        _ => Err("usage: anamnesis-bench weights [GGML] | headers | files AMN".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn weights(ggml: Option<&Path>) -> Result<(), String> {
    let ggml = ggml.map(ggml::Library::open).transpose()?;
    println!("Machine: {}.\n", machine());
    slices::report(ggml.as_ref())
}

/// The processor's name and how many of it there are.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} threads, {}", name.unwrap_or("unknown processor").trim(), std::env::consts::OS)
}
