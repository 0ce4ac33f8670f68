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
        if let Some((name, _)) = rest.split_once("/tree/")
            && let Some(list) = list(&folder.join(name), name)
        {
            let files = list["siblings"].as_array().unwrap().iter().map(|file| {
                let (path, bytes, digest) = (&file["rfilename"], &file["size"], &file["lfs"]["sha256"]);
                let large = json!({ "oid": digest, "size": bytes, "pointerSize": 134 });
                json!({ "type": "file", "oid": COMMIT, "size": bytes, "path": path, "lfs": large })
            });
            return Reply::new(200, Value::from_iter(files).to_string()).with("Content-Type", "application/json");
        }
        let (name, revision) = rest.split_once("/revision/").unwrap_or((rest, "main"));
        return match list(&folder.join(name), &format!("any/{name}")) {
            _ if name == "Gated" => Reply::new(403, "").with("X-Error-Code", "GatedRepo"),
            Some(list) if is_known(revision) => {
                Reply::new(200, list.to_string()).with("Content-Type", "application/json")
            }
            Some(_) => missing("RevisionNotFound"),
            None => Reply::new(401, "").with("X-Error-Code", "RepoNotFound"),
        };
    }
    let file = match path.split_once("/resolve/").and_then(|(model, rest)| Some((model, rest.split_once('/')?))) {
        Some((model, (revision, file))) if is_known(revision) => {
            folder.join(model.rsplit('/').next().unwrap()).join(file)
        }
        Some(_) => return missing("RevisionNotFound"),
        None => folder.join(path),
    };
    match std::fs::read(file) {
        Ok(content) => Reply::file(&content, &digest(&content), request).with("X-Repo-Commit", COMMIT),
        Err(_) => missing("EntryNotFound"),
    }
}

/// Whether a revision is the branch `main` or its commit.
fn is_known(revision: &str) -> bool {
    revision == "main" || revision == COMMIT
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The list of a model's files.
fn list(model: &Path, id: &str) -> Option<Value> {
    let mut files = Vec::new();
    collect(model, model, &mut files)?;
    Some(json!({ "id": id, "sha": COMMIT, "siblings": files }))
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
        let digest = digest(&content);
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        let bytes = content.len();
        files.push(
            json!({ "rfilename": name, "size": bytes, "lfs": { "sha256": digest, "size": bytes, "pointerSize": 134 } }),
        );
    }
    Some(())
}
