//! A checkpoint that can be modified: its tensors, its configuration, and their distribution over files.

use std::collections::{BTreeMap, BTreeSet};

use anamnesis::{Checkpoint, ParseLimits, RememberOptions, Result, TargetDtype};
use serde_json::{Value, json};

use crate::support::{Contents, Folder, Model, SIDECAR, Tensor};

/// A stored tensor with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub name: String,
    pub tensor: Tensor,
}

/// The content of `config.json`.
#[derive(Debug, Clone)]
pub enum ConfigFile {
    Absent,
    Text(Vec<u8>),
    Directory,
    DanglingLink,
}

/// The distribution of tensors over files. One shard is a file without an index.
#[derive(Debug, Clone, Default)]
pub struct Spread {
    pub shards: usize,
    /// Tensors in another shard than by default.
    pub moved: BTreeMap<String, usize>,
    /// Tensors with a wrong shard in the index.
    pub misplaced: BTreeMap<String, usize>,
    /// Tensors missing from the index.
    pub unlisted: BTreeSet<String>,
    /// A missing shard.
    pub missing: Option<usize>,
}

/// A safetensors checkpoint.
#[derive(Debug, Clone)]
pub struct Subject {
    pub tensors: Vec<Stored>,
    pub metadata: BTreeMap<String, String>,
    pub config: ConfigFile,
    /// The sidecar that accompanies the configuration.
    pub sidecar: Option<Vec<u8>>,
    pub spread: Spread,
}

impl Subject {
    pub fn of(bytes: &[u8], config: Option<Vec<u8>>, sidecar: Option<Vec<u8>>) -> Self {
        let contents = Contents::of(bytes);
        let tensors = contents.tensors.into_iter().map(|(name, tensor)| Stored { name, tensor }).collect();
        let config = config.map_or(ConfigFile::Absent, ConfigFile::Text);
        Self { tensors, metadata: contents.metadata.unwrap_or_default(), config, sidecar, spread: Spread::default() }
    }

    pub fn find(&self, name: &str) -> Option<&Stored> {
        self.tensors.iter().find(|stored| stored.name == name)
    }

    pub fn find_mut(&mut self, name: &str) -> Option<&mut Stored> {
        self.tensors.iter_mut().find(|stored| stored.name == name)
    }

    pub fn config_json(&self) -> Option<Value> {
        match &self.config {
            ConfigFile::Text(text) => serde_json::from_slice(text).ok(),
            _ => None,
        }
    }

    /// The shard of a tensor: neighbours are separated, so that weights and companions are in different files.
    fn shard(&self, index: usize) -> usize {
        let name = &self.tensors[index].name;
        self.spread.moved.get(name).copied().unwrap_or(index % self.spread.shards.max(1))
    }

    fn file(&self, shard: usize) -> Vec<u8> {
        let mine =
            (0..self.tensors.len()).filter(|&index| self.shard(index) == shard).map(|index| &self.tensors[index]);
        let empty = self.metadata.iter().fold(Model::new(), |model, (key, value)| model.metadata(key, value));
        let add = |model: Model, stored: &Stored| {
            model.tensor(&stored.name, &stored.tensor.dtype, &stored.tensor.shape, &stored.tensor.data)
        };
        mine.fold(empty, add).bytes()
    }

    /// Decodes it to F32: in memory if it is a single file without a configuration.
    pub fn decode(&self) -> Result<Contents> {
        let limits = ParseLimits::default();
        if self.spread.shards <= 1 && matches!(self.config, ConfigFile::Absent) {
            return remember(&Checkpoint::from_bytes(self.file(0), &limits)?);
        }
        let folder = Folder::new();
        self.stage(&folder);
        remember(&Checkpoint::open(folder.path(""), &limits)?)
    }

    fn stage(&self, folder: &Folder) {
        match &self.config {
            ConfigFile::Absent => {}
            ConfigFile::Text(text) => {
                folder.write("config.json", text);
                if let Some(sidecar) = &self.sidecar {
                    folder.write(SIDECAR, sidecar);
                }
            }
            ConfigFile::Directory => std::fs::create_dir(folder.path("config.json")).unwrap(),
            #[cfg(unix)]
            ConfigFile::DanglingLink => std::os::unix::fs::symlink("nowhere", folder.path("config.json")).unwrap(),
            #[cfg(not(unix))]
            ConfigFile::DanglingLink => std::fs::create_dir(folder.path("config.json")).unwrap(),
        }
        if self.spread.shards <= 1 {
            folder.write("model.safetensors", self.file(0));
            return;
        }
        let name = |shard: usize| format!("model-{:05}-of-{:05}.safetensors", shard + 1, self.spread.shards);
        for shard in (0..self.spread.shards).filter(|&shard| self.spread.missing != Some(shard)) {
            folder.write(&name(shard), self.file(shard));
        }
        let listed = self.tensors.iter().enumerate().filter(|(_, stored)| !self.spread.unlisted.contains(&stored.name));
        let entry = |(index, stored): (usize, &Stored)| {
            let shard = self.spread.misplaced.get(&stored.name).copied().unwrap_or_else(|| self.shard(index));
            (stored.name.clone(), json!(name(shard)))
        };
        let weight_map: serde_json::Map<_, _> = listed.map(entry).collect();
        folder.write("model.safetensors.index.json", json!({"weight_map": weight_map}).to_string());
    }
}

/// Decodes an opened checkpoint to F32.
pub fn remember(checkpoint: &Checkpoint) -> Result<Contents> {
    let bytes = checkpoint.plan(TargetDtype::F32)?.to_bytes(&RememberOptions::new().with_threads(1))?;
    Ok(Contents::of(&bytes))
}
