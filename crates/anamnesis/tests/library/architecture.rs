//! Holds the page about the architecture to the code: what it says must be added in one place is named in no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below a folder, with their texts.
pub fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.clone(), read(&path)));
        }
    }
    found
}

/// The folders of a room whose files have `mark`, and the single files that have it.
fn members(room: &Path, mark: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(room).unwrap() {
        let path = entry.unwrap().path();
        let texts = if path.is_dir() { files(&path) } else { vec![(path.clone(), read(&path))] };
        if texts.iter().any(|(_, text)| text.lines().any(|line| line.starts_with(mark))) {
            found.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

/// The names before `::` in a list of the source.
fn listed(text: &str, list: &str) -> BTreeSet<String> {
    let rest = text.split_once(list).unwrap_or_else(|| panic!("there is no {list}")).1;
    let items = rest.split_once(" =").unwrap().1.split_once('[').unwrap().1.split_once("];").unwrap().0;
    let paths = items.split(',').filter_map(|item| item.trim().trim_start_matches('&').split_once("::"));
    paths.map(|(module, _)| module.to_owned()).collect()
}

#[test]
fn every_scheme_is_in_its_list() {
    let room = source().join("scheme");
    let text = read(&room.join("registry.rs"));
    assert_eq!(members(&room, "impl Scheme for"), listed(&text, "static ALL:"));
    assert_eq!(members(&room, "impl Quantiser for"), listed(&text, "static ENCODINGS:"));
}

#[test]
fn every_container_is_in_its_list() {
    let room = source().join("container");
    assert_eq!(members(&room, "impl Container for"), listed(&read(&room.join("registry.rs")), "const ALL:"));
}

#[test]
fn every_architecture_of_models_is_in_its_list() {
    let room = source().join("architecture");
    let text = read(&room.join("registry.rs"));
    assert_eq!(members(&room, "pub(super) static ARCHITECTURE:"), listed(&text, "static ALL:"));
}

#[test]
fn containers_and_schemes_never_meet() {
    for (room, other) in [("container", "scheme"), ("scheme", "container")] {
        for (path, text) in files(&source().join(room)) {
            let code = text.split("#[cfg(test)]").next().unwrap();
            assert!(!code.contains(&format!("crate::{other}")), "{} knows {other}", path.display());
        }
    }
}

#[test]
fn the_page_names_files_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = read(&root.join("ARCHITECTURE.md"));
    let (_, table) = page.split_once("## To add").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let paths: Vec<_> = table.split('`').filter(|word| word.starts_with("crates/") && !word.contains('<')).collect();
    assert!(paths.len() >= 6, "{paths:?}");
    for path in paths {
        assert!(root.join(path).exists(), "{path}");
    }
}

#[test]
fn the_library_names_no_flag() {
    let is_flag =
        |word: &str| word.strip_prefix("--").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
    for (path, text) in files(&source()) {
        let code = text.split("#[cfg(test)]").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines.filter(|line| !line.contains("hf download") && !line.contains(" --revision ")) {
            let words = line.split(|c: char| c.is_whitespace() || "\"(`{".contains(c));
            assert_eq!(words.into_iter().find(|word| is_flag(word)), None, "{}: {line}", path.display());
        }
    }
}
