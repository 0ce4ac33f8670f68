//! Statements about where outputs come from: `--provenance`, and `verify --provenance`.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::checkpoint::{self, NAME, SMALL};
use crate::components;
use crate::folder::Folder;

fn folder() -> Folder {
    let folder = checkpoint::folder();
    components::write(&folder.path(components::NAME));
    fs::write(folder.path("model.safetensors"), checkpoint::safetensors(&checkpoint::shards().concat())).unwrap();
    folder
}

/// SHA-256 of a file by the system's own tool; `None` if it has none.
fn sha256sum(folder: &Folder, name: &str) -> Option<String> {
    let output = std::process::Command::new("sha256sum").arg(folder.path(name)).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.split_whitespace().next()?.to_owned())
}

fn statement(folder: &Folder, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.path(name)).unwrap()).unwrap()
}

/// The names and digests of a list of resources.
fn resources(statement: &Value, pointer: &str) -> BTreeMap<String, String> {
    let digest = |file: &Value| {
        (file["name"].as_str().unwrap().to_owned(), file["digest"]["sha256"].as_str().unwrap().to_owned())
    };
    statement.pointer(pointer).unwrap().as_array().unwrap().iter().map(digest).collect()
}

const INPUTS: &str = "/predicate/buildDefinition/resolvedDependencies";

#[test]
fn every_writing_command_states_its_inputs_and_outputs() {
    let folder = folder();
    fs::copy(folder.path(NAME).join("config.json"), folder.path("config.json")).unwrap();
    let shards: Vec<String> = (1..=2).map(|number| format!("{NAME}/{}", checkpoint::shard_name(number, 2))).collect();
    let pipeline = components::NAME;
    for (line, outputs, inputs) in [
        (
            "remember model.safetensors -o a.safetensors",
            vec!["a.safetensors"],
            vec!["model.safetensors", "config.json"],
        ),
        (
            "convert model.safetensors --to gguf --split-max-tensors 4 -o b.gguf",
            vec!["b-00001-of-00002.gguf", "b-00002-of-00002.gguf"],
            vec!["model.safetensors"],
        ),
        ("forget model.safetensors --to nf4 -o c.safetensors", vec!["c.safetensors"], vec!["model.safetensors"]),
        (
            &format!("remember {NAME} {SMALL} -o d"),
            vec![
                "d/config.json",
                "d/tokenizer.json",
                "d/model-00006-of-00006.safetensors",
                "d/model.safetensors.index.json",
            ],
            vec![&shards[0], &shards[1], &format!("{NAME}/config.json"), &format!("{NAME}/tokenizer.json")],
        ),
        (
            &format!("remember {pipeline} -o e"),
            vec![
                "e/model_index.json",
                "e/transformer/diffusion_pytorch_model.safetensors",
                "e/scheduler/scheduler_config.json",
            ],
            vec![
                &format!("{pipeline}/model_index.json"),
                &format!("{pipeline}/vae/diffusion_pytorch_model.safetensors"),
            ],
        ),
        ("show model.safetensors model.norm.weight -o f.npy", vec!["f.npy"], vec!["model.safetensors"]),
        ("hash model.safetensors -o g.hash", vec!["g.hash"], vec!["model.safetensors"]),
        ("report model.safetensors --headers-only -o h.html", vec!["h.html"], vec!["model.safetensors"]),
    ] {
        folder.amn(&format!("{line} --provenance statement.json --quiet")).ok();
        let document = statement(&folder, "statement.json");
        assert_eq!(document["_type"], "https://in-toto.io/Statement/v1");
        assert_eq!(document["predicateType"], "https://slsa.dev/provenance/v1");
        let parameters = document.pointer("/predicate/buildDefinition/externalParameters").unwrap();
        assert_eq!(parameters["command"], line.split(' ').next().unwrap());
        assert!(parameters["arguments"].as_array().unwrap().contains(&"--provenance".into()));
        assert_eq!(document.pointer("/predicate/runDetails/builder/version/amn").unwrap(), env!("CARGO_PKG_VERSION"));
        let (stated_outputs, stated_inputs) = (resources(&document, "/subject"), resources(&document, INPUTS));
        for (names, stated) in [(outputs, &stated_outputs), (inputs, &stated_inputs)] {
            for name in names {
                assert!(stated.contains_key(name), "{line}: {name} is not in {:?}", stated.keys());
            }
        }
        for (name, digest) in stated_outputs.iter().chain(&stated_inputs) {
            assert!(folder.path(name).is_file(), "{line}: {name}");
            assert!(sha256sum(&folder, name).is_none_or(|wanted| wanted == *digest), "{line}: {name}");
        }
        assert!(stated_inputs.keys().all(|name| !stated_outputs.contains_key(name)), "{line}");
        let text = folder.amn("verify --provenance statement.json").ok();
        assert!(text.ends_with("as stated\n"), "{line}: {text}");
        fs::remove_file(folder.path("statement.json")).unwrap();
    }
}

