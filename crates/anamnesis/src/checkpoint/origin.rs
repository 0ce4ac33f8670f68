//! The origin of a checkpoint: the path, store or memory it was opened from.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::names::Numbered;
use super::{hub, ollama};
use crate::container::Format;
use crate::io::is_mounted;

/// The origin of a checkpoint.
///
/// ```
/// use std::path::Path;
/// use anamnesis::Origin;
/// let origin = Origin::of(Path::new("hf:org/name@main"));
/// assert!(origin.is_store() && origin.model_name().is_some_and(|name| name == "name"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// One file.
    File(PathBuf),
    /// The files of a directory.
    Directory(PathBuf),
    /// A model of the local Hugging Face cache.
    HubCache {
        /// The name as given: `hf:org/name@revision`.
        spec: String,
    },
    /// A model of the local Ollama store.
    Ollama {
        /// The name as given: `ollama:name:tag`.
        spec: String,
    },
    /// A file or folder of a mounted [`Store`](crate::Store).
    Remote {
        /// Its path: `https://host/model.gguf`.
        address: String,
    },
    /// Bytes in memory.
    Bytes,
    /// A reader.
    Reader,
}

impl Origin {
    /// The origin of a path: a model in a store if it has that prefix, otherwise a file or a directory.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.to_str() {
            Some(address) if is_mounted(path) => Self::Remote { address: address.to_owned() },
            Some(spec) if spec.starts_with(hub::SCHEME) => Self::HubCache { spec: spec.to_owned() },
            Some(spec) if spec.starts_with(ollama::SCHEME) => Self::Ollama { spec: spec.to_owned() },
            _ if path.is_dir() => Self::Directory(path.to_path_buf()),
            _ => Self::File(path.to_path_buf()),
        }
    }

    /// Whether it is a model in a store, local or mounted, next to whose files no output should be written.
    #[must_use]
    pub const fn is_store(&self) -> bool {
        matches!(self, Self::HubCache { .. } | Self::Ollama { .. } | Self::Remote { .. })
    }

    /// The name of the model, without organisation, revision, file extension and shard number. `None`
    /// if it has no name.
    #[must_use]
    pub fn model_name(&self) -> Option<OsString> {
        match self {
            Self::File(path) => {
                let name = path.file_name()?.to_str();
                let whole = name.and_then(Numbered::parse).map(|part| part.base()).filter(|base| !base.is_empty());
                whole.map(OsString::from).or_else(|| path.file_stem().map(OsString::from))
            }
            // `.` and `..` get the name of the directory they resolve to; a directory has no extension to remove.
            Self::Directory(path) => match path.file_name() {
                Some(name) => Some(name.to_os_string()),
                None => Some(std::fs::canonicalize(path).ok()?.file_name()?.to_os_string()),
            },
            Self::HubCache { spec } => name_of_hub_model(spec),
            Self::Remote { address } => {
                let file = Path::new(address);
                let is_weights = file.extension().and_then(|ending| ending.to_str()).is_some_and(is_weights_extension);
                match address.starts_with(hub::SCHEME) {
                    _ if is_weights => Self::File(file.to_path_buf()).model_name(),
                    true => name_of_hub_model(address),
                    // An index is named by its folder.
                    false if address.ends_with(".json") => Some(file.parent()?.file_name()?.to_os_string()),
                    false => Some(file.file_name()?.to_os_string()),
                }
            }
            Self::Ollama { spec } => {
                let model = spec.strip_prefix(ollama::SCHEME)?.rsplit('/').next()?;
                Some(match model.split_once(':') {
                    None => model.into(),
                    Some((model, ollama::DEFAULT_TAG)) => model.into(),
                    Some((model, tag)) => format!("{model}-{tag}").into(),
                })
            }
            Self::Bytes | Self::Reader => None,
        }
    }
}

/// The name in `hf:org/name@revision/file`.
fn name_of_hub_model(spec: &str) -> Option<OsString> {
    let model = spec.strip_prefix(hub::SCHEME)?.split('@').next()?;
    let mut parts = model.split('/');
    let first = parts.next()?;
    Some(parts.next().unwrap_or(first).into())
}

fn is_weights_extension(extension: &str) -> bool {
    Format::all().any(|format| format.extensions().contains(&extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_called_by_its_name_alone() {
        let cases = [
            ("dir/m.Q4_K_M.gguf", "m.Q4_K_M"),
            ("dir/m-00001-of-00003.gguf", "m"),
            ("-00001-of-00003.gguf", "-00001-of-00003"),
            ("out-of-time.gguf", "out-of-time"),
            ("hf:org/name-gptq@main", "name-gptq"),
            ("hf:gpt2", "gpt2"),
            ("ollama:llama3.2", "llama3.2"),
            ("ollama:llama3.2:latest", "llama3.2"),
            ("ollama:user/llama3.2:1b-q4_0", "llama3.2-1b-q4_0"),
            ("ollama:localhost:5000/a/b:c", "b-c"),
        ];
        for (path, name) in cases {
            assert_eq!(Origin::of(Path::new(path)).model_name().unwrap(), name, "{path}");
        }
        let directory = Origin::Directory("models/Llama-3.1-8B".into());
        assert_eq!(directory.model_name().unwrap(), "Llama-3.1-8B");
        assert_eq!(Origin::Bytes.model_name(), None);
    }
}
