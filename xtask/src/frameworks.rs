//! Builds and tests the crates for other frameworks, which are workspaces of their own.

use crate::cargo;

/// The manifests of these crates.
pub(crate) const MANIFESTS: [&str; 2] = ["crates/candle/Cargo.toml", "crates/burn/Cargo.toml"];

/// Lints and tests each of them, and runs its example. The crates that both depend on are built once.
pub(crate) fn run() -> Result<(), String> {
    for manifest in MANIFESTS {
        let of = ["--manifest-path", manifest, "--target-dir", "target/frameworks"];
        cargo(&[&["clippy"][..], &of, &["--all-targets", "--", "--deny", "warnings"]].concat())?;
        cargo(&[&["test"][..], &of].concat())?;
        cargo(&[&["run"][..], &of, &["--example", "llama"]].concat())?;
    }
    Ok(())
}
