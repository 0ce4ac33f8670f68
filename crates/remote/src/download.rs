//! Downloads into the local Hugging Face cache, in the layout of `huggingface_hub`, which can load them.
//!
//! ```text
//! ROOT/models--org--name/blobs/DIGEST              the bytes, named by SHA-256 or by the SHA-1 of a Git blob
//! ROOT/models--org--name/snapshots/COMMIT/FILE     a link to the blob
//! ROOT/models--org--name/refs/REVISION             the commit
//! ```
//!
//! A blob gets its name when it is complete and has its digest; the revision is written last.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anamnesis::{AnamnesisError, AtomicFile, Existing, Format, HubSpec, PositionedRead};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::error::{RemoteError, RemoteFault};
use crate::hub::{Digest, HubModel};

/// Bytes per step.
const STEP_BYTES: usize = 1 << 20;
/// The longest sidecar that is downloaded with the weights.
const MAX_SIDECAR_BYTES: u64 = 256 << 20;

/// Downloads files of a model with the sidecars in their folders. `progress` gets the bytes that are done, and all.
pub(crate) fn download(
    root: &Path,
    model: &HubModel,
    spec: &HubSpec,
    weights: &[String],
    progress: &mut dyn FnMut(u64, u64),
) -> io::Result<()> {
    let repository = root.join(format!("models--{}", spec.model.replace('/', "--")));
    let names = with_sidecars(model, weights);
    let bytes = |name: &String| model.list.get(name).and_then(|file| file.bytes).unwrap_or(0);
    let total = names.iter().map(bytes).sum();
    let mut done = 0;
    for name in &names {
        let digest = model.list.get(name).and_then(|file| file.digest.as_ref()).ok_or_else(|| {
            RemoteError::new(RemoteFault::Digest, format!("the hub gives no digest of {name}, so it is not downloaded"))
        })?;
        let blob = repository.join("blobs").join(digest.digits());
        if fs::metadata(&blob).is_ok_and(|found| found.is_file() && found.len() == bytes(name)) {
            done += bytes(name);
        } else {
            write_blob(&*model.read(name)?, digest, name, &blob, &mut |step| {
                done += step;
                progress(done, total);
            })?;
        }
        link(&blob, &repository.join("snapshots").join(&model.commit), name)?;
    }
    if spec.revision != model.commit {
        write_whole(&repository.join("refs").join(&spec.revision), model.commit.as_bytes())?;
    }
    Ok(())
}

/// The files to download: the weights, and in the same folders everything that is not weights.
fn with_sidecars<'a>(model: &'a HubModel, weights: &'a [String]) -> BTreeSet<String> {
    let folder = |name: &str| name.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let folders: BTreeSet<String> = weights.iter().map(|name| folder(name)).collect();
    let is_weights = |name: &str| {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let extension = extension.as_deref().unwrap_or_default();
        extension == "bin" || Format::all().any(|format| format.extensions().contains(&extension))
    };
    let sidecars = model.list.iter().filter(|(name, file)| {
        let is_small = file.bytes.is_some_and(|bytes| bytes <= MAX_SIDECAR_BYTES);
        is_small && folders.contains(&folder(name)) && !is_weights(name)
    });
    sidecars.map(|(name, _)| name.clone()).chain(weights.iter().cloned()).collect()
}

/// Writes a file that must have this digest.
fn write_blob(
    file: &dyn PositionedRead,
    digest: &Digest,
    name: &str,
    blob: &Path,
    count: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let bytes = file.size()?;
    file.announce(std::slice::from_ref(&(0..bytes)));
    let mut output = create(blob)?;
    let mut hash = Hash::new(digest, bytes);
    let mut buffer = vec![0; STEP_BYTES];
    let mut at = 0;
    while at < bytes {
        let step = buffer.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        let part = buffer.get_mut(..step).unwrap_or_default();
        file.read_exact_at(part, at)?;
        hash.update(part);
        output.write_all(part)?;
        at += step as u64;
        count(step as u64);
    }
    let found = hash.digits();
    if found != digest.digits() {
        let why = format!("{name} has the digest {found}, and {} in the list of the model's files", digest.digits());
        return Err(RemoteError::new(RemoteFault::Digest, why).into());
    }
    commit(output)
}

/// Begins a file, which appears when it is complete.
fn create(path: &Path) -> io::Result<AtomicFile> {
    make_folder_of(path)?;
    AtomicFile::create(path, Existing::Replace).map_err(of_library)
}

fn commit(file: AtomicFile) -> io::Result<()> {
    file.commit().map(drop).map_err(of_library)
}

fn of_library(error: AnamnesisError) -> io::Error {
    match error {
        AnamnesisError::Io(error) => error,
        other => io::Error::other(other),
    }
}

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut output = create(path)?;
    output.write_all(content)?;
    commit(output)
}

/// Makes the folder of a file, if there is none.
fn make_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let done = match fs::metadata(folder) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => fs::create_dir_all(folder),
        Err(error) => Err(error),
    };
    done.map_err(|error| at(folder, &error))
}

/// An error with the path it is about.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Links a file of a snapshot to its blob, relatively, so that the cache can be moved.
fn link(blob: &Path, snapshot: &Path, name: &str) -> io::Result<()> {
    let path = snapshot.join(name);
    make_folder_of(&path)?;
    let mut target = PathBuf::from("../..");
    name.matches('/').for_each(|_| target.push(".."));
    let target = target.join("blobs").join(blob.file_name().unwrap_or_default());
    let replace = || {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() && fs::read_link(&path)? == target => return Ok(()),
            Ok(_) => fs::remove_file(&path)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        #[cfg(unix)]
        return std::os::unix::fs::symlink(&target, &path);
        #[cfg(not(unix))]
        fs::copy(blob, &path).map(drop)
    };
    replace().map_err(|error| at(&path, &error))
}

/// The hash that a digest is made by.
enum Hash {
    Sha256(Sha256),
    GitBlob(Sha1),
}

impl Hash {
    fn new(digest: &Digest, bytes: u64) -> Self {
        match digest {
            Digest::Sha256(_) => Self::Sha256(Sha256::new()),
            Digest::GitBlob(_) => Self::GitBlob(Sha1::new_with_prefix(format!("blob {bytes}\0"))),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::GitBlob(hash) => hash.update(bytes),
        }
    }

    fn digits(self) -> String {
        let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Sha256(hash) => digits(&hash.finalize()),
            Self::GitBlob(hash) => digits(&hash.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_git_and_of_large_files() {
        let of = |digest: Digest, content: &[u8]| {
            let mut hash = Hash::new(&digest, content.len() as u64);
            hash.update(content);
            hash.digits()
        };
        // `git hash-object` and `sha256sum` of an empty file.
        let git = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        assert_eq!(of(Digest::GitBlob(String::new()), b""), git);
        let sha = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of(Digest::Sha256(String::new()), b""), sha);
    }
}
