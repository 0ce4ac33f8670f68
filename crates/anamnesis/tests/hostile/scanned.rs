//! The malicious files that other scanners test themselves with, and files of two formats at once
//! (`reference/gen_scanned.py`).

use std::fs;
use std::path::Path;

use anamnesis::{ScanVerdict, scan, scan_all, scan_bytes};

/// Every file with its name.
fn malicious() -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scanned/malicious.txt");
    let text = fs::read_to_string(path).unwrap();
    let files: Vec<_> = text
        .lines()
        .map(|line| {
            let (name, content) = line.split_once(' ').unwrap();
            let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
            (name.to_owned(), content.as_bytes().chunks(2).map(byte).collect())
        })
        .collect();
    assert!(files.len() > 100, "{}", files.len());
    files
}

#[test]
fn no_malicious_file_of_other_scanners_is_safe() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in malicious() {
        let path = folder.path().join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &content).unwrap();
        for report in [scan(&path).unwrap(), scan_bytes(&content).unwrap()] {
            assert!(!report.is_safe(), "{name}: {report:?}");
            // Archives that readers understand differently are refused as a whole.
            let is_ambiguous = ["_0x", "central_directory", "moved_archive"].iter().any(|part| name.contains(part));
            let names_code = report.verdict() != ScanVerdict::Malformed;
            assert!(names_code || is_ambiguous, "{name}: {report:?}");
        }
    }
    // The files of a directory are found whatever their extensions are.
    let found = scan_all(folder.path()).unwrap();
    let found: Vec<_> = found.iter().filter(|file| !file.report.is_safe()).map(|file| file.path.clone()).collect();
    for (name, _) in malicious() {
        assert!(found.contains(&folder.path().join(&name)), "{name} is not looked at");
    }
}

#[test]
fn models_of_keras_and_tensorflow_without_code_are_safe() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for name in
        ["hdf5/archive.keras", "hdf5/chunks.h5", "hdf5/types_latest.h5", "tensorflow/saved_model/saved_model.pb"]
    {
        let report = scan(fixtures.join(name)).unwrap();
        assert_eq!(report.verdict(), ScanVerdict::HoldsNoCode, "{name}: {report:?}");
    }
}
