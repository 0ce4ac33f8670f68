//! From what a user names to the files it means: one file, a directory, an index, or one shard of a set.

use std::path::{Path, PathBuf};

use super::index::Index;
use super::{files, hub, inside};
use crate::error::{AnamnesisError, Result, quoted};

/// The files behind an input.
#[derive(Debug)]
pub(super) enum Located {
    /// A file by itself.
    File(PathBuf),
    /// The files of a checkpoint directory.
    Set(Set),
}

/// The files of a checkpoint directory, by name, in order.
#[derive(Debug)]
pub(super) struct Set {
    pub directory: PathBuf,
    pub files: Vec<String>,
    /// The index that names them, and its own name.
    pub index: Option<(String, Index)>,
}

/// The usual name of an index.
pub(super) const INDEX_FILE: &str = "model.safetensors.index.json";
const INDEX_END: &str = ".safetensors.index.json";
const TORCH_INDEX_FILE: &str = "pytorch_model.bin.index.json";

/// Finds the files that `path` means. `hf:org/name` is looked up in the local Hugging Face cache.
pub(super) fn locate(path: &Path) -> Result<Located> {
    if let Some(spec) = path.to_str().filter(|text| text.starts_with("hf:")) {
        return directory(&hub::resolve_hub(spec)?);
    }
    let metadata = std::fs::metadata(path).map_err(|error| AnamnesisError::at_path(error, path))?;
    if metadata.is_dir() {
        return directory(path);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parent = parent_of(path);
    if name.ends_with(INDEX_END) || name == TORCH_INDEX_FILE {
        return from_index(&parent, &name);
    }
    if let Some(shard) = Numbered::parse(&name) {
        let index = parent.join(INDEX_FILE);
        if index.is_file() {
            let Located::Set(set) = from_index(&parent, INDEX_FILE)? else {
                return Ok(Located::File(path.to_path_buf()));
            };
            if set.files.contains(&name) {
                return Ok(Located::Set(set));
            }
        }
        return Ok(Located::Set(Set { files: shard.all(&parent)?, directory: parent, index: None }));
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
    if name == TORCH_INDEX_FILE {
        return Err(AnamnesisError::unsupported(
            "pth",
            format!("{} names PyTorch files, which are not read yet", quoted(name)),
        ));
    }
    let text = files::read_index(&directory.join(name))?;
    let index = Index::parse(&text, name)?;
    let files = index.files();
    for file in &files {
        inside::file_inside(directory, file)?;
    }
    if files.is_empty() {
        return Err(AnamnesisError::parse(format!("{name} names no file")));
    }
    Ok(Located::Set(Set { directory: directory.to_path_buf(), files, index: Some((name.to_owned(), index)) }))
}

fn directory(directory: &Path) -> Result<Located> {
    let names = file_names(directory)?;
    if names.iter().any(|name| name == INDEX_FILE) {
        return from_index(directory, INDEX_FILE);
    }
    let indices: Vec<_> = names.iter().filter(|name| name.ends_with(INDEX_END)).collect();
    if let [index] = indices[..] {
        return from_index(directory, index);
    }
    let models: Vec<_> = names.iter().filter(|name| name.ends_with(".safetensors")).collect();
    let set = |files: Vec<String>| Ok(Located::Set(Set { directory: directory.to_path_buf(), files, index: None }));
    if models.iter().any(|name| *name == "model.safetensors") {
        return set(vec!["model.safetensors".to_owned()]);
    }
    match models[..] {
        [] if names.iter().any(|name| name == TORCH_INDEX_FILE) => from_index(directory, TORCH_INDEX_FILE),
        [] => {
            let error = std::io::Error::new(std::io::ErrorKind::NotFound, "holds no safetensors file");
            Err(AnamnesisError::at_path(error, directory))
        }
        [single] if Numbered::parse(single).is_none() => set(vec![single.clone()]),
        [first, ..] => {
            let shards = Numbered::parse(first).map(|shard| shard.all(directory)).transpose()?;
            match shards.filter(|shards| models.iter().all(|model| shards.contains(model))) {
                Some(shards) => set(shards),
                None => {
                    let listed: Vec<_> = models.iter().take(5).map(|name| quoted(name)).collect();
                    let why = format!("{} holds several models ({}); name one", directory.display(), listed.join(", "));
                    Err(AnamnesisError::parse(why))
                }
            }
        }
    }
}

/// The names of the regular files in a directory, in order.
pub(super) fn file_names(directory: &Path) -> Result<Vec<String>> {
    let at = |error| AnamnesisError::at_path(error, directory);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(at)? {
        let entry = entry.map_err(at)?;
        let is_file = std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file());
        if let Some(name) = entry.file_name().to_str().filter(|_| is_file) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// A file name of the form `model-00002-of-00004.safetensors`, of a set with more than one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Numbered<'a> {
    base: &'a str,
    count: u32,
    end: &'a str,
}

impl<'a> Numbered<'a> {
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let (stem, end) = name.rsplit_once('.')?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (base, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| (text.len() == 5).then(|| text.parse::<u32>().ok()).flatten();
        let (number, count) = (digits(number)?, digits(count)?);
        (count > 1 && (1..=count).contains(&number)).then_some(Self { base, count, end })
    }

    /// The names of the whole set, which must all be there.
    fn all(&self, directory: &Path) -> Result<Vec<String>> {
        let Self { base, count, end } = self;
        let names = (1..=*count).map(|number| format!("{base}-{number:05}-of-{count:05}.{end}"));
        names
            .map(|name| {
                inside::file_inside(directory, &name)?;
                Ok(name)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_shards_are_told_by_their_names() {
        let shard = Numbered::parse("model-00002-of-00004.safetensors");
        assert_eq!(shard, Some(Numbered { base: "model", count: 4, end: "safetensors" }));
        for name in [
            "model-00001-of-00001.safetensors",
            "model.safetensors",
            "a-of-b",
            "-of-",
            "x-1-of-2.safetensors",
            "x-00005-of-00002.safetensors",
        ] {
            assert_eq!(Numbered::parse(name), None, "{name}");
        }
    }
}
