//! Every container gives the same output from a server as from the disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anamnesis::{Checkpoint, Format, OpenOptions};
use anamnesis_remote::RemoteError;

use crate::samples::{converted, fixtures, mount, remote};
use crate::server::{Reply, Server};

/// Inputs per container.
const MOST: usize = 6;
/// The endings of files by which models of several files are opened, besides those of the formats.
const ENTRIES: [&str; 2] = ["metadata", "index"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// A server of a folder.
fn server(root: PathBuf) -> Server {
    Server::start(move |request, _| match std::fs::read(root.join(request.name().trim_start_matches('/'))) {
        Ok(content) => Reply::file(&content, &content.len().to_string(), request),
        Err(_) => Reply::new(404, ""),
    })
}

#[test]
fn outputs_are_the_same_for_every_container() {
    let root = fixtures();
    let server = server(root.clone());
    let mut paths = Vec::new();
    files(&root, &mut paths);
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let ending = name.rsplit('.').next().unwrap();
        if !Format::all().any(|format| format.extensions().contains(&ending)) && !ENTRIES.contains(&ending) {
            continue;
        }
        let Ok(local) = Checkpoint::open_with(&path, &OpenOptions::new()) else { continue };
        let count = compared.entry(local.format().name()).or_default();
        if *count == MOST {
            continue;
        }
        let remote = remote();
        let mount = mount(&remote, &format!("{}/{name}", server.address));
        match (converted(&path), converted(mount.path())) {
            (Ok(local), Ok(remote)) => {
                assert!(local == remote, "{name} differs");
                *count += 1;
            }
            (Err(_), Err(remote)) => assert!(RemoteError::behind(&remote).is_none(), "{name}: {remote}"),
            (local, remote) => panic!("{name}: {:?} and {:?}", local.map(drop), remote.map(drop)),
        }
    }
    for format in Format::all() {
        assert!(compared.get(format.name()).is_some_and(|count| *count > 0), "{}: {compared:?}", format.name());
    }
}
