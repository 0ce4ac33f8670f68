//! Resolving the user's path to files: one file, a directory, an index, one shard of a set, or a model
//! of a local store.

use std::path::{Path, PathBuf};

use super::index::Index;
use super::located::{Located, Set, file_names};
use super::names::{
    CHUNKS_END, FLAX_INDEX_END, INDEX_END, INDEX_FILE, METADATA_FILE, Numbered, TORCH_INDEX_FILE, is_distributed_shard,
    is_named_as, one_model, several_models,
};
use super::{Origin, distributed, files, hub, keras, ollama, tensorflow, torch};
use crate::container::{Format, unread_directory};
use crate::error::{AnamnesisError, Result};
use crate::io::{announce, entry_names, existing_entry, file_inside, is_listed, is_mounted};

/// Whether `path` is the name of a model in a local store and not a file system path.
pub(crate) fn is_in_store(path: &Path) -> bool {
    Origin::of(path).is_store()
}

/// The file or directory of a path, of the prefix of a TensorFlow checkpoint or of a model name in a local store.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    match path.to_str().filter(|_| !is_mounted(path)) {
        Some(spec) if spec.starts_with("hf:") => hub::resolve_hub(spec),
        Some(spec) if spec.starts_with(ollama::SCHEME) => ollama::resolve(spec),
        _ => Ok(tensorflow::index_of(path)?.unwrap_or_else(|| path.to_path_buf())),
    }
}

