//! The JSON documents: their fields are those that `docs/json.md` describes.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::checkpoint::NAME;
use crate::guides::root;
use crate::{samples, snapshots, towers};

/// Runs that together print every field; each in a folder of its own.
fn lines(command: &str) -> Vec<String> {
    let lines: &[&str] = match command {
        "parse" => &["parse model.gguf --list", "parse model-fp8.safetensors", "parse DIRECTORY -l"],
        "inspect" => &["inspect model.gguf --metadata", "inspect DIRECTORY", "inspect Tiny-Llama"],
        "tree" => &["tree Tiny-Llama"],
        "report" => &["report Tiny-Llama"],
        "remember" => &[
            "remember model-fp8.safetensors",
            "remember model-fp8.safetensors --dry-run",
            "remember DIRECTORY",
            "remember DIRECTORY --dry-run --part 1/2",
        ],
        "convert" => &[
            "convert model.gguf --to npz",
            "convert plain.safetensors --to bnb-nf4 --report",
            "convert plain.safetensors --to bnb-nf4 --dry-run",
            "convert model.gguf --to gguf --split-max-tensors 3 --dry-run",
            "convert DIRECTORY --to safetensors",
            "convert DIRECTORY --to bnb-nf4 --report",
            "convert DIRECTORY --to bnb-nf4 --dry-run --part 1/2",
            "convert model --to gguf --gguf-kv tokenizer.ggml.pre=gpt-2 --with-mmproj",
        ],
        "forget" => &[
            "forget plain.safetensors --to bnb-nf4 --report",
            "forget plain.safetensors --to bnb-nf4 --dry-run",
            "forget model.gguf --to q8_0 --split-max-tensors 3 --dry-run --allow-empty",
            "forget DIRECTORY --to bnb-nf4 --report",
            "forget DIRECTORY --to bnb-nf4 --dry-run --part 1/2",
            "forget plain.safetensors --compare fp8-channel,w4a16 --report",
            "forget plain.safetensors --fit 2400 --to q4_0,q8_0 --dry-run",
        ],
        "verify" => &["verify DIRECTORY"],
        "stats" => &["stats model.gguf"],
        "diff" => &["diff plain.safetensors plain.safetensors"],
        "hash" => &["hash model.gguf"],
        "show" => &[
            "show plain.safetensors model.norm.weight[:3]",
            "show plain.safetensors model.norm.weight -o norm.npy",
            "show Tiny-GPTQ model.layers.0.self_attn.q_proj.weight --stored",
        ],
        "scan" => &["scan checkpoint.pth"],
        "formats" => &["formats"],
        "demo" => &["demo"],
        "completions" => &["completions bash"],
        "man" => &["man", "man --dir pages"],
        other => panic!("say how to run amn {other}"),
    };
    lines.iter().map(|line| line.replace("DIRECTORY", NAME) + " --json").collect()
}

#[test]
fn every_field_is_documented_and_every_documented_field_is_printed() {
    let text = fs::read_to_string(root().join("docs/json.md")).unwrap();
    let mut faults = Vec::new();
    for command in snapshots::names() {
        let documented = documented(&text, &command);
        let mut printed = BTreeSet::new();
        for line in lines(&command) {
            let folder = if line.contains("--with-mmproj") { towers::multimodal() } else { samples::folder() };
            let document = folder.amn_within(&line).json();
            assert_eq!(document["command"], command.as_str(), "{line}");
            collect("", &document, &documented, &mut printed);
        }
        faults.extend(printed.difference(&documented).map(|field| format!("amn {command}: {field} is not documented")));
        faults.extend(documented.difference(&printed).map(|field| format!("amn {command}: {field} is not printed")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn failures_have_the_documented_fields_and_kinds() {
    let text = fs::read_to_string(root().join("docs/json.md")).unwrap();
    let documented = documented(&text, "errors");
    let folder = samples::folder();
    for (line, kind, code) in [
        ("parse nothing.safetensors --json", "io", 1),
        ("parse empty.safetensors --json", "parse", 1),
        ("inspect model.gguf --to int3 --json", "usage", 2),
        ("convert plain.safetensors --to npz --include nothing --json", "usage", 2),
        ("parse --json", "usage", 2),
        ("frobnicate --json", "usage", 2),
        ("remember model.gguf --single-file --json", "usage", 2),
    ] {
        let run = folder.amn(line);
        let document: Value = serde_json::from_str(&run.stderr).unwrap_or_else(|_| panic!("{line}: {run:?}"));
        let mut printed = BTreeSet::new();
        collect("", &document, &documented, &mut printed);
        assert_eq!(printed, documented, "{line}");
        assert_eq!((run.code, &document["error"]["kind"]), (Some(code), &kind.into()), "{line}");
        assert!(text.contains(&format!("`{kind}`")), "the kind {kind} is not documented");
    }
}

/// The fields in the tables of every section whose title names the command.
fn documented(text: &str, command: &str) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    let mut is_meant = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let is_general = title == "Every document" && command != "errors";
            let lower = title.to_lowercase();
            is_meant = is_general || lower.split([',', ' ']).any(|word| word == command);
        }
        if let Some(name) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()).filter(|_| is_meant) {
            fields.insert(name.to_owned());
        }
    }
    assert!(!fields.is_empty(), "docs/json.md has no section about {command}");
    fields
}

/// The fields of a document, down to those whose insides are documented: `a`, `a.b`, `a[].b`.
fn collect(path: &str, value: &Value, documented: &BTreeSet<String>, fields: &mut BTreeSet<String>) {
    let is_open = |inside: &str| path.is_empty() || documented.iter().any(|field| field.starts_with(inside));
    match value {
        Value::Object(members) => {
            let front = if path.is_empty() { String::new() } else { format!("{path}.") };
            if is_open(&front) {
                for (name, member) in members {
                    let path = format!("{front}{name}");
                    fields.insert(path.clone());
                    collect(&path, member, documented, fields);
                }
            }
        }
        Value::Array(items) => {
            let path = format!("{path}[]");
            items.iter().for_each(|item| collect(&path, item, documented, fields));
        }
        _ => {}
    }
}
