//! The modules around an encoder, as sentence-transformers stores them (`modules.json`).

use serde_json::{Map, Value};

use super::key::POOLING_KEY;
use super::sidecars::SidecarFiles;
use crate::error::{AnamnesisError, Result};
use crate::json;

/// The modes of pooling, and the older keys that select them.
const MODES: [(&str, &str); 3] =
    [("pooling_mode_mean_tokens", "mean"), ("pooling_mode_cls_token", "cls"), ("pooling_mode_lasttoken", "lasttoken")];

/// The path of the first module of a kind: the end of its type.
fn path_of(files: &dyn SidecarFiles, kind: &str) -> Result<Option<String>> {
    let Some(text) = files.read("modules.json")? else { return Ok(None) };
    let modules: Value =
        json::from_slice(&text).map_err(|error| AnamnesisError::parse(format!("modules.json: {error}")))?;
    let is_kind = |module: &&Value| module.get("type").and_then(Value::as_str).is_some_and(|name| name.ends_with(kind));
    let module = modules.as_array().and_then(|modules| modules.iter().find(is_kind));
    Ok(module.and_then(|module| module.get("path")).and_then(Value::as_str).map(str::to_owned))
}

/// Adds the pooling mode to a configuration.
pub(crate) fn add_pooling(files: &dyn SidecarFiles, raw: &mut Map<String, Value>) -> Result<()> {
    let Some(path) = path_of(files, "Pooling")? else { return Ok(()) };
    // A path out of the directory is not followed.
    if path.contains("..") || path.starts_with('/') {
        return Err(AnamnesisError::parse(format!("modules.json: the path {path:?} leaves the directory")));
    }
    let name = format!("{path}/config.json");
    let Some(text) = files.read(&name)? else {
        return Err(AnamnesisError::parse(format!("modules.json: there is no {name}")));
    };
    let pooling: Value = json::from_slice(&text).map_err(|error| AnamnesisError::parse(format!("{name}: {error}")))?;
    let by_flag = MODES.iter().find(|(flag, _)| pooling.get(*flag).and_then(Value::as_bool) == Some(true));
    let mode = by_flag.map(|(_, mode)| (*mode).to_owned());
    let mode = mode.or_else(|| pooling.get("pooling_mode").and_then(Value::as_str).map(str::to_owned));
    let Some(mode) = mode else {
        return Err(AnamnesisError::parse(format!("{name}: its pooling is none of mean, cls and lasttoken")));
    };
    raw.insert(POOLING_KEY.to_owned(), Value::from(mode));
    Ok(())
}
