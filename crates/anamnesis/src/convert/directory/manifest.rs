//! The manifest: which plan an output directory belongs to while it is being written. The same plan finds its own and goes on;
//! another is refused. A finished directory has none.
//!
//! | member | what |
//! |---|---|
//! | `version` | of the program |
//! | `inputs` | name, bytes and time of change of every file that was read |
//! | `outputs` | name, bytes and fingerprint of every weight file |
//! | `beside` | a digest of the texts that are written anew |
//! | `made` | target and type, to tell people what the directory holds |

use std::fs::File;
use std::hash::Hash;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::DirectoryPlan;
use crate::checkpoint::read_bounded;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::output::{Existing, PendingFile};
use crate::io::temporary::PARTIAL;
use crate::pipeline::{Digest, Fingerprint};

/// The manifest's name in the output directory.
pub(super) const FILE: &str = ".anamnesis.json";

/// Longest manifest read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The folder in an output directory that is to be replaced, where the new files are until all of them are complete.
pub(super) const STAGE: &str = ".anamnesis.new";

/// What the output of this plan is made of. Parts of one conversion share it.
pub(super) fn of(plan: &DirectoryPlan) -> Result<Value> {
    let inputs: Vec<Value> = plan
        .files
        .iter()
        .map(|(name, path)| {
            let metadata = std::fs::metadata(path).map_err(|error| AnamnesisError::at_path(error, path))?;
            let modified = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            let modified = modified.map(|time| time.as_nanos().to_string());
            Ok(json!({ "name": name, "bytes": metadata.len(), "modified": modified }))
        })
        .collect::<Result<_>>()?;
    let output = |shard: &super::Shard| {
        let print = Fingerprint::of(&shard.plan, &plan.input.sources);
        json!({
            "name": shard.name,
            "bytes": shard.plan.total_bytes,
            "layout": print.outputs.to_string(),
            "sources": print.sources.to_string(),
            "coding": print.coding.to_string(),
        })
    };
    let mut beside = Digest::new();
    plan.written_beside()?.hash(&mut beside);
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "made": { "target": plan.target.name(), "dtype": plan.dtype.map(|dtype| dtype.to_string()) },
        "inputs": inputs,
        "outputs": plan.shards.iter().map(output).collect::<Vec<_>>(),
        "beside": beside.to_string(),
    }))
}

/// Writes the manifest into a directory that has none, and holds it.
pub(super) fn write(directory: &Path, manifest: &Value) -> Result<Arc<File>> {
    let mut text = serde_json::to_vec_pretty(manifest).map_err(std::io::Error::from)?;
    text.push(b'\n');
    let file = PendingFile::create(&directory.join(FILE), Existing::Refuse, text.len() as u64)?;
    file.write_at(0, &text)?;
    file.commit_locked()
}

/// The manifest of a directory, if it has one.
pub(super) fn read(directory: &Path) -> Result<Option<Value>> {
    let Some(text) = read_bounded(&directory.join(FILE), MAX_BYTES, None)? else { return Ok(None) };
    let value = serde_json::from_slice(&text)
        .map_err(|error| AnamnesisError::parse(format!("{}: {error}", directory.join(FILE).display())))?;
    Ok(Some(value))
}

/// Refuses to go on with a directory that another plan has begun, and says where the two differ.
pub(super) fn compare(found: &Value, wanted: &Value) -> Result<()> {
    // What the directory holds is told from the other members; by itself it decides nothing.
    let is_same = ["version", "inputs", "outputs", "beside"].iter().all(|key| found[key] == wanted[key]);
    if is_same { Ok(()) } else { Err(AnamnesisError::OtherPlan { difference: difference(found, wanted) }) }
}

/// The first difference that a person can do something about.
fn difference(found: &Value, wanted: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("other").to_owned();
    if found["version"] != wanted["version"] {
        return format!("version {} began it, this is {}", text(&found["version"]), text(&wanted["version"]));
    }
    if found["inputs"] != wanted["inputs"] {
        return different_inputs(&found["inputs"], &wanted["inputs"]);
    }
    for key in ["target", "dtype"] {
        if found["made"][key] != wanted["made"][key] {
            let (then, now) = (text(&found["made"][key]), text(&wanted["made"][key]));
            return format!("it holds {} {then} conversion, this one is {now}", article(&then));
        }
    }
    let (then, now) = (entries(&found["outputs"]), entries(&wanted["outputs"]));
    if then.len() != now.len() {
        return format!("it is cut into {} weight files, this one into {}", then.len(), now.len());
    }
    let differs = |key: &str| then.iter().zip(now).any(|(then, now)| then[key] != now[key]);
    let what = if differs("layout") {
        "its weight files hold tensors of other names, types or shapes, or are cut elsewhere"
    } else if differs("sources") {
        "its tensors come from other parts of the input"
    } else if differs("coding") {
        "its weights are decoded or quantised in another way"
    } else {
        "its configuration is written in another way"
    };
    what.to_owned()
}

fn different_inputs(found: &Value, wanted: &Value) -> String {
    let (then, now) = (entries(found), entries(wanted));
    let name = |input: &Value| quoted(input["name"].as_str().unwrap_or_default());
    let Some((then, now)) = then.iter().zip(now).find(|(then, now)| then != now) else {
        return format!("it is made of {} files, this one of {}", then.len(), now.len());
    };
    if then["name"] == now["name"] {
        return format!("the input {} has changed since", name(now));
    }
    format!("it is made of {}, this one of {}", name(then), name(now))
}

fn entries(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// Letters and numbers that are spoken with a vowel in front.
fn article(word: &str) -> &'static str {
    if word.starts_with(['F', 'a', 'e', 'i', 'o', '8']) { "an" } else { "a" }
}

/// What a conversion has begun in this directory and not finished, for people.
pub(crate) fn unfinished_outputs(directory: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    if let Some(manifest) = read(directory)? {
        for output in entries(&manifest["outputs"]) {
            let (name, bytes) = (output["name"].as_str().unwrap_or_default(), output["bytes"].as_u64());
            let found = std::fs::metadata(directory.join(name)).ok().map(|metadata| metadata.len());
            if found.is_none() {
                problems.push(format!("{} has not been written yet", quoted(name)));
            } else if found != bytes {
                problems.push(format!("{} has {found:?} bytes, {bytes:?} were planned", quoted(name)));
            }
        }
    }
    for entry in std::fs::read_dir(directory).map_err(|error| AnamnesisError::at_path(error, directory))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && name.ends_with(PARTIAL) {
            problems.push(format!("{} was left half-written", quoted(&name)));
        }
        if name == STAGE {
            problems.push(format!("{} holds a conversion that was not finished", quoted(&name)));
        }
    }
    problems.sort_unstable();
    Ok(problems)
}
