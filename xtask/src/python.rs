//! The Python package: a virtual environment, the wheel, its tests, its types and the guide's code.
//!
//! Everything is made under `target/python`, with packages of the registry that `pip` is set up for.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest version of Python that the wheel is for.
const OLDEST: (u32, u32) = (3, 10);

/// Packages of the tests.
const PACKAGES: [&str; 8] = ["maturin>=1.9,<2", "numpy", "pytest", "safetensors", "ml_dtypes", "gguf", "tqdm", "mypy"];

/// A second opinion about types, which brings a runtime of its own.
const PYRIGHT: &str = "pyright[nodejs]";

/// Largest wheel, in bytes.
const MAX_WHEEL_BYTES: u64 = 12 << 20;

/// The variable by which the hostile tests keep the files that they build, and pytest finds them.
const KEPT_FILES: &str = "AMN_KEPT_FILES";

/// Writes the model that the guide's first example opens.
const MODEL_OF_EXAMPLE: &str = "import anamnesis, numpy; \
    anamnesis.save_file({'blk.0.attn_q.weight': numpy.ones((2, 256), 'f4')}, 'model.gguf', force=True)";

/// The profile of the wheel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// The published one.
    Published,
    /// That of the tests, to reuse the dependencies that `cargo test` compiled.
    Debug,
}

