//! Compiles the library with each of its features alone and the command line without its own, and counts the crates of
//! the smallest build.

use std::process::Command;

use crate::cargo;

/// The features that leave out a room of the library, and those that add an interface.
const FEATURES: [&str; 7] = ["containers", "convert", "encode", "architectures", "compat", "half", "ndarray"];

/// The most crates that the smallest build may need, itself included.
const MOST_CRATES: usize = 15;

/// Checks every feature alone, and none, and the command line without a network.
pub(crate) fn run() -> Result<(), String> {
    count_crates()?;
    for feature in [""].into_iter().chain(FEATURES) {
        let only = ["check", "--package", "anamnesis", "--lib", "--no-default-features", "--features", feature];
        cargo(&only)?;
    }
    cargo(&["clippy", "--package", "anamnesis-cli", "--no-default-features", "--", "--deny", "warnings"])
}

fn count_crates() -> Result<(), String> {
    let tree = ["tree", "--package", "anamnesis", "--no-default-features", "--edges", "normal", "--prefix", "none"];
    let output = Command::new("cargo").args(tree).output().map_err(|error| format!("cargo tree: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut crates: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    crates.sort_unstable();
    crates.dedup();
    println!("the library without features needs {} crates", crates.len());
    if !output.status.success() || crates.is_empty() || crates.len() > MOST_CRATES {
        return Err(format!("{MOST_CRATES} crates are allowed, not {}: {}", crates.len(), crates.join(" ")));
    }
    Ok(())
}
