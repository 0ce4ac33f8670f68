//! Where text goes, and what happens when it cannot go there.

use std::process::Stdio;

use crate::folder::{Folder, MODEL, Run};

#[test]
fn quiet_prints_nothing_but_errors() {
    let folder = Folder::with_model();
    for line in
        ["parse model-fp8.safetensors -q", "inspect -q model-fp8.safetensors", "--quiet remember model-fp8.safetensors"]
    {
        assert_eq!(folder.amn(line).ok(), "", "{line}");
    }
    let error = folder.amn("-q remember model-fp8.safetensors").failed();
    assert!(error.contains("exists already"), "{error}");
}

#[test]
fn no_bar_is_drawn_where_standard_error_is_no_terminal() {
    let folder = Folder::empty();
    folder.add_sparse("plain.safetensors", "U8", &["a", "b"], 4 << 20);
    folder.amn("remember plain.safetensors").ok();
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let folder = Folder::with_model();
    for line in [
        "--help",
        "parse -l model-fp8.safetensors",
        "inspect model-fp8.safetensors --json",
        "remember model-fp8.safetensors",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = Run::of(folder.command(line).stdout(writer).output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{line}: {run:?}");
    }
    assert_eq!(folder.names(), ["config.json", "model-bf16.safetensors", MODEL]);
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_cannot_be_printed_are_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let folder = Folder::with_model();
    let run = folder.command("inspect model-fp8.safetensors").stdout(full).stderr(Stdio::piped()).output().unwrap();
    let error = Run::of(run).failed();
    assert!(error.contains("standard output: "), "{error}");
}
