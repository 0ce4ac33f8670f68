//! Other platforms: AArch64 and big-endian s390x by QEMU, Windows by Wine, WebAssembly by wasmtime, and 32-bit x86, which
//! the machine itself runs.
//!
//! The tests of the library are compiled for each machine and run there. So is the command line, on which its own tests
//! are run, and if there is one, a corpus of models with expected values. Tools, builds and scripts are under one folder:
//!
//! | variable | meaning |
//! |---|---|
//! | `PLATFORMS` | the folder; `target/platforms` by default |
//! | `CHECK`, `CORPUS` | a Python script that is run with `--amn PROGRAM --corpus FOLDER`, by `$PYTHON` |

mod machine;
mod wasm;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::asm;
use crate::python::execute;
use machine::{Machine, aarch64, i686, s390x, windows};

/// The names of all platforms, in the order in which they are tested.
const NAMES: [&str; 6] = ["asm", "wasm32", "i686", "aarch64", "s390x", "windows"];

/// The target of the assembly check.
const ASM_TARGET: &str = "aarch64-unknown-linux-gnu";

/// Tests the named platforms, or all.
pub(crate) fn run(names: &[String]) -> Result<(), String> {
    if let Some(unknown) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("{unknown:?} is not a platform: {}", NAMES.join(", ")));
    }
    let folder = Folder::new()?;
    let mut faults = Vec::new();
    for name in NAMES.into_iter().filter(|name| names.is_empty() || names.iter().any(|other| other == name)) {
        println!("== {name}");
        let outcome = match name {
            "asm" => add_target(ASM_TARGET).and_then(|()| asm::run_for_aarch64(ASM_TARGET)),
            "wasm32" => wasm::run(&folder),
            "i686" => test(&i686(), &folder),
            "aarch64" => test(&aarch64(), &folder),
            "s390x" => test(&s390x(), &folder),
            _ => test(&windows(&folder), &folder),
        };
        faults.extend(outcome.err().map(|fault| format!("{name}: {fault}")));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// The folder of tools and builds.
struct Folder {
    root: PathBuf,
    /// That of the workspace.
    project: PathBuf,
}

impl Folder {
    fn new() -> Result<Self, String> {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let root = std::env::var_os("PLATFORMS").map_or_else(|| project.join("target/platforms"), PathBuf::from);
        let absolute = |path: &Path| {
            std::fs::create_dir_all(path).and_then(|()| path.canonicalize()).map_err(|error| failed(path, &error))
        };
        Ok(Self { root: absolute(&root)?, project: absolute(&project)? })
    }

    /// The folder of builds, for all targets.
    fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Writes a script and returns its path.
    fn script(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.root.join(name);
        std::fs::write(&path, text).map_err(|error| failed(&path, &error))?;
        execute(Command::new("chmod").arg("+x").arg(&path))?;
        Ok(path)
    }
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Adds the standard library of a target.
fn add_target(target: &str) -> Result<(), String> {
    execute(Command::new("rustup").args(["target", "add", target]))
}

/// Installs the packages of tools that are missing, where this is a Debian system and we may.
fn install(tools: &[(&str, &str)]) -> Result<(), String> {
    let missing: Vec<_> =
        tools.iter().filter(|(path, _)| !Path::new(path).exists()).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let needed = format!("these packages of Debian are needed: {}", missing.join(" "));
    let update = Command::new("apt-get").args(["update", "-qq"]).status();
    if !update.is_ok_and(|status| status.success()) {
        return Err(needed);
    }
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["install", "-y", "-qq", "--no-install-recommends"]);
    execute(apt.args(&missing)).map_err(|error| format!("{error}; {needed}"))
}

/// Builds for a machine and runs everything there.
fn test(machine: &Machine, folder: &Folder) -> Result<(), String> {
    install(machine.tools)?;
    add_target(machine.target)?;
    machine.prepare(folder)?;
    let program = machine.build(folder)?;
    execute(Command::new(&program).arg("--version"))?;
    let faults = [machine.test_library(folder), machine.test_command_line(folder, &program), check_corpus(&program)];
    let faults: Vec<_> = faults.into_iter().filter_map(Result::err).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Runs the check of a corpus, if there is one.
fn check_corpus(program: &Path) -> Result<(), String> {
    let (Some(check), Some(corpus)) = (std::env::var_os("CHECK"), std::env::var_os("CORPUS")) else { return Ok(()) };
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    execute(Command::new(python).arg(check).arg("--amn").arg(program).arg("--corpus").arg(corpus))
}