#[test]
fn a_statement_does_not_depend_on_the_time_or_the_run() {
    let folder = folder();
    let line = format!("remember {NAME} {SMALL} -o out --provenance statement.json --force --quiet");
    folder.amn(&line).ok();
    let first = fs::read(folder.path("statement.json")).unwrap();
    folder.amn(&line).ok();
    assert!(fs::read(folder.path("statement.json")).unwrap() == first);
}

#[test]
fn kept_shards_of_an_earlier_run_are_stated_too() {
    let folder = folder();
    let line = format!("remember {NAME} {SMALL} -o out --quiet");
    folder.amn(&format!("{line} --part 1/2")).ok();
    folder.amn(&format!("{line} --provenance statement.json")).ok();
    assert_eq!(resources(&statement(&folder, "statement.json"), "/subject").len(), 6 + 3);
}

#[test]
fn a_changed_file_is_named() {
    let folder = folder();
    folder.amn(&format!("remember {NAME} {SMALL} -o out --provenance statement.json --quiet")).ok();
    let change = |name: &str| {
        let mut bytes = fs::read(folder.path(name)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(folder.path(name), bytes).unwrap();
    };
    let shard = format!("out/{}", checkpoint::shard_name(3, 6));
    change(&shard);
    let run = folder.amn("verify --provenance statement.json");
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), "error: 1 file is not as the statement says\n"), "{run:?}");
    assert!(run.stdout.contains(&format!("output  differs     {shard}\n")), "{run:?}");
    assert!(
        run.stdout.contains(&format!("  1. output \"{shard}\" differs from the statement: its SHA-256 is ")),
        "{run:?}"
    );
    change(&shard);
    let input = format!("{NAME}/config.json");
    change(&input);
    let run = folder.amn("verify --provenance statement.json --json");
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &document["sound"]), (Some(1), &false.into()));
    let states = |kind: &str| {
        document[kind]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| (file["name"].as_str().unwrap().to_owned(), file["state"].as_str().unwrap().to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(states("inputs")[&input], "differs");
    assert!(states("outputs").values().all(|state| state == "matches"));
    // An output that is missing is a problem, an input is not.
    fs::remove_dir_all(folder.path(NAME)).unwrap();
    assert!(folder.amn("verify --provenance statement.json").ok().contains("input   missing"));
    fs::remove_file(folder.path("out/config.json")).unwrap();
    let run = folder.amn("verify --provenance statement.json");
    assert!(run.code == Some(1) && run.stdout.contains("output \"out/config.json\" is missing"), "{run:?}");
}

#[test]
fn moved_outputs_are_found_and_single_files_compared() {
    let folder = folder();
    folder.amn(&format!("remember {NAME} {SMALL} -o out --provenance statement.json --quiet")).ok();
    fs::rename(folder.path("out"), folder.path("elsewhere")).unwrap();
    assert_eq!(folder.amn("verify --provenance statement.json").code, Some(1));
    folder.amn("verify elsewhere --provenance statement.json").ok();
    let shard = checkpoint::shard_name(2, 6);
    let text = folder.amn(&format!("verify elsewhere/{shard} --provenance statement.json")).ok();
    assert_eq!(text, format!("output  matches     out/{shard}\nas stated\n"));
    fs::write(folder.path("elsewhere").join(&shard), "other").unwrap();
    assert_eq!(folder.amn(&format!("verify elsewhere/{shard} --provenance statement.json")).code, Some(1));
    let other = folder.amn("verify model.safetensors --provenance statement.json").refused();
    assert!(other.contains("is not a file of this statement"), "{other}");
}

#[test]
fn nothing_is_stated_about_a_command_that_fails_or_writes_no_file() {
    let folder = folder();
    folder.amn("remember missing.safetensors -o a.safetensors --provenance s.json").failed();
    for (line, why) in [
        ("remember model.safetensors -o - --provenance s.json", "standard stream"),
        ("hash model.safetensors --provenance s.json", "-o names"),
        ("remember model.safetensors -o s.json --provenance s.json", "are both"),
        ("remember model.safetensors -o a.safetensors --provenance -", "not to standard output"),
        ("remember model.safetensors --dry-run --provenance s.json", "cannot be used with"),
        ("remember Tiny-3.1-FP8 --part 1/2 --provenance s.json", "cannot be used with"),
    ] {
        let run = folder.amn(line);
        assert!(run.code == Some(2) && run.stderr.contains(why), "{run:?}");
    }
    let before = folder.names();
    fs::write(folder.path("old.json"), "old").unwrap();
    let refused = folder.amn("remember model.safetensors -o a.safetensors --provenance old.json").failed();
    assert!(refused.contains("old.json exists") && refused.contains("--force"), "{refused}");
    assert_eq!(fs::read(folder.path("old.json")).unwrap(), b"old");
    fs::remove_file(folder.path("old.json")).unwrap();
    assert_eq!(folder.names(), before, "an output appeared");
    let forced = "remember model.safetensors -o a.safetensors --force --provenance model.safetensors";
    let input = fs::read(folder.path("model.safetensors")).unwrap();
    assert!(folder.amn(forced).refused().contains("is an input or an output"));
    assert!(fs::read(folder.path("model.safetensors")).unwrap() == input);
}

#[test]
fn hostile_statements_are_refused_by_reason() {
    let folder = folder();
    folder.amn("hash model.safetensors -o a.hash --provenance s.json").ok();
    let text = fs::read_to_string(folder.path("s.json")).unwrap();
    for (from, to, why) in [
        ("in-toto.io/Statement/v1", "in-toto.io/Statement/v9", "/_type"),
        ("\"subject\": [", "\"subject\": [1, ", "neither name nor uri"),
        ("{", "", "not JSON"),
    ] {
        fs::write(folder.path("bad.json"), text.replacen(from, to, 1)).unwrap();
        let error = folder.amn("verify --provenance bad.json").failed();
        assert!(error.contains(why), "{error}");
    }
    // Names that are escape sequences, devices and folders.
    for (name, why) in [("\\u001b[31mred", "missing"), ("/dev/zero", "not a regular file"), (".", "directory")] {
        fs::write(folder.path("bad.json"), text.replacen("\"name\": \"a.hash\"", &format!("\"name\": \"{name}\""), 1))
            .unwrap();
        let run = folder.amn("verify --provenance bad.json");
        assert!(run.code == Some(1) && run.stdout.contains(why) && !run.stdout.contains('\x1b'), "{run:?}");
    }
    fs::write(folder.path("deep.json"), "[".repeat(1 << 20)).unwrap();
    folder.amn("verify --provenance deep.json").failed();
}