/// Finds the files of `path`. `hf:org/name` is looked up in the local Hugging Face cache, `ollama:name` in the
/// local Ollama store.
pub(super) fn locate(path: &Path) -> Result<Located> {
    match Origin::of(path) {
        Origin::HubCache { spec } => return locate(&hub::resolve_hub(&spec)?),
        Origin::Ollama { spec } => return Ok(Located::File(ollama::resolve(&spec)?)),
        _ => {}
    }
    if let Some(index) = tensorflow::index_of(path)? {
        return Ok(Located::File(index));
    }
    if existing_entry(path)?.is_folder() {
        return directory(path);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parent = parent_of(path);
    if name.ends_with(INDEX_END) || name.ends_with(FLAX_INDEX_END) || name == TORCH_INDEX_FILE {
        return from_index(&parent, &name);
    }
    if name == METADATA_FILE || name.ends_with(CHUNKS_END) {
        return distributed::locate(&parent);
    }
    if is_distributed_shard(&name) {
        return distributed::shards(&parent);
    }
    if keras::is_index(&name) {
        return Ok(Located::Set(keras::shards(&parent, &name)?));
    }
    if let Some(shard) = Numbered::parse(&name) {
        let of_flax = format!("{}{FLAX_INDEX_END}", shard.base());
        for index in [INDEX_FILE, TORCH_INDEX_FILE, &of_flax] {
            if !files::is_file(&parent.join(index))? {
                continue;
            }
            let Located::Set(set) = from_index(&parent, index)? else {
                return Ok(Located::File(path.to_path_buf()));
            };
            if set.files.contains(&name) {
                return Ok(Located::Set(set));
            }
        }
        return Ok(Located::Set(Set::new(&parent, shard.all(&parent)?)));
    }
    Ok(Located::File(path.to_path_buf()))
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

fn from_index(directory: &Path, name: &str) -> Result<Located> {
    let text = files::read_index(&directory.join(name))?;
    let index = Index::parse(&text, name)?;
    let files = index.files();
    announce(directory, &files);
    for file in &files {
        file_inside(directory, file)?;
    }
    if files.is_empty() {
        return Err(AnamnesisError::parse(format!("{name} names no file")));
    }
    Ok(Located::Set(Set { index: Some((name.to_owned(), index)), ..Set::new(directory, files) }))
}

fn directory(directory: &Path) -> Result<Located> {
    let names = file_names(directory)?;
    if names.iter().any(|name| name.ends_with(CHUNKS_END)) {
        return distributed::locate(directory);
    }
    if names.iter().any(|name| name == INDEX_FILE) {
        return from_index(directory, INDEX_FILE);
    }
    let indices: Vec<_> = names.iter().filter(|name| name.ends_with(INDEX_END)).collect();
    if let [index] = indices[..] {
        return from_index(directory, index);
    }
    let models: Vec<_> = names.iter().filter(|name| name.ends_with(".safetensors")).collect();
    let set = |files: Vec<String>| Ok(Located::Set(Set::new(directory, files)));
    if models.iter().any(|name| *name == "model.safetensors") {
        return set(vec!["model.safetensors".to_owned()]);
    }
    if models.iter().all(|name| is_distributed_shard(name)) && models.len() > 1 {
        return distributed::shards(directory);
    }
    if models.is_empty()
        && let Some(files) = torch::files(directory, &names)?
    {
        return set(files);
    }
    match one_model(directory, &models)? {
        Some(files) => set(files),
        None if names.iter().any(|name| name == TORCH_INDEX_FILE) => from_index(directory, TORCH_INDEX_FILE),
        None if names.iter().any(|name| is_named_as(name, Format::Gguf)) => gguf_directory(directory, &names),
        None => other_formats(directory, &names),
    }
}

/// A directory without safetensors, PyTorch and GGUF files, which must hold one model.
fn other_formats(directory: &Path, names: &[String]) -> Result<Located> {
    if let Some(index) = tensorflow::index_in(directory, names)? {
        return Ok(Located::File(index));
    }
    let set = |files: Vec<String>| Ok(Located::Set(Set::new(directory, files)));
    let indices: Vec<_> = names.iter().filter(|name| name.ends_with(FLAX_INDEX_END)).collect();
    if let [index] = indices[..] {
        return from_index(directory, index);
    }
    let indices: Vec<_> = names.iter().filter(|name| keras::is_index(name)).collect();
    if let [index] = indices[..] {
        return Ok(Located::Set(keras::shards(directory, index)?));
    }
    for format in [Format::Flax, Format::Hdf5, Format::Keras, Format::TfLite] {
        let files: Vec<_> = names.iter().filter(|name| is_named_as(name, format)).collect();
        if let Some(files) = one_model(directory, &files)? {
            return set(files);
        }
    }
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let missing = || AnamnesisError::NoWeights { directory: directory.to_path_buf() };
    Err(unread_directory(&name, names).map_or_else(missing, |error| error.in_file(directory)))
}

/// A directory of GGUF files, which must be one model, in one file or split into parts.
fn gguf_directory(directory: &Path, names: &[String]) -> Result<Located> {
    let files: Vec<_> = names.iter().filter(|name| is_named_as(name, Format::Gguf)).collect();
    let Some(first) = files.first() else {
        return Err(AnamnesisError::NoWeights { directory: directory.to_path_buf() });
    };
    // The first part represents a split model; names are sorted, so its other parts follow.
    let is_part_of =
        |name: &str, other: &str| Numbered::parse(name).is_some_and(|part| Numbered::parse(other) == Some(part));
    let starts_model = |index: usize| index == 0 || !is_part_of(files[index - 1], files[index]);
    let models: Vec<_> = (0..files.len()).filter(|&index| starts_model(index)).map(|index| files[index]).collect();
    if models.len() > 1 {
        return Err(several_models(directory, &models));
    }
    match Numbered::parse(first) {
        None => Ok(Located::File(directory.join(first))),
        Some(parts) => {
            let files = parts.all(directory)?;
            Ok(Located::Set(Set::new(directory, files)))
        }
    }
}

/// The number of GGUF files in the directory of a checkpoint of another format.
pub(super) fn unrelated_gguf_count(set: &Set) -> usize {
    if set.files.iter().any(|name| is_named_as(name, Format::Gguf)) || !is_listed(&set.directory) {
        return 0;
    }
    let is_file = |name: &String| files::is_file(&set.directory.join(name)).unwrap_or(false);
    let names = entry_names(&set.directory).unwrap_or_default();
    names.iter().filter(|name| is_named_as(name, Format::Gguf) && is_file(name)).count()
}
