//! File names of checkpoints: indexes, and the numbered shards of a set.

use std::collections::HashSet;
use std::path::Path;

use crate::container::Format;
use crate::error::{AnamnesisError, Result, quoted};
use crate::io::{announce, file_inside};

/// The name of distributed checkpoints in messages.
pub(super) const DISTRIBUTED: &str = "PyTorch distributed checkpoint";

/// The file of a distributed checkpoint that describes the others.
pub(super) const METADATA_FILE: &str = ".metadata";
/// The suffix of the others.
pub(super) const CHUNKS_END: &str = ".distcp";

/// The default name of an index.
pub(super) const INDEX_FILE: &str = "model.safetensors.index.json";
/// The suffix of every index over safetensors files.
pub(super) const INDEX_END: &str = ".safetensors.index.json";
/// The suffix of every index over files of Flax, whose names are joined by slashes.
pub(super) const FLAX_INDEX_END: &str = ".msgpack.index.json";
/// The name of an index over PyTorch files.
pub(super) const TORCH_INDEX_FILE: &str = "pytorch_model.bin.index.json";

/// Whether the extension of a file name is that of this format.
pub(super) fn is_named_as(name: &str, format: Format) -> bool {
    let ending = Path::new(name).extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    format.about().owns_extension(&ending)
}

/// Maximum number of files listed in an error; the rest are counted.
const MAX_LISTED: usize = 5;

/// A file name of the form `model-00002-of-00004.safetensors`, in a set of more than one file.
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

    /// The common prefix of the set's names.
    pub(super) fn base(&self) -> &'a str {
        self.base
    }

    /// The names of the whole set; a missing file is an error.
    pub(super) fn all(&self, directory: &Path) -> Result<Vec<String>> {
        let Self { base, count, end } = self;
        let names = (1..=*count).map(|number| format!("{base}-{number:05}-of-{count:05}.{end}"));
        let names: Vec<String> = names.collect();
        announce(directory, &names);
        for name in &names {
            file_inside(directory, name)?;
        }
        Ok(names)
    }
}

/// The rank, the number and the count of a shard of PyTorch's distributed checkpoints, by its name:
/// `shard-00002-model-00001-of-00001.safetensors`.
pub(super) fn distributed_shard(name: &str) -> Option<[u32; 3]> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let (rank, model) = name.strip_prefix("shard-")?.split_once("-model-")?;
    let (place, count) = model.strip_suffix(".safetensors")?.split_once("-of-")?;
    Some([number(rank)?, number(place)?, number(count)?])
}

/// Whether a file is named like a shard of PyTorch's distributed checkpoints.
pub(super) fn is_distributed_shard(name: &str) -> bool {
    distributed_shard(name).is_some()
}

/// The files of the single model among these weight files: one file, or all shards of one set. `None` if
/// there are no files.
///
/// # Errors
/// `Parse` if there are several models, `Io` if a shard is missing.
pub(super) fn one_model(directory: &Path, files: &[&String]) -> Result<Option<Vec<String>>> {
    match files {
        [] => Ok(None),
        [single] if Numbered::parse(single).is_none() => Ok(Some(vec![(*single).clone()])),
        [first, ..] => {
            if let Some(shard) = files.iter().find(|name| is_distributed_shard(name)) {
                let why = format!("{} and the other shards hold pieces of tensors", quoted(shard));
                let why = format!("{}: {why}, which are not put together", directory.display());
                return Err(AnamnesisError::unsupported(DISTRIBUTED, why));
            }
            let shards = Numbered::parse(first).map(|shard| shard.all(directory)).transpose()?;
            let is_set = |shards: &Vec<String>| {
                let shards: HashSet<&String> = shards.iter().collect();
                files.iter().all(|file| shards.contains(file))
            };
            match shards.filter(is_set) {
                Some(shards) => Ok(Some(shards)),
                None => Err(several_models(directory, files)),
            }
        }
    }
}

/// The error for a directory with several models, one of which the user has to name.
pub(super) fn several_models(directory: &Path, models: &[&String]) -> AnamnesisError {
    let listed: Vec<_> = models.iter().take(MAX_LISTED).map(|name| quoted(name)).collect();
    let more = match models.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = listed.join(", ");
    AnamnesisError::parse(format!("{} holds several models ({listed}{more}); name one", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributed_shards_are_recognised_by_name() {
        assert!(is_distributed_shard("shard-00002-model-00001-of-00001.safetensors"));
        for name in ["model-00001-of-00001.safetensors", "shard-a-model-1-of-2.safetensors", "shard-1-model-1-of-2.bin"]
        {
            assert!(!is_distributed_shard(name), "{name}");
        }
    }

    #[test]
    fn numbered_shards_are_recognised_by_name() {
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
