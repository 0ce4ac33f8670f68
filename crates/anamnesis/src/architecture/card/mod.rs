//! Who made a model and what it is called: the `general.*` keys, from the model card, the configuration and the directory.

mod counts;

pub(crate) use counts::Counts;

use serde_json::{Map, Value};

use super::beside::Beside;
use super::told::Told;
use crate::error::Result;

/// The `general.*` keys in the order they are written, from `general.type` to `general.languages`. The architecture, the type
/// of the file and the version of quantisation are not among them.
pub(crate) fn general(files: &dyn Beside, _config: &Map<String, Value>, counts: &Counts) -> Result<Told> {
    let mut told = Told::default();
    told.text("general.type", "model");
    told.text("general.name", files.directory_name().unwrap_or_default());
    told.text("general.size_label", counts.label());
    Ok(told)
}
