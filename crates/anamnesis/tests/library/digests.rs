//! Files of local stores are checked against the digests in their names.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anamnesis::verify;
use sha2::{Digest, Sha256};

use crate::support::{Folder, Model};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// The `git hash-object` of `{}`.
const CONFIG: &str = "9e26dfeeb6e641a33dae4961196235bdb965b21b";

/// A snapshot of the Hugging Face cache, and the blob of its weights.
fn snapshot(folder: &Folder) -> (PathBuf, PathBuf) {
    let repository = folder.path("models--org--name");
    let (blobs, snapshot) = (repository.join("blobs"), repository.join("snapshots").join(COMMIT));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    let weights = Model::new().floats("a", &[2], &[1.0, 2.0]).bytes();
    let digits: String = Sha256::digest(&weights).iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(blobs.join(&digits), weights).unwrap();
    fs::write(blobs.join(CONFIG), "{}").unwrap();
    symlink(format!("../../blobs/{digits}"), snapshot.join("model.safetensors")).unwrap();
    symlink(format!("../../blobs/{CONFIG}"), snapshot.join("config.json")).unwrap();
    (snapshot, blobs.join(digits))
}

fn problems(path: impl AsRef<Path>) -> Vec<String> {
    verify(path).unwrap().problems
}

#[test]
fn a_snapshot_is_sound_if_its_blobs_match_their_digests() {
    let folder = Folder::new();
    let (snapshot, _) = snapshot(&folder);
    assert_eq!(problems(&snapshot), [""; 0]);
    assert_eq!(problems(snapshot.join("model.safetensors")), [""; 0]);
    // Links to other folders and names that are not digests are not checked.
    fs::write(snapshot.join("notes.txt"), "x").unwrap();
    assert_eq!(problems(&snapshot), [""; 0]);
}

#[test]
fn a_flipped_bit_is_found_in_weights_and_in_small_files() {
    let folder = Folder::new();
    let (snapshot, weights) = snapshot(&folder);
    let good = fs::read(&weights).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 0x40;
    fs::write(&weights, bad).unwrap();
    for path in [snapshot.clone(), snapshot.join("model.safetensors")] {
        let found = problems(&path);
        let digits = weights.file_name().unwrap().to_str().unwrap();
        assert!(
            matches!(&found[..], [one] if one.contains("model.safetensors") && one.contains(digits)),
            "{path:?}: {found:?}"
        );
    }
    fs::write(&weights, good).unwrap();
    fs::write(weights.with_file_name(CONFIG), "{ }").unwrap();
    let found = problems(&snapshot);
    assert!(matches!(&found[..], [one] if one.contains("config.json") && one.contains(CONFIG)), "{found:?}");
}
