//! Resolving file names from an index or a model file without leaving the checkpoint's directory.
//!
//! Such a file is untrusted: its file names must not lead out of its directory, neither by their spelling nor through a
//! symbolic link. The one exception is the cache of the Hugging Face Hub, whose snapshots are links into the `blobs`
//! folder of the same repository:
//!
//! ```text
//! models--org--name/blobs/1f2e…                             the bytes
//! models--org--name/snapshots/REV/model.safetensors  ->  ../../blobs/1f2e…
//! ```

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use super::place::{entry, is_mounted};
use crate::error::{AnamnesisError, Result, quoted};

/// The path of the file that an index in `directory` refers to as `name`.
///
/// # Errors
/// `Parse` if the name leads out of the directory, `Io` if the file does not exist.
pub(crate) fn file_inside(directory: &Path, name: &str) -> Result<PathBuf> {
    file_named_by("the index", directory, name, Links::Inside)
}

/// The links that may lead to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Those that stay inside the directory, and those of a Hub snapshot.
    Inside,
    /// Those of a Hub snapshot only.
    OfSnapshot,
}

/// [`file_inside`] for a name that `namer` refers to.
pub(crate) fn file_named_by(namer: &str, directory: &Path, name: &str, links: Links) -> Result<PathBuf> {
    if let Some(why) = spelling_fault(name) {
        return Err(AnamnesisError::parse(format!("{namer} names the file {}, which {why}", quoted(name))));
    }
    if is_mounted(directory) {
        // A store has no links.
        let path = directory.join(name);
        return match entry(&path)? {
            Some(_) => Ok(path),
            None => Err(not_there(namer, &path)),
        };
    }
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let path = directory.join(name);
    let home = directory.canonicalize().map_err(|error| AnamnesisError::at_path(error, directory))?;
    let place = path.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => not_there(namer, &path),
        _ => AnamnesisError::at_path(error, &path),
    })?;
    let is_blob = blobs_of(&home).is_some_and(|blobs| place.starts_with(blobs));
    if links == Links::OfSnapshot && !is_blob && place != home.join(name) {
        return Err(AnamnesisError::parse(format!("the file {} named by {namer} is a link", quoted(name))));
    }
    if place.starts_with(&home) || is_blob {
        return Ok(path);
    }
    let (name, home) = (quoted(name), quoted(&home.to_string_lossy()));
    Err(AnamnesisError::parse(format!("the file {name} named by {namer} is a link that leaves its directory {home}")))
}

/// The error for a missing file that another one names.
fn not_there(namer: &str, path: &Path) -> AnamnesisError {
    let why = format!("no such file, though named by {namer}");
    AnamnesisError::at_path(Error::new(ErrorKind::NotFound, why), path)
}

/// Why the spelling of a file name is refused. The rules are those of all operating systems combined, so that a
/// checkpoint is read alike on each.
fn spelling_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("is empty");
    }
    if name.starts_with('/') {
        return Some("is not inside the checkpoint's directory");
    }
    if name.contains(['\\', ':', '\0']) {
        return Some("contains a character that names of files inside a checkpoint cannot have");
    }
    name.split('/').any(|part| matches!(part, "" | "." | "..")).then_some("is not a plain relative file name")
}

