//! The guides in `docs`: every command they show is run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::samples;
use crate::transcript::{Kind, replay, updates};

#[test]
fn every_command_of_the_guides_does_what_is_shown() {
    let guides = guides();
    assert!(guides.len() >= 8, "{guides:?}");
    let mut faults = Vec::new();
    for path in guides {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# "), "{} has no title", path.display());
        let (found, wrong) = replay(&text, Kind::Guide, &samples::folder());
        if updates() && found != text {
            fs::write(&path, found).unwrap();
        } else {
            faults.extend(wrong.into_iter().map(|fault| format!("{}: {fault}", path.display())));
        }
    }
    assert!(faults.is_empty(), "{}\n\nAMN_UPDATE=1 writes the outputs anew", faults.join("\n\n"));
}

#[test]
fn the_readme_links_every_guide_and_no_link_is_dead() {
    let root = root();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    for path in guides() {
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(readme.contains(&format!("(docs/{name})")), "the README does not link docs/{name}");
    }
    for path in guides().into_iter().chain([root.join("README.md")]) {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap();
            let is_file = !target.is_empty() && !target.contains("://");
            assert!(!is_file || path.with_file_name(target).exists(), "{}: {target} is not there", path.display());
        }
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn guides() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut guides: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    guides.sort();
    guides
}

#[test]
fn the_readme_names_every_format_that_is_refused_and_the_toolchain_it_needs() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let list = readme.split("refused by name, never copied").nth(1).and_then(|rest| rest.split("\n\n").nth(1)).unwrap();
    let list = list.replace('\n', " ");
    let document = crate::folder::Folder::empty().amn("formats --json").json();
    let refused: Vec<_> = document["refused"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    assert_eq!(list.trim_end_matches('.').split(", ").collect::<Vec<_>>(), refused);
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert!(readme.contains(&format!("a Rust toolchain, {version} or newer")), "{version}");
}
