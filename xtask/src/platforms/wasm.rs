//! WebAssembly without an operating system: the library decodes the fixtures from memory.

use std::path::Path;
use std::process::Command;

use super::{Folder, add_target};
use crate::python::{Venv, execute, interpreter};

const TARGET: &str = "wasm32-unknown-unknown";

/// The runtime, a package of the registry.
const RUNTIME: &str = "wasmtime";

/// Sets of features that the library is compiled with.
const FEATURES: [&[&str]; 4] = [
    &[],
    &["--no-default-features"],
    &["--no-default-features", "--features", "containers"],
    &["--no-default-features", "--features", "convert"],
];

/// Compiles the library with several features, and runs it as a module.
pub(super) fn run(folder: &Folder) -> Result<(), String> {
    add_target(TARGET)?;
    for features in FEATURES {
        let mut check = cargo(folder, &folder.project);
        execute(check.args(["check", "-p", "anamnesis", "--lib", "--target", TARGET]).args(features))?;
    }
    let source = folder.project.join("xtask/platforms");
    let mut build = cargo(folder, &source.join("wasm"));
    execute(build.args(["build", "--release", "--target", TARGET]))?;
    let python = interpreter().ok_or("no suitable Python was found, which runs the module")?;
    let venv = Venv::new(&python, &folder.root, "wasm")?;
    venv.pip(&["install", "-q"], &[RUNTIME])?;
    let module = folder.target().join(TARGET).join("release/anamnesis_wasm.wasm");
    let fixtures = folder.project.join("crates/anamnesis/tests/fixtures");
    execute(Command::new(venv.program("python")).arg(source.join("wasm.py")).arg(module).arg(fixtures))
}

fn cargo(folder: &Folder, directory: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(directory).env("CARGO_TARGET_DIR", folder.target());
    command
}