/// The `blobs` folder of the Hub snapshot that a canonical directory is, or is part of.
fn blobs_of(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find_map(|snapshot| {
        let snapshots = snapshot.parent()?;
        let repository = snapshots.parent()?;
        let is_repository = repository.file_name()?.to_string_lossy().starts_with("models--");
        (is_repository && snapshots.file_name()? == "snapshots").then(|| repository.join("blobs"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn parse_error(directory: &Path, name: &str) -> String {
        match file_inside(directory, name) {
            Err(error @ AnamnesisError::Parse { .. }) => error.to_string(),
            other => panic!("{name:?}: {other:?}"),
        }
    }

    #[test]
    fn a_file_in_the_directory_or_below_it_is_found() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        for name in ["model.safetensors", "sub/model.safetensors", "..model", "größe"] {
            fs::write(directory.path().join(name), "x").unwrap();
            assert_eq!(file_inside(directory.path(), name).unwrap(), directory.path().join(name));
        }
    }

    #[test]
    fn names_that_leave_the_directory_are_refused_without_disk_access() {
        let nowhere = Path::new("no/such/directory");
        for name in [
            "",
            "/etc/passwd",
            "../../etc/passwd",
            "a/../../b",
            "..",
            ".",
            "./a",
            "a//b",
            "a/",
            "..\\b",
            "\\\\server\\share",
            "C:\\a",
            "C:a",
            "C:/a",
            "a\0b",
        ] {
            assert!(parse_error(nowhere, name).contains(&quoted(name)), "{name:?}");
        }
    }

    #[test]
    fn a_missing_file_is_named_with_the_reason_it_was_looked_for() {
        let directory = tempfile::tempdir().unwrap();
        let Err(AnamnesisError::Io(error)) = file_inside(directory.path(), "model-2.safetensors") else {
            panic!("found");
        };
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let text = error.to_string();
        assert!(text.contains("model-2.safetensors: ") && text.contains("named by the index"), "{text}");
    }

    #[cfg(unix)]
    mod links {
        use super::*;
        use std::os::unix::fs::symlink;

        #[test]
        fn a_link_may_stay_inside_but_not_leave() {
            let root = tempfile::tempdir().unwrap();
            let directory = root.path().join("model");
            fs::create_dir(&directory).unwrap();
            fs::write(root.path().join("secret"), "x").unwrap();
            fs::write(directory.join("real"), "x").unwrap();
            symlink("real", directory.join("link")).unwrap();
            symlink("../secret", directory.join("out")).unwrap();
            symlink("..", directory.join("up")).unwrap();
            assert!(file_inside(&directory, "link").is_ok());
            for name in ["out", "up/secret"] {
                assert!(parse_error(&directory, name).contains("leaves its directory"));
            }
        }

        #[test]
        fn a_file_that_allows_no_links_is_followed_through_none() {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("real"), "x").unwrap();
            symlink("real", directory.path().join("link")).unwrap();
            let find = |name| file_named_by("the model", directory.path(), name, Links::OfSnapshot);
            assert!(find("real").is_ok());
            assert!(find("link").unwrap_err().to_string().contains("is a link"));
        }

        #[test]
        fn a_directory_with_the_same_beginning_is_another_directory() {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join("model")).unwrap();
            fs::create_dir(root.path().join("model-2")).unwrap();
            fs::write(root.path().join("model-2/x"), "x").unwrap();
            symlink("../model-2/x", root.path().join("model/x")).unwrap();
            parse_error(&root.path().join("model"), "x");
        }

        #[test]
        fn a_checkpoint_reached_through_a_link_is_read() {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join("model")).unwrap();
            fs::write(root.path().join("model/x"), "x").unwrap();
            symlink("model", root.path().join("latest")).unwrap();
            assert!(file_inside(&root.path().join("latest"), "x").is_ok());
        }

        #[test]
        fn a_snapshot_links_into_the_blobs_of_its_own_repository_only() {
            let root = tempfile::tempdir().unwrap();
            let repository = root.path().join("models--org--name");
            let snapshot = repository.join("snapshots/abc");
            fs::create_dir_all(snapshot.join("sub")).unwrap();
            fs::create_dir(repository.join("blobs")).unwrap();
            fs::create_dir_all(root.path().join("models--other/blobs")).unwrap();
            fs::write(repository.join("blobs/1"), "x").unwrap();
            fs::write(repository.join("refs"), "x").unwrap();
            fs::write(root.path().join("models--other/blobs/1"), "x").unwrap();
            symlink("../../blobs/1", snapshot.join("a")).unwrap();
            symlink("../../../blobs/1", snapshot.join("sub/a")).unwrap();
            symlink("../../refs", snapshot.join("b")).unwrap();
            symlink("../../../models--other/blobs/1", snapshot.join("c")).unwrap();
            assert!(file_inside(&snapshot, "a").is_ok());
            assert!(file_inside(&snapshot.join("sub"), "a").is_ok());
            parse_error(&snapshot, "b");
            parse_error(&snapshot, "c");
        }

        #[test]
        fn links_in_a_circle_are_an_error_not_a_loop() {
            let directory = tempfile::tempdir().unwrap();
            symlink("b", directory.path().join("a")).unwrap();
            symlink("a", directory.path().join("b")).unwrap();
            assert!(matches!(file_inside(directory.path(), "a"), Err(AnamnesisError::Io(_))));
        }
    }
}
