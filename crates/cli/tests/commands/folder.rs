//! A temporary folder with a model, in which `amn` is run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A temporary folder. Its model is `model-fp8.safetensors`.
pub struct Folder {
    root: tempfile::TempDir,
    /// Variables of the environment of every command.
    variables: Vec<(String, String)>,
}

pub const MODEL: &str = "model-fp8.safetensors";

impl Folder {
    pub fn empty() -> Self {
        Self { root: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// A weight of 130×7 values in 128×128 blocks, its two BF16 scales, and a plain tensor.
    pub fn with_model() -> Self {
        Self::with_fixture("ct_block")
    }

    pub fn with_fixture(name: &str) -> Self {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../anamnesis/tests/fixtures/fp8");
        let folder = Self::empty();
        fs::copy(fixtures.join(format!("{name}.safetensors")), folder.path(MODEL)).unwrap();
        fs::copy(fixtures.join(format!("{name}.config.json")), folder.path("config.json")).unwrap();
        folder
    }

    /// Adds a sparse file with one tensor of `bytes` zero bytes per name.
    pub fn add_sparse(&self, file: &str, dtype: &str, names: &[&str], bytes: u64) {
        let entry = |(index, name): (usize, &&str)| {
            let start = index as u64 * bytes;
            let value = serde_json::json!({"dtype": dtype, "shape": [bytes], "data_offsets": [start, start + bytes]});
            (name.to_string(), value)
        };
        let header: serde_json::Map<_, _> = names.iter().enumerate().map(entry).collect();
        let header = Value::Object(header).to_string();
        let path = self.path(file);
        fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
        let length = 8 + header.len() as u64 + names.len() as u64 * bytes;
        fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The names of all files here, sorted.
    pub fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Sets a variable of the environment of every command.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(program());
        // The output must not depend on the width of the terminal.
        command.args(line.split_whitespace()).current_dir(self.root()).env_remove("COLUMNS");
        // No test leaves this machine.
        command.env("HF_HUB_OFFLINE", "1");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs `amn` with the words of `line`.
    pub fn amn(&self, line: &str) -> Run {
        Run::of(self.command(line).output().unwrap())
    }

    /// Runs `amn` with the words of `line`, with a width of `columns`.
    pub fn amn_on(&self, columns: usize, line: &str) -> Run {
        Run::of(self.command(line).env("COLUMNS", columns.to_string()).output().unwrap())
    }

    /// Runs `amn` with the words of `line`, with temporary files in this folder.
    pub fn amn_within(&self, line: &str) -> Run {
        Run::of(self.command(line).env("TMPDIR", self.root()).env("TMP", self.root()).output().unwrap())
    }
}

/// The command line under test: `$AMN_PROGRAM`, for example a script that runs it on an emulated machine, or the one that
/// was built with these tests.
pub fn program() -> OsString {
    std::env::var_os("AMN_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_amn").into())
}

/// The output of a run.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Standard output of a successful run without warnings.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        self.stdout
    }

    /// Standard error of a run that failed because of its input or output (exit code 1).
    #[track_caller]
    pub fn failed(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        self.refused()
    }

    /// Standard error of a run that failed with exit code 1 or 2.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(matches!(self.code, Some(1 | 2)), "{self:?}");
        assert!(self.stderr.starts_with("error: ") && self.stderr.lines().count() == 1, "{self:?}");
        self.stderr
    }

    /// The JSON document of a successful run.
    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.ok();
        assert_eq!(text.lines().count(), 1, "{text}");
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["schema"], 1, "{document}");
        document
    }
}
