//! Remote sources against servers of others: nginx; `huggingface_hub` against the look-alike of the hub; S3 of moto with
//! boto3, and Azurite with the library of Azure.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::python::{Venv, execute, interpreter};

/// Python packages of the tests.
const PACKAGES: [&str; 4] = ["huggingface_hub", "moto[server,s3]", "boto3", "azure-storage-blob"];

/// Runs the tests that need them. Without nginx or a Python this is an error, which names the package. Without npm Azure
/// is not tested.
pub(crate) fn run() -> Result<(), String> {
    for (program, package) in [("nginx", "nginx-light"), ("openssl", "openssl")] {
        Command::new(program)
            .arg("-v")
            .output()
            .map_err(|error| format!("{program}: {error}; `apt-get install {package}` installs it"))?;
    }
    let python = interpreter().ok_or("no Python with venv was found")?;
    let work = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python");
    let venv = Venv::new(&python, &work, "remote")?;
    venv.pip(&["install", "-q"], &PACKAGES)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tests = Command::new(cargo);
    tests.args(["test", "--workspace", "--features", "anamnesis-cli/clouds", "--test", "remote", "--test", "commands"]);
    tests.args(["--", "nginx", "addresses", "hub", "clouds"]);
    match azurite(&work) {
        Ok(program) => drop(tests.env("AMN_AZURITE", program)),
        Err(error) => println!("Azurite cannot be installed ({error}): Azure is NOT tested"),
    }
    let python = venv.program("python");
    execute(tests.env("AMN_SERVERS", "1").env("AMN_HUB_PYTHON", &python).env("AMN_CLOUD_PYTHON", &python))
}

/// Installs the server of Azure's blobs, and returns its program for node.
fn azurite(work: &Path) -> Result<PathBuf, String> {
    let folder = work.join("azurite");
    let program = folder.join("node_modules/azurite/dist/src/blob/main.js");
    if !program.is_file() {
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let mut install = Command::new("npm");
        execute(install.current_dir(&folder).args(["install", "--silent", "--no-audit", "--no-fund", "azurite"]))?;
    }
    program.canonicalize().map_err(|error| error.to_string())
}
