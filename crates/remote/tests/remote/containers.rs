//! Every container gives the same output from a server as from the disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anamnesis::{Checkpoint, OpenOptions};

use crate::samples::{converted, fixtures, mount, remote};
use crate::server::{Reply, Server};

/// Inputs per container.
const MOST: usize = 6;

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
    let mut compared: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths {
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let known = anamnesis::Format::all().any(|format| format.extensions().contains(&ending.as_str()));
        if !known && !matches!(ending.as_str(), "metadata" | "index") {
            continue;
        }
        let Ok(local) = Checkpoint::open_with(&path, &OpenOptions::new()) else { continue };
        let count = compared.entry(format!("{:?}", local.format())).or_default();
        if *count == MOST {
            continue;
        }
        *count += 1;
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let remote = remote();
        let mount = mount(&remote, &format!("{}/{name}", server.address));
        let text = |error: anamnesis::AnamnesisError| error.to_string().len();
        match (converted(&path), converted(mount.path())) {
            (Ok(local), Ok(remote)) => assert!(local == remote, "{name} differs"),
            (local, remote) => assert_eq!(
                local.map(|_| ()).map_err(|error| text(error) > 0),
                remote.map(|_| ()).map_err(|error| text(error) > 0),
                "{name}"
            ),
        }
    }
    assert!(compared.len() >= 10, "{compared:?}");
}
