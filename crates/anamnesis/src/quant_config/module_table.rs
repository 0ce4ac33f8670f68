//! A sidecar with an object per module: `model.safetensors.index.json.meta.json` of SINQ.

use std::cell::Cell;

use serde::de::DeserializeSeed;

use super::QuantConfig;
use super::args::{Args, Layer};
use super::json::{Json, JsonSeed, MAX_VALUES, Members};
use super::place::Place;
use crate::error::AnamnesisError;
use crate::json::strict;

/// The name of the sidecar.
pub(crate) const MODULE_TABLE: &str = "model.safetensors.index.json.meta.json";

impl QuantConfig {
    /// Adds the text of the sidecar.
    pub(crate) fn with_module_table(mut self, text: &[u8]) -> Self {
        match read(text) {
            Ok(members) => self.module_table = members,
            Err(why) => self.problems.push(AnamnesisError::parse(format!("{MODULE_TABLE} {why}"))),
        }
        self
    }

    /// The object of a module in the sidecar.
    pub(crate) fn table_entry<'a>(&'a self, module: &'a str) -> Option<Args<'a>> {
        let members = self.module_table.get(module)?.members()?;
        let place = Place { document: MODULE_TABLE, path: module, inside: [""; 4] };
        Some(Args { layers: vec![Layer { members, place }] })
    }
}

fn read(text: &[u8]) -> Result<Members, String> {
    let text = strict(text);
    let mut reader = serde_json::Deserializer::from_slice(&text);
    let remaining = Cell::new(MAX_VALUES);
    let value = JsonSeed(&remaining).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(Json::Object(members)) => match members.repeated() {
            Some(module) => Err(format!("has {} twice", crate::error::quoted(module))),
            None => Ok(*members),
        },
        Ok(other) => Err(format!("is {}, an object is needed", other.brief())),
        Err(error) => Err(format!("is not valid JSON: {error}")),
    }
}
