//! `verify` of single files; directories are verified where they are written.

use std::fs;

use crate::folder::{Folder, MODEL};

#[test]
fn a_sound_file_is_told_as_such() {
    let folder = Folder::with_model();
    assert_eq!(folder.amn(&format!("verify {MODEL}")).ok(), "1 file, 3 tensors, 978 B\nsound\n");
    let document = folder.amn(&format!("verify {MODEL} --json")).json();
    assert_eq!((&document["sound"], &document["tensor_count"]), (&true.into(), &3.into()));
    assert_eq!(folder.amn(&format!("verify {MODEL} --quiet")).ok(), "");
}

#[test]
fn a_truncated_file_is_not_sound() {
    let folder = Folder::with_model();
    let whole = fs::read(folder.path(MODEL)).unwrap();
    fs::write(folder.path(MODEL), &whole[..whole.len() - 1]).unwrap();
    let run = folder.amn(&format!("verify {MODEL}"));
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), "error: the checkpoint is not sound: 1 problem\n"));
    assert!(run.stdout.starts_with("  1. ") && run.stdout.contains(MODEL), "{run:?}");
}

#[test]
fn a_wrong_path_is_an_error_and_not_a_finding() {
    let run = Folder::empty().amn("verify no-such.safetensors");
    assert!(run.stdout.is_empty() && run.failed().contains("no-such.safetensors: "));
}
