//! Checks ARCHITECTURE.md against the code: a member of a registry is named in one place only.

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
    let room = source().join("architecture/models");
    let text = read(&room.join("mod.rs"));
    let (_, list) = text.split_once("architectures! {").unwrap();
    let lines = list.lines().map(str::trim).filter_map(|line| line.strip_suffix(','));
    assert_eq!(members(&room, "pub(super) static ARCHITECTURE:"), lines.map(str::to_owned).collect());
}

/// Names of architectures that are also names of other things, by the files that have them in that sense.
const OTHER_SENSES: [(&str, &[&str]); 7] = [
    // How classes of transformers use their layers, by `model_type`.
    ("src/scheme/model_class.rs", &["mamba", "falcon_mamba"]),
    // The kinds of vocabularies (`tokenizer.ggml.model`) and pre-tokenizers (`tokenizer.ggml.pre`).
    ("src/architecture/tokenizer/", &["llama", "qwen2", "glm4", "falcon-h1"]),
    ("src/architecture/models/glm4moe.rs", &["glm4"]),
    // `llama_tensor_get_type` asks for the names of architectures, also of those that have no rules here.
    ("src/scheme/ggml/mix.rs", &["llama", "qwen2"]),
    // A layout of experts and a method of quantisation, both called after the models that came with them.
    ("src/scheme/mxfp4/", &["gpt-oss", "gpt_oss"]),
    ("src/scheme/gemma_quant/", &["gemma"]),
    // The layers with a sliding window, by `model_type` of transformers and by what llama.cpp does with the key.
    (
        "src/inspect/cache/window.rs",
        &[
            "cohere2",
            "exaone4",
            "gemma2",
            "gemma3",
            "gemma3_text",
            "gemma3n",
            "gemma3n_text",
            "gpt-oss",
            "gpt_oss",
            "llama",
            "phi3",
            "qwen2",
            "qwen3",
            "starcoder2",
        ],
    ),
];

/// Whether code names a module in a path.
fn has_path(code: &str, module: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(module).any(|(place, _)| {
        let (before, after) = (&code[..place], &code[place + module.len()..]);
        let is_path = after.starts_with("::") || before.ends_with("::") && !after.starts_with(is_word);
        is_path && !before.ends_with(is_word)
    })
}

#[test]
fn nothing_names_an_architecture_but_its_file_and_its_line() {
    let room = source().join("architecture/models");
    let code = |text: &str| {
        let code = text.split("#[cfg(test)]").next().unwrap().lines();
        code.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
    };
    let codes: Vec<(PathBuf, String)> = ["src", "../cli/src", "../kernels/src"]
        .iter()
        .flat_map(|folder| files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)))
        .filter(|(path, _)| !["tests.rs", "hostile.rs"].iter().any(|end| path.ends_with(end)))
        .map(|(path, text)| (path, code(&text)))
        .collect();
    assert!(codes.len() > 300, "only {} files were read", codes.len());
    for (own, text) in files(&room).iter().filter(|(path, _)| !path.ends_with("mod.rs")) {
        let module = own.file_stem().unwrap().to_str().unwrap();
        let names = ["name: \"", "model_type: \""].iter().flat_map(|field| text.split(field).skip(1));
        let names: BTreeSet<&str> = names.filter_map(|rest| Some(rest.split_once('"')?.0)).collect();
        assert!(names.len() >= 2, "{module}: {names:?}");
        for (path, code) in codes.iter().filter(|(path, _)| path != own && *path != room.join("mod.rs")) {
            let path = path.display().to_string();
            let senses = OTHER_SENSES.iter().filter(|(place, _)| path.contains(place)).flat_map(|(_, names)| *names);
            let is_other = |name: &str| senses.clone().any(|other| *other == name);
            let is_named = |name: &&&str| code.contains(&format!("\"{name}\"")) && !is_other(name);
            assert_eq!(names.iter().find(is_named), None, "{path} names an architecture");
            assert!(!has_path(code, module) || is_other(module), "{path} names the module {module}");
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
