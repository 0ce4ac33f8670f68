//! `verify` of single files; directories are covered where they are written.

use std::fs;

use crate::folder::{Folder, MODEL};
use crate::samples;

#[test]
fn a_sound_file_is_called_sound() {
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

#[test]
fn a_flipped_bit_in_an_archive_is_found() {
    for (name, entry) in [("arrays.npz", ".npy"), ("checkpoint.pth", "/data/0")] {
        let folder = samples::folder();
        assert!(folder.amn(&format!("verify {name}")).ok().ends_with("sound\n"), "{name}");
        let mut bytes = fs::read(folder.path(name)).unwrap();
        let last = last_byte_of(&bytes, entry);
        bytes[last] ^= 1;
        fs::write(folder.path(name), bytes).unwrap();
        let run = folder.amn(&format!("verify {name}"));
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.stdout.contains("is damaged") && run.stdout.contains(entry), "{run:?}");
    }
}

/// The offset of the last byte of the first ZIP entry whose name has this suffix.
fn last_byte_of(archive: &[u8], end: &str) -> usize {
    let number =
        |at: usize, bytes: usize| archive[at..at + bytes].iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
    let entry = |&at: &usize| {
        archive[at..].starts_with(b"PK\x01\x02") && archive[at + 46..][..number(at + 28, 2)].ends_with(end.as_bytes())
    };
    let central = (0..archive.len() - 46).find(entry).unwrap();
    let local = number(central + 42, 4);
    local + 30 + number(local + 26, 2) + number(local + 28, 2) + number(central + 20, 4) - 1
}
