//! Tasks of this workspace: `cargo xtask test` runs all checks, `cargo xtask asm` checks the instructions of the
//! kernels, `cargo xtask features` compiles the features one by one, `cargo xtask ggml-types` compares the types with
//! those of ggml, `cargo xtask python` builds and tests the Python package, `cargo xtask remote` tests remote models with
//! the servers and clients of others, `cargo xtask platforms` on emulated machines, `cargo xtask bench` measures.

mod api;
mod asm;
mod bench;
mod faults;
mod features;
mod frameworks;
mod fuzz;
mod ggml_types;
mod load;
mod miri;
mod platforms;
mod publish;
mod python;
mod remote;
mod reproducible;
mod sbom;
mod unsafe_blocks;

use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask TASK

  test         formatting, clippy with warnings denied, all tests and doc tests, each feature alone, the Python
               package, the assembly check
  fmt          format all files, including those that cargo fmt does not find
  asm          check that every kernel uses the vector instructions of its CPU level
  faults       make every system call of every writing command fail, and kill each at random moments (--rounds N)
  features     compile the library with each of its features alone
  fuzz         run all fuzz targets (--minutes N; names select some), which needs a nightly compiler
  frameworks   build and test the crates for candle and burn
  load         10,000 good and damaged files through one process and through many (--files N)
  miri         interpret the bodies of the fuzz targets with Miri (--seconds N each; names select some), which needs a
               nightly compiler with Miri
  platforms    build for AArch64, s390x, 32-bit x86, Windows and WebAssembly, and test there (docs/platforms.md)
  publish      check packages, documentation, the public interface and licences (AMN_UPDATE=1 records the interface)
  bench        compare with other libraries, and write docs/performance.md (GGML=... and PYTHON=... add more)
  python       build the wheel and test it in a virtual environment (PYTHON=... selects the interpreter)
  remote       test remote models with nginx, huggingface_hub, moto and Azurite
  reproducible build amn twice in different folders and compare the bytes (--profile NAME)
  sbom         write the bill of materials of amn (CycloneDX) to target/amn.cdx.json
  unsafe       write the table of all unsafe blocks and their reasons, docs/unsafe.md
  ggml-types   compare the GGUF tensor types with those of the gguf package (PYTHON=... has it installed)";

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let outcome = match task.as_deref() {
        Some("test") => test(),
        Some("fmt") => fmt(&[]),
        Some("asm") => asm::run(),
        Some("bench") => bench::run(),
        Some("faults") => faults::run(),
        Some("features") => features::run(),
        Some("frameworks") => frameworks::run(),
        Some("fuzz") => fuzz::run(),
        Some("ggml-types") => ggml_types::run(),
        Some("load") => load::run(),
        Some("miri") => miri::run(),
        Some("platforms") => platforms::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("publish") => publish::run(),
        Some("python") => python::run(python::Build::Published),
        Some("remote") => remote::run(),
        Some("reproducible") => reproducible::run(),
        Some("sbom") => sbom::run(),
        Some("unsafe") => unsafe_blocks::run(),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> Result<(), String> {
    fmt(&["--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])?;
    cargo(&["test", "--workspace"])?;
    features::run()?;
    python::run(python::Build::Debug)?;
    asm::run()?;
    frameworks::run()
}

/// The folders whose modules a macro declares: rustfmt does not find them by itself.
const LISTED: [&str; 2] = ["crates/anamnesis/src/architecture/models", "crates/anamnesis/src/architecture/projectors"];

/// Formats the workspace, and the modules that a macro declares.
fn fmt(options: &[&str]) -> Result<(), String> {
    let mut paths = Vec::new();
    for folder in LISTED {
        let entries = std::fs::read_dir(folder).map_err(|error| format!("{folder}: {error}"))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        paths.extend(names.map(|name| format!("{folder}/{name}")));
    }
    let arguments = ["fmt", "--all", "--"].into_iter().chain(options.iter().copied());
    cargo(&arguments.chain(paths.iter().map(String::as_str)).collect::<Vec<_>>())
}

/// Runs cargo in the workspace and prints the command.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    println!("$ cargo {}", arguments.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" "))) }
}
