//! The companions of a weight: claiming them, and what is said about those that are missing.

use super::claims::Claims;
use super::role::TensorRole;
use crate::catalog::TensorId;
use crate::error::{AnamnesisError, Result, quoted};

impl Claims<'_> {
    /// Claims the companion of this name, if it is present and unclaimed.
    pub(in crate::scheme) fn take_companion(&mut self, name: &str, role: TensorRole) -> Option<TensorId> {
        let id = self.find_unclaimed(name)?;
        self.take(id, role);
        Some(id)
    }

    /// The error that a weight has no companion of this name.
    pub(in crate::scheme) fn missing(&self, name: &str) -> AnamnesisError {
        let place = self.elsewhere(name).map_or_else(String::new, |place| format!(": {place}"));
        AnamnesisError::parse(format!("it has no {}{place}", quoted(name)))
    }

    /// Refuses to decode a weight to the name of a stored tensor.
    pub(in crate::scheme) fn check_output(&self, name: &str) -> Result<()> {
        match self.catalog.find(name) {
            None => Ok(()),
            Some(_) => {
                Err(AnamnesisError::parse(format!("it would be decoded to {}, which is stored too", quoted(name))))
            }
        }
    }

    /// Refuses a weight of the scheme `title` if the configuration names another method.
    pub(in crate::scheme) fn check_method(&self, title: &str, method: &str) -> Result<()> {
        match self.config.method().filter(|found| !found.eq_ignore_ascii_case(method)) {
            None => Ok(()),
            Some(found) => {
                let (file, found) = (self.config.file(), quoted(found));
                Err(AnamnesisError::parse(format!("it is named like {title}, {file} says {found}")))
            }
        }
    }
}
