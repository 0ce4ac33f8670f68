//! The manifest: what an output directory is made of. The same command finds its own and goes on; another is refused.

use std::path::Path;

use serde_json::{Value, json};

use super::DirectoryPlan;
use crate::checkpoint::read_sidecar;
use crate::convert::{ConvertOptions, ConvertTarget};
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::output::{Existing, PendingFile};

/// The manifest's name in the output directory.
pub(super) const FILE: &str = ".anamnesis.json";

/// What the output of this plan is made of. Parts of one conversion share it.
pub(super) fn of(plan: &DirectoryPlan<'_>) -> Result<Value> {
    let config_files = plan.checkpoint.config_files();
    let files = plan.checkpoint.input_files().map(|(name, path)| (name, path.to_path_buf()));
    let inputs: Vec<Value> = files
        .chain(config_files)
        .map(|(name, path)| {
            let path = &path;
            let metadata = std::fs::metadata(path).map_err(|error| AnamnesisError::at_path(error, path))?;
            let modified = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            let modified = modified.map(|time| time.as_nanos().to_string());
            Ok(json!({ "name": name, "bytes": metadata.len(), "modified": modified }))
        })
        .collect::<Result<_>>()?;
    let outputs: Vec<Value> = plan.shards().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect();
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "target": plan.what,
        "shard_bytes": plan.options.shard_bytes,
        "inputs": inputs,
        "outputs": outputs,
    }))
}

/// What a conversion is, as far as its bytes depend on it.
pub(super) fn what(target: ConvertTarget, options: &ConvertOptions) -> Value {
    let dtype = options.output_dtype.map(|dtype| dtype.to_string());
    let ConvertOptions { cast, selection, block_size, double_quant, quantised, allow_nonfinite, .. } = options;
    json!({
        "name": target.name(),
        "dtype": dtype,
        "cast": format!("{cast:?}"),
        "selection": format!("{selection:?}"),
        "quantised": format!("{quantised:?}"),
        "block_size": block_size,
        "double_quant": double_quant,
        "allow_nonfinite": allow_nonfinite,
    })
}

/// Makes sure that the directory carries this manifest: writes it, or finds the same one. Says whether it was there.
pub(super) fn settle(directory: &Path, manifest: &Value) -> Result<bool> {
    if let Some(found) = read(directory)? {
        return compare(&found, manifest).map(|()| true);
    }
    let mut text = serde_json::to_vec_pretty(manifest).map_err(std::io::Error::from)?;
    text.push(b'\n');
    let file = PendingFile::create(&directory.join(FILE), Existing::Refuse, text.len() as u64)?;
    file.write_at(0, &text)?;
    match file.commit() {
        Ok(()) => Ok(false),
        // Another part was faster.
        Err(error) => match read(directory)? {
            Some(found) => compare(&found, manifest).map(|()| true),
            None => Err(error),
        },
    }
}

/// The manifest of a directory, if it has one.
pub(super) fn read(directory: &Path) -> Result<Option<Value>> {
    if !directory.join(FILE).is_file() {
        return Ok(None);
    }
    let text = read_sidecar(directory, FILE)?;
    let value = serde_json::from_slice(&text)
        .map_err(|error| AnamnesisError::parse(format!("{}: {error}", directory.join(FILE).display())))?;
    Ok(Some(value))
}

/// Refuses to go on with a directory that something else has begun, and says what differs.
fn compare(found: &Value, wanted: &Value) -> Result<()> {
    let differs = |key: &str| found[key] != wanted[key];
    let reason = if found == wanted {
        return Ok(());
    } else if differs("inputs") {
        let pairs =
            found["inputs"].as_array().into_iter().flatten().zip(wanted["inputs"].as_array().into_iter().flatten());
        match pairs.into_iter().find(|(found, wanted)| found != wanted) {
            Some((found, wanted)) => format!("input {} has changed: {found} then, {wanted} now", wanted["name"]),
            None => "it was made of another number of files".to_owned(),
        }
    } else {
        let key = ["version", "target", "shard_bytes"].into_iter().find(|key| differs(key)).unwrap_or("outputs");
        format!("its {key} is {}, now it would be {}", found[key], wanted[key])
    };
    Err(AnamnesisError::parse(format!(
        "the output directory was begun by another conversion: {reason}; use --force to start again"
    )))
}

/// What a conversion has begun in this directory and not finished, for people.
pub(crate) fn unfinished_outputs(directory: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    if let Some(manifest) = read(directory)? {
        for output in manifest["outputs"].as_array().into_iter().flatten() {
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
        if name.starts_with('.') && name.ends_with(".partial") {
            problems.push(format!("{} was left half-written", quoted(&name)));
        }
    }
    problems.sort();
    Ok(problems)
}
