//! The findings of `scan` as SARIF 2.1.0, which code scanning services read.
//!
//! | rule | level | finding |
//! |---|---|---|
//! | `pickle-runs-code` | error | a global that runs code or gives access to it |
//! | `pickle-unknown-global` | error | a global that is not on the allow list |
//! | `malformed` | error | a pickle or a file that cannot be read as a whole |
//!
//! A finding in a pickle that is not loaded is a warning. Locations are byte offsets: in the file, or in the entry of an
//! archive, which is named in the message.

use std::path::Path;

use anamnesis::{Grade, ScannedGlobal, ScannedPickle};
use serde_json::{Value, json};

use super::Scanned;

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The rules, with their descriptions, in the order of their indices.
const RULES: [(&str, &str); 3] = [
    ("pickle-runs-code", "Loading the file in Python runs code or gives access to it."),
    ("pickle-unknown-global", "The pickle refers to a name that is not known to be plain data."),
    ("malformed", "The file cannot be read as a whole, and readers may disagree about its content."),
];
const RUNS_CODE: usize = 0;
const UNKNOWN: usize = 1;
const MALFORMED: usize = 2;

/// The log of all files.
pub(super) fn log(files: &[Scanned]) -> Value {
    let results: Vec<Value> = files.iter().flat_map(results).collect();
    let rules: Vec<Value> = RULES
        .iter()
        .map(|(id, text)| {
            json!({ "id": id, "shortDescription": { "text": text }, "defaultConfiguration": { "level": "error" } })
        })
        .collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": { "name": "amn", "semanticVersion": env!("CARGO_PKG_VERSION"), "rules": rules },
            },
            "artifacts": files.iter().map(|file| json!({ "location": location(&file.path) })).collect::<Vec<_>>(),
            "results": results,
        }],
    })
}

fn results(file: &Scanned) -> Vec<Value> {
    let mut results = Vec::new();
    for pickle in &file.report.pickles {
        let level = if pickle.loaded { "error" } else { "warning" };
        for global in pickle.globals.iter().filter(|global| !global.allowed) {
            let rule = if global.grade == Grade::RunsCode { RUNS_CODE } else { UNKNOWN };
            results.push(result(rule, level, &refers(pickle, global), &file.path, place(pickle, global.position)));
        }
        if let Some(problem) = &pickle.problem {
            results.push(result(MALFORMED, level, problem, &file.path, place(pickle, pickle.bytes)));
        }
    }
    results.extend(file.report.problems.iter().map(|problem| result(MALFORMED, "error", problem, &file.path, None)));
    results
}

fn refers(pickle: &ScannedPickle, global: &ScannedGlobal) -> String {
    let entry = if pickle.name.is_empty() { String::new() } else { format!("{}: ", pickle.name) };
    let unloaded = if pickle.loaded { String::new() } else { format!(", in a {} that is not loaded", pickle.language) };
    format!("{entry}refers to {}.{} ({}{unloaded})", global.module, global.name, global.grade)
}

/// The offset of a finding in the file; `None` in an archive, whose entries may be compressed.
fn place(pickle: &ScannedPickle, position: u64) -> Option<u64> {
    pickle.name.is_empty().then(|| pickle.offset.saturating_add(position))
}

fn result(rule: usize, level: &str, text: &str, path: &Path, offset: Option<u64>) -> Value {
    let mut physical = json!({ "artifactLocation": location(path) });
    if let Some(offset) = offset {
        physical["region"] = json!({ "byteOffset": offset, "byteLength": 1 });
    }
    json!({
        "ruleId": RULES[rule].0,
        "ruleIndex": rule,
        "level": level,
        "message": { "text": text },
        "locations": [{ "physicalLocation": physical }],
    })
}

/// A path as a relative or absolute URI reference.
fn location(path: &Path) -> Value {
    let text = path.to_string_lossy().replace('\\', "/");
    let mut uri = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(char::from(byte)),
            // The colon of an address; in a relative name it would be taken for a scheme.
            b':' if text.contains("://") => uri.push(':'),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    let is_absolute = uri.starts_with('/');
    json!({ "uri": if is_absolute { format!("file://{uri}") } else { uri } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_uri_references() {
        let uri = |path: &str| location(Path::new(path))["uri"].as_str().unwrap_or_default().to_owned();
        assert_eq!(uri("a folder/model.pth"), "a%20folder/model.pth");
        assert_eq!(uri("/tmp/ü.bin"), "file:///tmp/%C3%BC.bin");
        assert_eq!(uri("hf:org/name"), "hf%3Aorg/name");
        assert_eq!(uri("https://host/model.bin"), "https://host/model.bin");
    }
}
