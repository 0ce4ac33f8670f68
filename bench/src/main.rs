//! Measures anamnesis beside the published crate, ggml's C, `safetensors` and memcpy, and prints a report in Markdown.
//!
//! `anamnesis-bench AMN [GGML]`: AMN is the command line to time, GGML a shared library of ggml where there is one.
//! Times are medians of runs taken in turn, so that a noisy neighbour meets everybody.

mod clock;
mod files;
mod ggml;
mod headers;
mod slices;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(amn) = arguments.next() else {
        eprintln!("usage: anamnesis-bench AMN [GGML]");
        return ExitCode::from(2);
    };
    let ggml = arguments.next().map(|path| ggml::Library::open(&path));
    match report(&amn, ggml.transpose()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn report(amn: &std::path::Path, ggml: Result<Option<ggml::Library>, String>) -> Result<(), String> {
    let ggml = ggml?;
    println!("Machine: {}.\n", machine());
    slices::report(ggml.as_ref())?;
    headers::report().map_err(|error| error.to_string())?;
    files::report(amn).map_err(|error| error.to_string())
}

/// The processor's name and how many of it there are.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} threads, {}", name.unwrap_or("unknown processor").trim(), std::env::consts::OS)
}