/// Builds the wheel and runs its tests. Without a suitable Python, or without a package index, it prints that and succeeds.
pub(crate) fn run(build: Build) -> Result<(), String> {
    let Some(python) = interpreter() else {
        let (major, minor) = OLDEST;
        println!("no Python {major}.{minor} or newer with venv was found: the Python package is NOT tested");
        return Ok(());
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (package, work) = (root.join("crates/python"), root.join("target/python"));
    let venv = Venv::new(&python, &work, "tests")?;
    if let Err(error) = venv.pip(&["install", "-q"], &PACKAGES) {
        println!("packages cannot be installed ({error}): the Python package is NOT tested");
        return Ok(());
    }
    let wheel = wheel(&venv, &package, &work.join("wheels"), build)?;
    venv.pip(&["install", "-q", "--force-reinstall", "--no-deps"], &[&wheel.to_string_lossy()])?;
    let tests = package.join("tests");
    let hostile = hostile_files(&work)?;
    let pytest = venv.program("python");
    execute(Command::new(pytest).current_dir(&tests).env(KEPT_FILES, hostile).args(["-m", "pytest", "-q", "."]))?;
    venv.run("python", &tests, &["-m", "pytest", "-q", "--doctest-modules", "--pyargs", "anamnesis"])?;
    venv.run("mypy", &package, &[])?;
    venv.run("python", &tests, &["-m", "mypy.stubtest", "anamnesis._anamnesis", "--ignore-missing-stub"])?;
    if build == Build::Debug {
        return Ok(());
    }
    venv.pip(&["install", "-q"], &[PYRIGHT])?;
    venv.run("pyright", &package, &["--pythonpath", &venv.program("python").to_string_lossy()])?;
    let empty = empty_environment(&python, &work, &wheel)?;
    let example = first_example(&root.join("docs/from-python.md"), &work)?;
    empty.run("python", &work, &["-c", MODEL_OF_EXAMPLE])?;
    empty.run("python", &work, &[&example])?;
    let installed = empty.program("python");
    let installed = installed.to_string_lossy();
    venv.run("mypy", &work, &["--strict", "--python-executable", &installed, &example])?;
    venv.run("pyright", &work, &["--pythonpath", &installed, &example])
}

/// The files that the library's hostile tests build, in a folder of their own.
fn hostile_files(work: &Path) -> Result<PathBuf, String> {
    let folder = work.join("hostile");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut tests = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    execute(tests.env(KEPT_FILES, &folder).args(["test", "-q", "--workspace", "--test", "hostile"]))?;
    Ok(folder)
}

/// Installs the wheel where nothing else is, with what it asks for, and tries it.
fn empty_environment(python: &Path, work: &Path, wheel: &Path) -> Result<Venv, String> {
    let venv = Venv::new(python, work, "empty")?;
    venv.pip(&["install", "-q", "--force-reinstall"], &[&wheel.to_string_lossy()])?;
    let example = "import anamnesis, numpy; print(anamnesis.quantize(numpy.ones((2, 256), 'f4'), 'q4_k'))";
    venv.run("python", work, &["-c", example])?;
    venv.run("amn", work, &["demo"])?;
    Ok(venv)
}

/// The first Python code of the guide, as a file of its own.
fn first_example(guide: &Path, work: &Path) -> Result<String, String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(guide).map_err(|error| failed(guide, error))?;
    let code = text.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```"));
    let (code, _) = code.ok_or_else(|| format!("{}: no Python code", guide.display()))?;
    let path = work.join("first_example.py");
    std::fs::write(&path, code).map_err(|error| failed(&path, error))?;
    Ok("first_example.py".to_owned())
}

/// The wheel, built by maturin.
fn wheel(venv: &Venv, package: &Path, folder: &Path, build: Build) -> Result<PathBuf, String> {
    // A wheel of an earlier build must not be taken for the new one.
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let (python, folder_name) = (venv.program("python"), folder.to_string_lossy());
    let python = python.to_string_lossy();
    let mut arguments = vec!["build", "--locked", "--interpreter", &python, "--out", &folder_name];
    if build == Build::Debug {
        arguments.extend(["--profile", "dev"]);
    }
    venv.run("maturin", package, &arguments)?;
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "whl");
    let wheel = paths.find(is_wheel).ok_or_else(|| format!("{}: no wheel was built", folder.display()))?;
    let bytes = std::fs::metadata(&wheel).map_err(|error| format!("{}: {error}", wheel.display()))?.len();
    println!("{}: {:.1} MB", wheel.display(), bytes as f64 / 1e6);
    if build == Build::Published && bytes > MAX_WHEEL_BYTES {
        return Err(format!("the wheel has {bytes} bytes, {MAX_WHEEL_BYTES} are allowed"));
    }
    Ok(wheel)
}

/// A suitable Python: `$PYTHON`, or the first of the common names.
pub(crate) fn interpreter() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PYTHON").map(PathBuf::from) {
        return Some(named).filter(|python| is_new_enough(python));
    }
    let usual = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python"];
    usual.map(PathBuf::from).into_iter().find(|python| is_new_enough(python))
}

fn is_new_enough(python: &Path) -> bool {
    let check = format!("import sys, venv, ensurepip; sys.exit(sys.version_info < {OLDEST:?})");
    Command::new(python).args(["-c", &check]).output().is_ok_and(|output| output.status.success())
}

/// A virtual environment.
pub(crate) struct Venv {
    /// The folder of its programs.
    programs: PathBuf,
}

impl Venv {
    /// The environment of this Python for a purpose, made where it is not there.
    pub(crate) fn new(python: &Path, work: &Path, purpose: &str) -> Result<Self, String> {
        let tag = "import sys, sysconfig; print(sysconfig.get_config_var('SOABI') or sys.version_info[:2])";
        let tag = Command::new(python).args(["-c", tag]).output().map_err(|error| format!("{python:?}: {error}"))?;
        let tag = String::from_utf8_lossy(&tag.stdout).trim().to_owned();
        let root = work.join(format!("{purpose}-{tag}"));
        let programs = root.join(if cfg!(windows) { "Scripts" } else { "bin" });
        let venv = Self { programs };
        if !venv.program("pip").exists() {
            let mut make = Command::new(python);
            execute(make.args(["-m", "venv", "--clear"]).arg(&root))?;
        }
        Ok(venv)
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name).with_extension(std::env::consts::EXE_EXTENSION)
    }

    pub(crate) fn pip(&self, arguments: &[&str], packages: &[&str]) -> Result<(), String> {
        let all = [&["-m", "pip", "--disable-pip-version-check"], arguments, packages].concat();
        self.run("python", &self.programs, &all)
    }

    fn run(&self, program: &str, directory: &Path, arguments: &[&str]) -> Result<(), String> {
        execute(Command::new(self.program(program)).current_dir(directory).args(arguments))
    }
}

pub(crate) fn execute(command: &mut Command) -> Result<(), String> {
    println!("$ {command:?}");
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed")) }
}
