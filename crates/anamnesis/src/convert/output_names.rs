//! The names of output tensors.

use std::collections::BTreeMap;

use crate::error::{AnamnesisError, Request, Result, quoted};

/// Output names, each with the input name of the tensor it belongs to; `None` if that is the same.
#[derive(Default)]
pub(super) struct OutputNames(BTreeMap<String, Option<String>>);

impl OutputNames {
    /// Adds an output name and returns it; a duplicate is an error.
    pub(super) fn add(&mut self, renamed: String, name: &str) -> Result<String> {
        match self.insert(&renamed, name) {
            None => Ok(renamed),
            Some(other) if other == name => {
                Err(AnamnesisError::parse(format!("two output tensors are named {}", quoted(name))))
            }
            Some(other) => Err(Request::SameName { name: renamed, tensors: [other, name.to_owned()] }.into()),
        }
    }

    /// Reserves the name of a companion of a quantised weight; a duplicate is an error.
    pub(super) fn claim(&mut self, name: &str, tensor: &str) -> Result<()> {
        match self.insert(name, tensor) {
            Some(other) if other != tensor => {
                Err(Request::SameName { name: name.to_owned(), tensors: [other, tensor.to_owned()] }.into())
            }
            _ => Ok(()),
        }
    }

    /// Adds an output name of a tensor, and returns the tensor that had it before.
    fn insert(&mut self, name: &str, tensor: &str) -> Option<String> {
        let other = self.0.insert(name.to_owned(), (name != tensor).then(|| tensor.to_owned()))?;
        Some(other.unwrap_or_else(|| name.to_owned()))
    }
}
