//! Remote sources against servers of others: nginx, and `huggingface_hub` against the look-alike of the hub.

use std::path::Path;
use std::process::Command;

use super::python::{Venv, execute, interpreter};

/// Runs the tests that need them. Without nginx or a Python this is an error, which names the package.
pub(crate) fn run() -> Result<(), String> {
    for (program, package) in [("nginx", "nginx-light"), ("openssl", "openssl")] {
        Command::new(program)
            .arg("-v")
            .output()
            .map_err(|error| format!("{program}: {error}; `apt-get install {package}` installs it"))?;
    }
    let python = interpreter().ok_or("no Python with venv was found")?;
    let work = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python");
    let venv = Venv::new(&python, &work, "hub")?;
    venv.pip(&["install", "-q"], &["huggingface_hub"])?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tests = Command::new(cargo);
    tests.args(["test", "--workspace", "--test", "remote", "--test", "commands", "--", "nginx", "addresses", "hub"]);
    execute(tests.env("AMN_SERVERS", "1").env("AMN_HUB_PYTHON", venv.program("python")))
}
