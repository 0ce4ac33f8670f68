//! Checks that the crates can be published: their packages, documentation, interface, and the licences of their
//! dependencies.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::frameworks::MANIFESTS;
use crate::python::execute;
use crate::{api, cargo};

/// The crates that are published, in the order in which they are.
const PUBLISHED: [&str; 4] = ["anamnesis-kernels", "anamnesis", "anamnesis-remote", "anamnesis-cli"];

/// The target folder of the packages.
const FOLDER: &str = "target/packages";

/// The most bytes of a package, compressed.
const MOST_BYTES: u64 = 10 << 20;

/// Checks all of it. `cargo clippy` checks the MSRV: `rust-version` makes it refuse newer functions.
pub(crate) fn run() -> Result<(), String> {
    check_licences()?;
    check_dependencies()?;
    let mut doc = vec!["doc", "--no-deps"];
    doc.extend(PUBLISHED.iter().flat_map(|name| ["--package", name]));
    doc.extend(["--config", "build.rustdocflags=[\"--deny\", \"warnings\"]"]);
    api::forget();
    cargo(&doc)?;
    api::check()?;
    package()
}

/// Packages every crate. Those of the workspace are built from their packages, each with the packages of the others.
fn package() -> Result<(), String> {
    forget_packages();
    let mut package = vec!["package", "--allow-dirty", "--quiet", "--target-dir", FOLDER];
    package.extend(PUBLISHED.iter().flat_map(|name| ["--package", name]));
    cargo(&package)?;
    for manifest in MANIFESTS {
        // Built by `cargo xtask frameworks`: their own workspaces do not have the packages of the library.
        let into = ["--manifest-path", manifest, "--target-dir", FOLDER];
        cargo(&[&["package", "--no-verify", "--exclude-lockfile", "--allow-dirty", "--quiet"][..], &into].concat())?;
    }
    run_examples()?;
    let folder = format!("{FOLDER}/package");
    for entry in std::fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?.flatten() {
        let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
        if entry.path().extension().is_some_and(|extension| extension == "crate") && bytes > MOST_BYTES {
            return Err(format!("{} has {bytes} bytes", entry.path().display()));
        }
    }
    Ok(())
}

/// Runs the examples of the crates for frameworks from their packages, with those of the library.
fn run_examples() -> Result<(), String> {
    let unpacked = format!("{FOLDER}/unpacked");
    std::fs::create_dir_all(&unpacked).map_err(|error| format!("{unpacked}: {error}"))?;
    let unpack = |name: &str| -> Result<String, String> {
        let package = package_of(name)?;
        execute(Command::new("tar").args(["xzf", &format!("{FOLDER}/package/{package}.crate"), "-C", &unpacked]))?;
        Ok(package)
    };
    let library = PUBLISHED[..2].iter().map(|name| Ok((name, unpack(name)?))).collect::<Result<Vec<_>, String>>()?;
    for manifest in MANIFESTS {
        let folder = Path::new(manifest).parent().unwrap_or(Path::new("."));
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let package = format!("{unpacked}/{}", unpack(&format!("anamnesis-{name}"))?);
        let path = format!("{package}/Cargo.toml");
        let mut text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        text += "\n[workspace]\n\n[patch.crates-io]\n";
        for (name, folder) in &library {
            text += &format!("{name} = {{ path = \"../{folder}\" }}\n");
        }
        std::fs::write(&path, text).map_err(|error| format!("{path}: {error}"))?;
        let lock = format!("{package}/Cargo.lock");
        std::fs::copy(folder.join("Cargo.lock"), &lock).map_err(|error| format!("{lock}: {error}"))?;
        cargo(&["run", "--manifest-path", &path, "--target-dir", "target/frameworks", "--example", "llama"])?;
    }
    Ok(())
}

/// The name of the package of a crate, with its version.
fn package_of(name: &str) -> Result<String, String> {
    let entries = std::fs::read_dir(format!("{FOLDER}/package")).map_err(|error| format!("{FOLDER}: {error}"))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut packages = names.filter_map(|file| Some(file.strip_suffix(".crate")?.to_owned()));
    let is_of = |package: &String| {
        let version = package.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    };
    packages.find(is_of).ok_or_else(|| format!("{name} has no package"))
}

/// Removes the packages of an earlier run, unpacked and built: cargo recognises them by their version alone, and would
/// take the old ones. The name of its registry for them begins with a hyphen, for it has no host.
fn forget_packages() {
    let _ = std::fs::remove_dir_all(FOLDER);
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let Ok(home) = home else { return };
    let files = |folder: String| std::fs::read_dir(folder).into_iter().flatten().flatten();
    for registry in files(format!("{home}/registry/src")) {
        if registry.file_name().to_string_lossy().starts_with('-') {
            let _ = std::fs::remove_dir_all(registry.path());
        }
    }
}

/// Runs `cargo deny` if it is installed: advisories, duplicates and sources of the dependencies too.
fn check_dependencies() -> Result<(), String> {
    let mut version = Command::new("cargo");
    version.args(["deny", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if version.status().is_ok_and(|status| status.success()) {
        return cargo(&["deny", "check"]);
    }
    println!("cargo-deny is not installed: of the dependencies, only the licences are checked");
    Ok(())
}

/// The licences that a dependency may have, one of several alternatives is enough: the list of `deny.toml`.
fn allowed_licences() -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string("deny.toml").map_err(|error| format!("deny.toml: {error}"))?;
    let list = text.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.ok_or("deny.toml has no list of licences")?;
    let names = list.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next());
    Ok(names.map(str::to_owned).collect())
}

/// Refuses a dependency without one of the allowed licences.
fn check_licences() -> Result<(), String> {
    let allowed = allowed_licences()?;
    let tree = ["tree", "--workspace", "--edges", "normal,build", "--prefix", "none", "--format", "{l}\t{p}"];
    let output = Command::new("cargo").args(tree).output().map_err(|error| format!("cargo tree: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let is_allowed = |licences: &str| {
        let alternatives = licences.split(" OR ").flat_map(|part| part.split('/'));
        alternatives.map(|part| part.trim_matches(['(', ')', ' '])).any(|part| {
            part.split(" AND ").all(|one| allowed.iter().any(|known| known == one.trim_matches(['(', ')', ' '])))
        })
    };
    let mut refused: Vec<&str> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.contains("xtask"))
        .filter(|line| line.split_once('\t').is_none_or(|(licences, _)| !is_allowed(licences)))
        .collect();
    refused.dedup();
    match refused.as_slice() {
        [] if output.status.success() && !text.is_empty() => Ok(()),
        refused => Err(format!("dependencies without an allowed licence: {}", refused.join("; "))),
    }
}
