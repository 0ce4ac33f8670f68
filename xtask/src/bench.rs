//! `cargo xtask bench`: compares this library with others, and writes `docs/performance.md`.
//!
//! `GGML=libggml.so` adds ggml's C code, `PYTHON=python` the installed Python libraries. No test depends on the
//! results.

use std::path::Path;
use std::process::Command;

const DOCUMENT: &str = "docs/performance.md";

const HEAD: &str = "\
# Performance

Written by `cargo xtask bench`, which measures this library beside the published crate of the same name, ggml's C, the `safetensors`
crate, memcpy and, where they are installed, the libraries of Python. Everything runs in a plain release build, in turn, and the
median counts; numbers of another machine will differ, ratios less so.
";

pub(crate) fn run() -> Result<(), String> {
    crate::cargo(&["build", "--release", "--package", "anamnesis-cli"])?;
    crate::cargo(&["build", "--release", "--manifest-path", "bench/Cargo.toml"])?;
    let bench = || Command::new("bench/target/release/anamnesis-bench");
    let mut report = format!("{HEAD}\n{}", output(bench().arg("weights").args(std::env::var_os("GGML")))?);
    report += &output(bench().arg("headers"))?;
    report += &output(bench().args(["files", "target/release/amn"]))?;
    if let Some(python) = std::env::var_os("PYTHON") {
        report += &output(Command::new(python).arg("bench/libraries.py"))?;
    }
    let path = Path::new(DOCUMENT);
    std::fs::write(path, report.trim_end().to_owned() + "\n")
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{DOCUMENT} is written");
    Ok(())
}

/// The standard output of a program; its standard error is passed through.
fn output(command: &mut Command) -> Result<String, String> {
    println!("$ {command:?}");
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(std::process::Stdio::inherit()).output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed"));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{name}: {error}"))
}
