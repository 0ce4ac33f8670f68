//! `--provenance`: an in-toto statement about the files that a command has read and written.
//!
//! `statement` is the document, `check` compares it with the files again for `verify`. A statement has no times and no
//! names of machines or users: the same command on the same files gives the same bytes.

mod check;
mod statement;

pub(super) use check::{Check, StatedFile};

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use anamnesis::{AnamnesisError, FileRecord, FileState, file_sha256, record_files};

use super::{output_path, shown, small_file};
use crate::args::{Cli, Command, STREAM};
use crate::exit::Failure;
use crate::ui::Printer;
use statement::{Resource, Statement};

/// Runs a command, and writes its statement if one was asked for and the command succeeds.
pub(super) fn recorded(cli: &Cli, printer: &Printer, run: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let Some((path, force)) = cli.command.provenance() else { return run() };
    refuse_early(cli, path, force)?;
    let (done, record) = record_files(run);
    done?;
    write(cli, path, force, &record)?;
    printer.detail(format_args!("wrote {}", shown(path)));
    Ok(())
}

/// Refuses a statement that could not be written or would be incomplete, before anything is written.
fn refuse_early(cli: &Cli, path: &Path, force: bool) -> Result<(), Failure> {
    let is_stream = |path: &Path| path.as_os_str() == STREAM;
    if is_stream(path) {
        return Err(Failure::Usage("--provenance is written to a file, not to standard output".to_owned()));
    }
    if cli.command.output().is_some_and(is_stream) || cli.command.input().is_some_and(is_stream) {
        let why = "--provenance is about files, and a standard stream has neither a name nor a hash";
        return Err(Failure::Usage(why.to_owned()));
    }
    if matches!(cli.command, Command::Hash(_) | Command::Show(_)) && cli.command.output().is_none() {
        return Err(Failure::Usage("--provenance is about an output file, which -o names".to_owned()));
    }
    if cli.command.output().is_some_and(|output| output == path) {
        return Err(Failure::Usage(format!("--provenance and -o are both {}", shown(path))));
    }
    output_path::check(path)?;
    small_file::refuse_existing(path, force)
}

fn write(cli: &Cli, path: &Path, force: bool, record: &FileRecord) -> Result<(), Failure> {
    let outputs: BTreeSet<&PathBuf> = record.outputs.iter().collect();
    if outputs.is_empty() {
        return Err(Failure::Usage(
            "--provenance is about an output file, and this command has written none".to_owned(),
        ));
    }
    if outputs.contains(&path.to_path_buf()) || record.inputs.contains_key(path) {
        return Err(Failure::Usage(format!("--provenance {} is an input or an output", shown(path))));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut subjects = Vec::new();
    for output in &outputs {
        subjects.push(Resource { name: relative(output, folder), sha256: Some(file_sha256(output)?) });
    }
    let mut inputs = Vec::new();
    for (input, state) in record.inputs.iter().filter(|(input, _)| !outputs.contains(input)) {
        inputs.push(match state {
            Some(state) => Resource { name: relative(input, folder), sha256: Some(unchanged(input, *state)?) },
            // Reading it again would load all of it once more.
            None => Resource { name: input.to_string_lossy().into_owned(), sha256: None },
        });
    }
    let statement = Statement {
        subjects,
        inputs,
        command: cli.command.name().to_owned(),
        arguments: cli.arguments.iter().map(|argument| without_query(argument)).collect(),
    };
    let text = statement.to_text();
    small_file::write(path, force, |out| Ok(out.write_all(text.as_bytes()).map_err(AnamnesisError::Io)?))?;
    Ok(())
}

/// The SHA-256 of an input that is as it was when the command opened it.
fn unchanged(input: &Path, before: FileState) -> Result<String, Failure> {
    let sha256 = file_sha256(input)?;
    if FileState::of(input) == Some(before) {
        return Ok(sha256);
    }
    let text = format!("{}: changed while it was being read, and no statement was written", shown(input));
    Err(AnamnesisError::Io(std::io::Error::other(text)).into())
}

/// A path as it is found from `folder`, with `/`; the path itself if that would lead through other folders, or if it is an
/// address.
fn relative(path: &Path, folder: &Path) -> String {
    if output_path::is_address(path) {
        return path.to_string_lossy().into_owned();
    }
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let (path, folder) = (absolute(path), absolute(folder));
    let shared = path.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    // Nothing in common, such as two drives.
    if shared == 0 {
        return path.to_string_lossy().into_owned();
    }
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    let relative: PathBuf = up.chain(path.components().skip(shared)).collect();
    let parts: Vec<_> = relative.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// An argument without the query of an address, which may be a signature.
fn without_query(argument: &str) -> String {
    match argument.split_once('?') {
        Some((address, _)) if address.contains("://") => address.to_owned(),
        _ => argument.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_to_the_folder_of_the_statement() {
        let name = |path: &str, folder: &str| relative(Path::new(path), Path::new(folder));
        assert_eq!(name("out/a.safetensors", "."), "out/a.safetensors");
        assert_eq!(name("out/a.safetensors", "out"), "a.safetensors");
        assert_eq!(name("in/a.gguf", "out/statements"), "../../in/a.gguf");
        assert_eq!(name("./in//a.gguf", "."), "in/a.gguf");
        assert_eq!(name("s3://bucket/a.gguf", "out"), "s3://bucket/a.gguf");
    }

    #[test]
    fn signatures_of_addresses_are_left_out() {
        assert_eq!(without_query("https://host/model.gguf?X-Signature=abc"), "https://host/model.gguf");
        assert_eq!(without_query("what?.safetensors"), "what?.safetensors");
    }
}
