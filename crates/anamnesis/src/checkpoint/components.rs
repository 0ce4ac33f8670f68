//! Directories of several models, as diffusers writes them: `model_index.json` names a folder for each component.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::files::{is_file, read_sidecar};
use super::hub::resolve_hub;
use super::locate::{locate, resolve};
use super::located::file_names;
use crate::container::Format;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{entry, existing_entry, file_inside};

/// The file that lists the components.
pub(crate) const MODEL_INDEX: &str = "model_index.json";

/// The components of a directory, such as the transformer, the text encoders and the VAE of an image model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Components {
    directory: PathBuf,
    class: Option<String>,
    components: Vec<Component>,
}

/// One component: a folder with a model, or with files of another kind, such as a tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Component {
    /// Its name, which is that of its folder.
    pub name: String,
    /// The library and the class that load it.
    pub library: String,
    /// The class that loads it.
    pub class: String,
    /// Its folder.
    pub path: PathBuf,
    /// Whether the folder has weights.
    pub has_weights: bool,
}

impl Components {
    /// The components of a directory, or of a model in the local Hugging Face cache (`hf:org/name`); `None` if it has no
    /// `model_index.json`.
    ///
    /// # Errors
    /// `Io` if it cannot be read; `Parse` if it is not an index, or names a folder that is missing or outside of the
    /// directory.
    pub fn find(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        let directory = match super::Origin::of(path) {
            super::Origin::Directory(_) | super::Origin::HubCache { .. } => resolve(path)?,
            super::Origin::Remote { .. } if existing_entry(path)?.is_folder() => path.to_path_buf(),
            // A path that cannot be looked up is not taken for a file.
            super::Origin::File(_) if entry(path)?.is_some_and(|entry| entry.is_folder()) => path.to_path_buf(),
            _ => return Ok(None),
        };
        if !is_file(&directory.join(MODEL_INDEX))? {
            return Ok(None);
        }
        let fail = |why: &str| AnamnesisError::parse(format!("{MODEL_INDEX}: {why}"));
        let text = read_sidecar(&directory, MODEL_INDEX)?;
        let index: Map<String, Value> = serde_json::from_slice(&text).map_err(|error| fail(&error.to_string()))?;
        let class = index.get("_class_name").and_then(Value::as_str).map(str::to_owned);
        let mut components = Vec::new();
        for (name, value) in &index {
            // Other members are options of the pipeline; a component that it does without is `[null, null]`.
            let Some([Value::String(library), Value::String(class)]) = value.as_array().map(Vec::as_slice) else {
                continue;
            };
            if name.contains('/') {
                return Err(fail(&format!("{} is not the name of a folder", quoted(name))));
            }
            let path = file_inside(&directory, name).map_err(|error| error.within(MODEL_INDEX))?;
            if !entry(&path)?.is_some_and(|entry| entry.is_folder()) {
                return Err(fail(&format!("{} is not a folder", quoted(name))));
            }
            let has_weights = file_names(&path)?.iter().any(|name| is_weights(name));
            let [name, library, class] = [name, library, class].map(Clone::clone);
            components.push(Component { name, library, class, path, has_weights });
        }
        Ok(Some(Self { directory, class, components }))
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The class of the whole, such as `StableDiffusionXLPipeline`.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// All components, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Component> {
        self.components.iter()
    }

    /// The components with weights.
    pub fn models(&self) -> impl Iterator<Item = &Component> {
        self.components.iter().filter(|component| component.has_weights)
    }
}

/// Whether a path, or a name in a local store, has the files of a model: those that its index names, or the folders of
/// its components. Nothing is read from them. `hf:org/name` is found in the local cache, not in a mounted store.
///
/// ```
/// assert!(!anamnesis::is_found("no/such/model"));
/// ```
#[must_use]
pub fn is_found(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let place = match path.to_str().filter(|spec| spec.starts_with("hf:")) {
        Some(spec) => resolve_hub(spec),
        None => resolve(path),
    };
    place.is_ok_and(|place| locate(&place).is_ok() || is_file(&place.join(MODEL_INDEX)).unwrap_or(false))
}

/// Whether a file of this name has weights that are read.
fn is_weights(name: &str) -> bool {
    let extension = Path::new(name).extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    Format::all().any(|format| format.extensions().contains(&extension.as_str()))
}
