//! Checks ARCHITECTURE.md against the code: a member of a registry is named in one place only.

use std::collections::{BTreeMap, BTreeSet};
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
    // An item may have an attribute before it.
    let names = items.split(',').filter_map(|item| item.trim().lines().last());
    let paths = names.filter_map(|item| item.trim().trim_start_matches('&').split_once("::"));
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
    let mut containers = members(&room, "impl Container for");
    assert!(containers.remove("left_out"), "the formats of builds without them");
    assert_eq!(containers, listed(&read(&room.join("registry.rs")), "const ALL:"));
}

#[test]
fn every_architecture_of_models_is_in_its_list() {
    let room = source().join("architecture/models");
    let text = read(&room.join("mod.rs"));
    let (_, list) = text.split_once("architectures! {").unwrap();
    let (list, _) = list.split_once("\n}").unwrap();
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut rest = list.replace("#[cfg(test)]", "");
    // A module, and in brackets the names of its architectures where it has several.
    while let Some((module, after)) = rest.trim_start().split_once([',', '[']).map(|(a, b)| (a.trim().to_owned(), b)) {
        let has_names = rest.trim_start()[module.len()..].starts_with('[');
        let (names, after) = if has_names { after.split_once("],").unwrap() } else { ("ARCHITECTURE", after) };
        let names = names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        listed.insert(module, names.collect());
        rest = after.to_owned();
    }
    let mut declared: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in files(&room).iter().filter(|(path, _)| !path.ends_with("mod.rs")) {
        let statics = text.lines().filter_map(|line| line.strip_prefix("pub(super) static "));
        let names = statics.filter_map(|line| Some(line.split_once(": Architecture =")?.0));
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        declared.insert(module, names.map(str::to_owned).collect());
    }
    assert_eq!(declared, listed);
}

/// Files that have the names of architectures in another sense.
const OTHER_SENSES: [&str; 11] = [
    // How classes of transformers use their layers and caches, by `model_type`.
    "src/scheme/model_class.rs",
    "src/inspect/cache/",
    "src/inspect/parameters.rs",
    // The classes that store the weights of latent attention merged.
    "src/architecture/latent.rs",
    // The kinds of vocabularies (`tokenizer.ggml.model`) and pre-tokenizers (`tokenizer.ggml.pre`).
    "src/architecture/tokenizer/",
    // `llama_tensor_get_type` asks for the names of architectures, also of those that have no rules here.
    "src/scheme/ggml/mix.rs",
    // A layout of experts and methods of quantisation, called after the models that came with them.
    "src/scheme/mxfp4/",
    "src/scheme/gemma_quant/",
    "src/scheme/bitnet/",
    // Architectures of one family share their data.
    "src/architecture/models/",
    // The towers of multimodal models, by the class and type of the model.
    "src/architecture/projectors/",
];

#[test]
fn nothing_names_an_architecture_but_its_file_and_its_line() {
    let room = source().join("architecture/models");
    let code = |text: &str| {
        let code = text.split("#[cfg(test)]").next().unwrap().lines();
        code.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    };
    let codes: Vec<(String, String)> = ["src", "../cli/src", "../kernels/src"]
        .iter()
        .flat_map(|folder| files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)))
        .filter(|(path, _)| !["tests.rs", "hostile.rs"].iter().any(|end| path.ends_with(end)))
        .map(|(path, text)| (path.display().to_string().replace('\\', "/"), code(&text)))
        .filter(|(path, _)| !OTHER_SENSES.iter().any(|place| path.contains(place)))
        .collect();
    assert!(codes.len() > 300, "only {} files were read", codes.len());
    for (own, text) in files(&room).iter().filter(|(path, _)| !path.ends_with("mod.rs")) {
        let module = own.file_stem().unwrap().to_str().unwrap();
        let names = ["name: \"", "model_type: \""].iter().flat_map(|field| text.split(field).skip(1));
        let names = names.filter_map(|rest| Some(rest.split_once('"')?.0));
        // Names with a dot are those of tensors.
        let names: BTreeSet<&str> = names.filter(|name| !name.contains('.')).collect();
        assert!(!names.is_empty(), "{module}: {names:?}");
        for (path, code) in &codes {
            let is_named = |name: &&&str| code.contains(&format!("\"{name}\""));
            assert_eq!(names.iter().find(is_named), None, "{path} names an architecture");
            assert!(!code.contains(&format!("models::{module}")), "{path} names the module {module}");
        }
    }
}

#[test]
fn containers_and_schemes_do_not_name_each_other() {
    for (room, other) in [("container", "scheme"), ("scheme", "container")] {
        for (path, text) in files(&source().join(room)) {
            let code = text.split("#[cfg(test)]").next().unwrap();
            assert!(!code.contains(&format!("crate::{other}")), "{} knows {other}", path.display());
        }
    }
}

#[test]
fn the_page_names_existing_files() {
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
