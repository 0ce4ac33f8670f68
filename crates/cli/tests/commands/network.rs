//! A server on this machine with the files of a folder, as a web server and as a look-alike of the Hugging Face Hub.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[path = "../../../remote/tests/remote/server.rs"]
#[allow(dead_code, reason = "the tests of another crate use the rest")]
pub mod server;

use server::{Reply, Request, Server};

/// The commit of every model.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Serves `folder/file` as `/file`, and the model `folder/name` as `any/name` of the hub.
pub fn serve(folder: &Path) -> Server {
    let folder = folder.to_path_buf();
    Server::start(move |request, _| answer(&folder, request))
}

pub fn answer(folder: &Path, request: &Request) -> Reply {
    let path = request.name().trim_start_matches('/');
    let missing = |code: &str| Reply::new(404, "").with("X-Error-Code", code);
    if let Some((_, rest)) = path.strip_prefix("api/models/").and_then(|rest| rest.split_once('/')) {
        let name = rest.split('/').next().unwrap();
        return match list(&folder.join(name)) {
            Some(list) => Reply::new(200, list.to_string()),
            None => missing("RepoNotFound"),
        };
    }
    let file = match path.split_once(&format!("/resolve/{COMMIT}/")) {
        Some((model, file)) => folder.join(model.rsplit('/').next().unwrap()).join(file),
        None => folder.join(path),
    };
    match std::fs::read(file) {
        Ok(content) => Reply::file(&content, &content.len().to_string(), request),
        Err(_) => missing("EntryNotFound"),
    }
}

/// The list of a model's files.
fn list(model: &Path) -> Option<Value> {
    let mut files = Vec::new();
    collect(model, model, &mut files)?;
    Some(json!({ "sha": COMMIT, "siblings": files }))
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<Value>) -> Option<()> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(root, &path, files)?;
            continue;
        }
        let content = std::fs::read(&path).unwrap();
        let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        let bytes = content.len();
        files.push(json!({ "rfilename": name, "size": bytes, "lfs": { "sha256": digest, "size": bytes } }));
    }
    Some(())
}
