//! `demo`, for people who have no model at hand.

use std::path::Path;

use crate::folder::Folder;

#[test]
fn every_value_matches_and_the_folder_stays() {
    let folder = Folder::empty();
    let text = folder.amn_within("demo").ok();
    assert!(text.contains("\n512 of 512 values match"), "{text}");
    for step in ["$ amn parse model-fp8", "$ amn inspect model-fp8", "$ amn remember model-fp8"] {
        assert!(text.contains(step), "{text}");
    }
    let names = folder.names();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(text.contains(&names[0]));
    assert!(folder.path(&names[0]).join("model-f32.safetensors").is_file());
}

#[test]
fn the_document_counts_the_values() {
    let folder = Folder::empty();
    let document = folder.amn_within("demo --json").json();
    assert_eq!((&document["matching"], &document["values"]), (&512.into(), &512.into()));
    assert!(Path::new(document["folder"].as_str().unwrap()).is_dir());
    assert_eq!(folder.amn_within("demo --quiet").ok(), "");
}
