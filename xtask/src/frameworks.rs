//! Builds and tests the crates for other frameworks, which are workspaces of their own.

use crate::cargo;

const MANIFESTS: [&str; 2] = ["crates/candle/Cargo.toml", "crates/burn/Cargo.toml"];

/// Lints and tests each of them.
pub(crate) fn run() -> Result<(), String> {
    for manifest in MANIFESTS {
        let of = ["--manifest-path", manifest];
        cargo(&["clippy", of[0], of[1], "--all-targets", "--", "--deny", "warnings"])?;
        cargo(&["test", of[0], of[1]])?;
    }
    Ok(())
}
