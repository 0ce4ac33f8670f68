//! The model that a draft model predicts for.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::architecture::{Architecture, language_model};
use crate::checkpoint::{read_sidecar, resolve};
use crate::convert::options::ConvertOptions;
use crate::error::{AnamnesisError, ModelPart, Request, Result};
use crate::json;

/// The key of a draft model's configuration that has the target's.
const TARGET: &str = "target_config";

/// A target: its directory and its configuration.
pub(super) struct Target {
    pub(super) directory: PathBuf,
    pub(super) config: Map<String, Value>,
}

/// The target that an architecture needs; its configuration becomes part of the draft model's.
pub(super) fn read(
    architecture: &Architecture,
    raw: &mut Map<String, Value>,
    options: &ConvertOptions,
) -> Result<Option<Target>> {
    let directory = match (&options.target_model, architecture.needs_target()) {
        (None, false) => return Ok(None),
        (Some(directory), true) => resolve(directory)?,
        (None, true) => {
            let why = "its vocabulary and its sizes are those of the model it predicts for, whose directory is needed";
            return Err(AnamnesisError::unsupported_model(ModelPart::Target, architecture.name(), why));
        }
        (Some(_), false) => {
            let (what, why) = ("a target model", "only a draft model (EAGLE 3, DFlash, DSpark) has one");
            return Err(Request::Contradiction { what: what.to_owned(), why: why.to_owned() }.into());
        }
    };
    let Ok(Value::Object(config)) = json::from_slice(&read_sidecar(&directory, "config.json")?) else {
        return Err(AnamnesisError::parse("config.json of the target is no JSON object"));
    };
    raw.insert(TARGET.to_owned(), Value::Object(language_model::flattened(&config)));
    Ok(Some(Target { directory, config }))
}
