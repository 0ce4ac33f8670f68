//! The modules around an encoder, as sentence-transformers stores them (`modules.json`).

use serde_json::{Map, Value};

use super::sidecars::SidecarFiles;
use crate::error::{AnamnesisError, Result};
use crate::json;

/// The key that the pooling mode of `modules.json` is read as.
pub(crate) const POOLING_KEY: &str = "sentence_transformers_pooling";

/// The modes of pooling, and the older keys that select them.
const MODES: [(&str, &str); 3] =
    [("pooling_mode_mean_tokens", "mean"), ("pooling_mode_cls_token", "cls"), ("pooling_mode_lasttoken", "lasttoken")];

/// Which dense modules of a model are tensors of GGUF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DenseModules {
    None,
    /// The module in this folder, as `dense_2.weight`.
    Always(&'static str),
    /// Those that `modules.json` lists, if they are requested.
    OnRequest,
}

/// A dense module: a matrix behind the pooling.
#[derive(Debug, Clone)]
pub(crate) struct DenseModule {
    /// Its name in GGUF.
    pub name: &'static str,
    /// The folder it is in.
    pub folder: String,
    /// The number of its inputs and outputs, if its own configuration has them.
    pub features: Option<[u64; 2]>,
    /// The rows of its weight, once it is read.
    pub rows: u64,
}

/// The module that is called `dense_2`; others are `dense_3`.
const FIRST_DENSE: &str = "2_Dense";

impl DenseModules {
    /// The modules of a model.
    pub(crate) fn of(self, files: &dyn SidecarFiles, are_requested: bool) -> Result<Vec<DenseModule>> {
        match self {
            Self::Always(folder) => {
                Ok(vec![DenseModule { name: "dense_2", folder: folder.to_owned(), features: None, rows: 0 }])
            }
            Self::OnRequest if are_requested => paths_of(files, "Dense")?
                .into_iter()
                .map(|folder| {
                    let name = if folder == FIRST_DENSE { "dense_2" } else { "dense_3" };
                    Ok(DenseModule { name, features: features(files, &folder)?, folder, rows: 0 })
                })
                .collect(),
            Self::None | Self::OnRequest => Ok(Vec::new()),
        }
    }
}

/// The number of inputs and outputs of a dense module.
fn features(files: &dyn SidecarFiles, folder: &str) -> Result<Option<[u64; 2]>> {
    let name = format!("{folder}/config.json");
    let Some(text) = files.read(&name)? else { return Ok(None) };
    let module: Value = json::from_slice(&text).map_err(|error| AnamnesisError::parse(format!("{name}: {error}")))?;
    let feature = |key: &str| match module.get(key) {
        None => Err(AnamnesisError::parse(format!("{name}: there is no {key}"))),
        Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .map(Some)
            .ok_or_else(|| AnamnesisError::parse(format!("{name}: {key} is {value}, a count is needed"))),
    };
    Ok(feature("in_features")?.zip(feature("out_features")?).map(|(inputs, outputs)| [inputs, outputs]))
}

/// The paths of the modules of a kind: the end of their types.
fn paths_of(files: &dyn SidecarFiles, kind: &str) -> Result<Vec<String>> {
    let Some(text) = files.read("modules.json")? else { return Ok(Vec::new()) };
    let modules: Value =
        json::from_slice(&text).map_err(|error| AnamnesisError::parse(format!("modules.json: {error}")))?;
    let is_kind = |module: &&Value| module.get("type").and_then(Value::as_str).is_some_and(|name| name.ends_with(kind));
    let modules = modules.as_array().map_or(&[][..], Vec::as_slice).iter().filter(is_kind);
    let paths = modules.filter_map(|module| module.get("path").and_then(Value::as_str));
    let inside = |path: &str| match path.contains("..") || path.starts_with('/') {
        // A path out of the directory is not followed.
        true => Err(AnamnesisError::parse(format!("modules.json: the path {path:?} leaves the directory"))),
        false => Ok(path.to_owned()),
    };
    paths.map(inside).collect()
}

/// Adds the pooling mode to a configuration.
pub(crate) fn add_pooling(files: &dyn SidecarFiles, raw: &mut Map<String, Value>) -> Result<()> {
    let Some(path) = paths_of(files, "Pooling")?.into_iter().next() else { return Ok(()) };
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
