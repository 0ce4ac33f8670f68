//! The manifest: identifies the plan of an output directory while it is being written. A run with the same plan
//! resumes; a run with another plan is refused. A finished directory has no manifest.
//!
//! | member | content |
//! |---|---|
//! | `version` | version of the program |
//! | `inputs` | name, size and modification time (or version in a store) of every input file |
//! | `outputs` | name, size and plan fingerprint of every weight file |
//! | `beside` | digest of the generated sidecars |
//! | `made` | target and dtype, for error messages only |

use std::fs::File;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::NamedPlan;
use crate::catalog::TargetDtype;
use crate::checkpoint::read_bounded;
use crate::convert::ConvertTarget;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::output::PendingFile;
use crate::io::temporary::PARTIAL;
use crate::io::{Existing, Source, existing_entry};
use crate::pipeline::{Digest, Fingerprint};

/// The file name of the manifest in the output directory.
pub(in crate::convert) const FILE: &str = ".anamnesis.json";

/// Maximum size of a manifest that is read.
const MAX_BYTES: u64 = 256 << 20;

/// The folder in which new files are staged until all of them are complete, if they replace an existing output.
pub(in crate::convert) const STAGE: &str = ".anamnesis.new";

/// What a manifest identifies.
pub(in crate::convert) struct Contents<'a> {
    pub target: ConvertTarget,
    pub dtype: Option<TargetDtype>,
    /// The input files with their names.
    pub inputs: &'a [(String, PathBuf)],
    pub sources: &'a [Box<dyn Source>],
    pub files: &'a [NamedPlan<'a>],
    /// The generated files beside them.
    pub sidecars: &'a [(String, Vec<u8>)],
}

/// The manifest of these contents. It is the same for all parts of one conversion.
pub(in crate::convert) fn of(contents: &Contents<'_>) -> Result<Value> {
    let input = |(name, path): &(String, PathBuf)| {
        let entry = existing_entry(path)?;
        Ok(json!({ "name": name, "bytes": entry.bytes, "modified": entry.version }))
    };
    let output = |&(name, plan): &NamedPlan<'_>| {
        let print = Fingerprint::of(plan, contents.sources);
        json!({
            "name": name,
            "bytes": plan.total_bytes,
            "layout": print.outputs.to_string(),
            "sources": print.sources.to_string(),
            "coding": print.coding.to_string(),
        })
    };
    let mut sidecars = Digest::new();
    contents.sidecars.hash(&mut sidecars);
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "made": { "target": contents.target.name(), "dtype": contents.dtype.map(|dtype| dtype.to_string()) },
        "inputs": contents.inputs.iter().map(input).collect::<Result<Vec<_>>>()?,
        "outputs": contents.files.iter().map(output).collect::<Vec<_>>(),
        "beside": sidecars.to_string(),
    }))
}

/// Writes the manifest into a directory that has none, and locks it; a store has no locks.
pub(super) fn write(directory: &Path, manifest: &Value) -> Result<Option<Arc<File>>> {
    let mut text = serde_json::to_vec_pretty(manifest).map_err(std::io::Error::from)?;
    text.push(b'\n');
    let file = PendingFile::create(&directory.join(FILE), Existing::Refuse, text.len() as u64)?;
    file.write_at(0, &text)?;
    file.commit_locked()
}

/// The manifest of a directory, if it has one.
pub(in crate::convert) fn read(directory: &Path) -> Result<Option<Value>> {
    let Some(text) = read_bounded(&directory.join(FILE), MAX_BYTES, None)? else { return Ok(None) };
    let value = serde_json::from_slice(&text)
        .map_err(|error| AnamnesisError::parse(format!("{}: {error}", directory.join(FILE).display())))?;
    Ok(Some(value))
}

/// Refuses to resume a directory that another plan has begun; the error names the first difference.
pub(super) fn compare(found: &Value, wanted: &Value) -> Result<()> {
    // `made` is derived from the options of the same plan, so comparing it adds nothing.
    let is_same = ["version", "inputs", "outputs", "beside"].iter().all(|key| found[key] == wanted[key]);
    if is_same { Ok(()) } else { Err(AnamnesisError::OtherPlan { difference: difference(found, wanted) }) }
}

/// The first difference between two manifests that a user can act on.
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
        return format!("it has {} weight files, this one has {}", then.len(), now.len());
    }
    let differs = |key: &str| then.iter().zip(now).any(|(then, now)| then[key] != now[key]);
    let what = if differs("layout") {
        "its weight files hold tensors of other names, types or shapes, or are split at other tensors"
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

/// The indefinite article: "an" before words that are pronounced with a vowel first.
fn article(word: &str) -> &'static str {
    if word.starts_with(['F', 'a', 'e', 'i', 'o', '8']) { "an" } else { "a" }
}

/// Descriptions of the conversions that have begun in this directory and are unfinished.
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
