//! Builds `amn` twice, in folders with different names and with different target folders, and compares the binaries.
//!
//! The compiler writes the paths of sources into a binary, for the messages of panics. They are replaced by fixed ones,
//! with flags that everyone can use who wants the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of the two builds, whose names have different lengths.
const FOLDERS: [&str; 2] = ["target/reproducible/one", "target/reproducible/another folder"];

/// Builds both in the profile of `--profile`, `release` by default.
pub(crate) fn run() -> Result<(), String> {
    let profile = match &std::env::args().skip(2).collect::<Vec<_>>()[..] {
        [] => "release".to_owned(),
        [option, profile] if option == "--profile" => profile.clone(),
        _ => return Err("usage: cargo xtask reproducible [--profile NAME]".to_owned()),
    };
    // Both at once, so that a change of the sources between the builds is not compared.
    for folder in FOLDERS {
        copy_sources(Path::new(folder))?;
    }
    let mut binaries = Vec::new();
    for folder in FOLDERS {
        let binary = build(Path::new(folder), &profile)?;
        binaries.push(fs::read(&binary).map_err(|error| format!("{}: {error}", binary.display()))?);
        // The two folders take gigabytes together.
        fs::remove_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
    }
    let [first, second] = &binaries[..] else { return Err("there are not two binaries".to_owned()) };
    match first.iter().zip(second).position(|(first, second)| first != second) {
        None if first.len() == second.len() => {
            println!("two builds gave the same {} bytes", first.len());
            Ok(())
        }
        None => Err(format!("the binaries have {} and {} bytes", first.len(), second.len())),
        Some(at) => {
            let near = |bytes: &[u8]| {
                String::from_utf8_lossy(&bytes[at.saturating_sub(64)..bytes.len().min(at + 64)]).into_owned()
            };
            Err(format!("the binaries differ at byte {at}: {:?} and {:?}", near(first), near(second)))
        }
    }
}

/// Copies the committed and changed files into a folder.
fn copy_sources(folder: &Path) -> Result<(), String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).output().map_err(|error| format!("git: {error}"))?;
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| is_source(name)) {
        let (from, to) = (Path::new(name), folder.join(name));
        if !from.is_file() {
            continue;
        }
        let parent = to.parent().unwrap_or(folder);
        let copied = fs::create_dir_all(parent).and_then(|()| fs::copy(from, &to));
        copied.map_err(|error| format!("{}: {error}", to.display()))?;
    }
    Ok(())
}

/// Builds in a folder and returns the path of the binary.
fn build(folder: &Path, profile: &str) -> Result<PathBuf, String> {
    let absolute = fs::canonicalize(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let home = home.map_err(|error| format!("CARGO_HOME: {error}"))?;
    // Separated by the character that CARGO_ENCODED_RUSTFLAGS uses, since paths may contain spaces.
    let flags = [(absolute.to_string_lossy().into_owned(), "/anamnesis"), (home, "/cargo")]
        .map(|(path, name)| format!("--remap-path-prefix={path}={name}"))
        .join("\x1f");
    println!("$ cargo build --profile {profile} in {}", folder.display());
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = absolute.join("built");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--package", "anamnesis-cli", "--bin", "amn", "--profile", profile]);
    command.current_dir(&absolute).env("CARGO_ENCODED_RUSTFLAGS", flags).env("CARGO_TARGET_DIR", &target);
    match command.status() {
        Ok(status) if status.success() => Ok(target.join(if profile == "dev" { "debug" } else { profile }).join("amn")),
        Ok(_) => Err("cargo build failed".to_owned()),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// Whether a file is needed to build, and not only to test.
fn is_source(name: &str) -> bool {
    !name.is_empty() && !name.contains("/tests/fixtures/") && !name.starts_with("docs/")
}
