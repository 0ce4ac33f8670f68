//! The files of a directory of several models that are no model: copied once its components are converted.

use std::io::ErrorKind;
use std::path::Path;

use super::directory::{ConfigChange, Sidecar, SidecarFate, classify, copy, has_same_content};
use crate::checkpoint::{Components, MODEL_INDEX};
use crate::error::{AnamnesisError, Result};
use crate::io::output::{create_folder, same_file};
use crate::io::{Existing, record};

impl Components {
    /// The files beside the models, with the operation on each: those of the directory itself, and, as
    /// `scheduler/scheduler_config.json`, those of components without weights.
    ///
    /// # Errors
    /// `Io` if a folder cannot be read.
    pub fn sidecars(&self) -> Result<Vec<Sidecar>> {
        let config = ConfigChange::none();
        let is_component = |name: &str| self.iter().any(|component| component.name == name);
        let mut sidecars = classify(self.directory(), &[], &config)?;
        sidecars.retain(|sidecar| !is_component(&sidecar.name));
        for component in self.iter().filter(|component| !component.has_weights) {
            let inside = |sidecar: Sidecar| Sidecar { name: format!("{}/{}", component.name, sidecar.name), ..sidecar };
            sidecars.extend(classify(&component.path, &[], &config)?.into_iter().map(inside));
        }
        Ok(sidecars)
    }

    /// Refuses an output directory that is the input, or that has other files where these would be copied to.
    ///
    /// # Errors
    /// `Io` that names the file.
    pub fn check_output(&self, output: impl AsRef<Path>, existing: Existing) -> Result<()> {
        let output = output.as_ref();
        let refuse =
            |kind, text: &str, path: &Path| Err(AnamnesisError::at_path(std::io::Error::new(kind, text), path));
        if same_file(self.directory(), output) {
            return refuse(ErrorKind::InvalidInput, "the output is the input itself", output);
        }
        for name in self.copied()? {
            let target = output.join(&name);
            if existing == Existing::Refuse
                && target.try_exists().map_err(|error| AnamnesisError::at_path(error, &target))?
                && !has_same_content(&self.directory().join(&name), &target)?
            {
                return refuse(ErrorKind::AlreadyExists, "exists with other content", &target);
            }
        }
        Ok(())
    }

    /// Copies the files beside the models into an output directory, `model_index.json` last: the output is loaded by it.
    ///
    /// # Errors
    /// `Io` if a file cannot be read or written.
    pub fn copy_sidecars(&self, output: impl AsRef<Path>) -> Result<()> {
        let output = output.as_ref();
        let mut names = self.copied()?;
        names.sort_by_key(|name| name == MODEL_INDEX);
        for name in names {
            let target = output.join(&name);
            if let Some(folder) = target.parent() {
                create_folder(folder)?;
            }
            copy(self.directory(), output, &name)?;
            record::output(&target);
        }
        Ok(())
    }

    /// The names of the files that are copied.
    fn copied(&self) -> Result<Vec<String>> {
        let copied = self.sidecars()?.into_iter().filter(|sidecar| sidecar.fate == SidecarFate::Copied);
        Ok(copied.map(|sidecar| sidecar.name).collect())
    }
}
