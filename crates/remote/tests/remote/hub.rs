//! A look-alike of the Hugging Face Hub: lists, redirects to another host, and refusals.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anamnesis::Checkpoint;
use anamnesis_remote::{Remote, RemoteError, RemoteFault};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::samples::{converted, header_bytes, options, sharded};
use crate::server::{Reply, Request, Server};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_secret";

/// The models of these tests have one name, and of several mounts with the same name the last one is read.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The list of the files of a model.
fn list(files: &HashMap<String, Vec<u8>>) -> String {
    let file = |(name, content): (&String, &Vec<u8>)| {
        let mut file = json!({ "rfilename": &name[1..], "size": content.len() });
        if is_large(name) {
            file["lfs"] = json!({ "sha256": sha256(content), "size": content.len() });
        }
        file
    };
    json!({ "sha": COMMIT, "siblings": files.iter().map(file).collect::<Vec<_>>() }).to_string()
}

/// Whether a file is in large file storage.
fn is_large(name: &str) -> bool {
    name.ends_with(".safetensors")
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The answer to a request for the addresses of large files, as Git LFS specifies it.
fn batch(request: &Request, files: &HashMap<String, Vec<u8>>, storage: &str) -> Reply {
    const TYPE: &str = "application/vnd.git-lfs+json";
    assert_eq!((request.method.as_str(), request.headers["accept"].as_str()), ("POST", TYPE));
    assert_eq!(request.headers["content-type"], TYPE);
    let asked: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!((&asked["operation"], &asked["transfers"]), (&json!("download"), &json!(["basic"])));
    let object = |object: &Value| {
        let (name, content) = files.iter().find(|(_, content)| object["oid"] == sha256(content)).unwrap();
        assert_eq!(object["size"], content.len());
        let href = format!("{storage}/storage{name}?Signature=1");
        json!({ "oid": object["oid"], "size": object["size"], "actions": { "download": { "href": href } } })
    };
    let objects: Vec<_> = asked["objects"].as_array().unwrap().iter().map(object).collect();
    Reply::new(200, json!({ "transfer": "basic", "objects": objects }).to_string()).with("Content-Type", TYPE)
}

/// A hub, and the server with its large files.
fn hub(files: HashMap<String, Vec<u8>>) -> (Server, Server) {
    hub_with(files, batch)
}

/// A hub with this answer for the addresses of large files.
fn hub_with(
    files: HashMap<String, Vec<u8>>,
    batch: impl Fn(&Request, &HashMap<String, Vec<u8>>, &str) -> Reply + Send + Sync + 'static,
) -> (Server, Server) {
    let stored = files.clone();
    let storage = Server::start(move |request, _| {
        let name = request.name().strip_prefix("/storage").unwrap_or_default();
        let is_signed = request.path.ends_with("?Signature=1") || request.path.ends_with("?Signature=2");
        match stored.get(name).filter(|_| is_signed) {
            Some(content) => Reply::file(content, "1", request),
            None => Reply::new(403, ""),
        }
    });
    let (address, list) = (storage.address.clone(), list(&files));
    let hub = Server::start(move |request, _| match request.name() {
        "/org/name.git/info/lfs/objects/batch" => batch(request, &files, &address),
        _ => answer(request, &files, &list, &address),
    });
    (hub, storage)
}

fn answer(request: &Request, files: &HashMap<String, Vec<u8>>, list: &str, storage: &str) -> Reply {
    let has_token = request.headers.get("authorization").is_some_and(|found| *found == format!("Bearer {TOKEN}"));
    let refused = |status: u16, code: &str| Reply::new(status, "").with("X-Error-Code", code);
    match request.path.as_str() {
        "/api/models/org/name/revision/main?blobs=true" => Reply::new(200, list),
        "/api/models/org/name/revision/v%2F2?blobs=true" => Reply::new(200, list),
        "/api/models/org/name/revision/gone?blobs=true" => refused(404, "RevisionNotFound"),
        "/api/models/org/gated/revision/main?blobs=true" if has_token => refused(403, "GatedRepo"),
        "/api/models/org/gated/revision/main?blobs=true" => refused(401, "GatedRepo"),
        "/api/models/org/private/revision/main?blobs=true" if has_token => Reply::new(200, list),
        "/api/models/org/page/revision/main?blobs=true" => Reply::new(200, "<html>").with("Content-Type", "text/html"),
        "/api/models/org/busy/revision/main?blobs=true" => Reply::new(429, ""),
        path if path.starts_with("/api/") => refused(401, "RepoNotFound"),
        path => {
            let name = path.strip_prefix(&format!("/org/name/resolve/{COMMIT}")).unwrap_or_default();
            match files.get(name) {
                Some(_) if is_large(name) => {
                    Reply::new(302, "").with("Location", format!("{storage}/storage{name}?Signature=1"))
                }
                Some(content) => Reply::file(content, "1", request),
                None => refused(404, "EntryNotFound"),
            }
        }
    }
}

fn remote(hub: &Server, token: Option<&str>) -> Remote {
    let mut options = options();
    options.hub.endpoint = hub.address.clone();
    options.hub.token = token.map(str::to_owned);
    Remote::new(options).unwrap()
}

#[test]
fn a_model_is_read_with_its_shards_and_sidecars() {
    let _alone = alone();
    let files = sharded("", 8, 10, 5000);
    let (hub, storage) = hub(files.clone());
    let remote = remote(&hub, Some(TOKEN));
    let mount = remote.mount(Path::new("hf:org/name")).unwrap().unwrap();
    let checkpoint = Checkpoint::open(mount.path(), &Default::default()).unwrap();
    assert_eq!((checkpoint.file_count(), checkpoint.tensor_count()), (8, 80));
    assert_eq!(checkpoint.origin().model_name().unwrap(), "name");
    assert!(checkpoint.inspect(&Default::default()).problems.is_empty());
    // List, index, configuration, the addresses of the shards, and their headers: at most 16.
    assert_eq!((hub.seen().len(), storage.seen().len()), (4, 8), "{:?}", hub.seen());
    let shards = files.iter().filter(|(name, _)| is_large(name));
    let headers: u64 = shards.map(|(_, content)| header_bytes(content)).sum();
    assert!(storage.bytes() <= headers * 105 / 100 + 8 * 100_000, "{} bytes for {headers}", storage.bytes());
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in &files {
        std::fs::write(folder.path().join(&name[1..]), content).unwrap();
    }
    assert!(converted(mount.path()).unwrap() == converted(folder.path()).unwrap());
    assert!(hub.seen().iter().all(|request| request.headers.contains_key("authorization")));
    assert!(storage.seen().iter().all(|request| !request.headers.contains_key("authorization")));
}

#[test]
fn a_hub_without_addresses_of_large_files_redirects_to_them() {
    let _alone = alone();
    let files = sharded("", 3, 10, 5000);
    let without: fn(&Request, &HashMap<String, Vec<u8>>, &str) -> Reply = |_, _, _| Reply::new(404, "not found");
    let refused = |_: &Request, _: &_, _: &str| Reply::new(403, "").with("X-Error-Code", "GatedRepo");
    let page = |_: &Request, _: &_, _: &str| Reply::new(200, "<html>");
    let empty = |_: &Request, _: &_, _: &str| Reply::new(200, "{\"objects\": []}");
    // Addresses that lead nowhere, as expired ones do.
    let expired = |request: &Request, files: &_, storage: &str| {
        let reply = batch(request, files, storage);
        Reply { body: String::from_utf8(reply.body).unwrap().replace("Signature=1", "Signature=0").into(), ..reply }
    };
    let elsewhere = |request: &Request, files: &_, _: &str| batch(request, files, "http://127.0.0.1:1");
    for (case, batch) in [without, refused, page, empty, expired, elsewhere].into_iter().enumerate() {
        let (hub, storage) = hub_with(files.clone(), batch);
        let remote = remote(&hub, Some(TOKEN));
        let mount = remote.mount(Path::new("hf:org/name")).unwrap().unwrap();
        let checkpoint = Checkpoint::open(mount.path(), &Default::default()).unwrap();
        assert_eq!((checkpoint.file_count(), checkpoint.tensor_count()), (3, 30), "case {case}");
        // List, index, configuration, the addresses that are not given, and three redirects.
        assert_eq!(hub.seen().len(), 7, "case {case}: {:?}", hub.seen());
        assert!(storage.seen().iter().all(|request| !format!("{request:?}").contains(TOKEN)), "case {case}");
    }
}

#[test]
fn revisions_and_files_are_part_of_the_address() {
    let _alone = alone();
    let (hub, _storage) = hub(sharded("", 2, 3, 100));
    let remote = remote(&hub, None);
    let mount = remote.mount(Path::new("hf:org/name@v%2F2/model.safetensors.index.json")).unwrap().unwrap();
    assert_eq!(Checkpoint::open(mount.path(), &Default::default()).unwrap().tensor_count(), 6);
    drop(mount);
    let mount = remote.mount(Path::new("hf:org/name/model-00002-of-00002.safetensors")).unwrap().unwrap();
    assert_eq!(
        Checkpoint::open(mount.path(), &Default::default()).unwrap().tensor_count(),
        6,
        "a shard is one of a set"
    );
    assert_eq!(Checkpoint::open_file(mount.path(), &Default::default()).unwrap().tensor_count(), 3);
    drop(mount);
    let mount = remote.mount(Path::new("hf:org/name/missing.gguf")).unwrap().unwrap();
    let error = Checkpoint::open(mount.path(), &Default::default()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("hf:org/name/missing.gguf") && error.contains("no such file"), "{error}");
}

#[test]
fn refusals_are_told_apart() {
    let _alone = alone();
    let (hub, _storage) = hub(sharded("", 1, 1, 10));
    let fault = |name: &str, token| {
        let error = remote(&hub, token).mount(Path::new(name)).map(|_| ()).unwrap_err();
        assert!(error.to_string().starts_with(name) && !error.to_string().contains(TOKEN), "{error}");
        RemoteError::behind(&error).unwrap().fault()
    };
    assert_eq!(fault("hf:org/gated", None), RemoteFault::Gated);
    assert_eq!(fault("hf:org/gated", Some(TOKEN)), RemoteFault::Gated);
    assert_eq!(fault("hf:org/private", None), RemoteFault::Missing);
    assert_eq!(fault("hf:org/nothing", Some(TOKEN)), RemoteFault::Missing);
    assert_eq!(fault("hf:org/name@gone", None), RemoteFault::Missing);
    assert_eq!(fault("hf:org/busy", None), RemoteFault::RateLimit);
    assert_eq!(fault("hf:org/page", None), RemoteFault::WebPage);
    assert!(remote(&hub, Some(TOKEN)).mount(Path::new("hf:org/private")).unwrap().is_some());
}

#[test]
fn a_target_that_expires_is_asked_for_again() {
    let _alone = alone();
    let files = sharded("", 1, 6, 1 << 20);
    let stored = files.clone();
    // The signature is good for two requests.
    let storage = Server::start(move |request, number| {
        let name = request.name().strip_prefix("/storage").unwrap_or_default();
        let number_in_path = request.path.rsplit('=').next().and_then(|text| text.parse::<usize>().ok());
        match stored.get(name).filter(|_| number_in_path.is_some_and(|signed| number < signed + 2)) {
            Some(content) => Reply::file(content, "1", request),
            None => Reply::new(403, ""),
        }
    });
    let (address, list) = (storage.address.clone(), list(&files));
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let hub = Server::start(move |request, _| {
        let reply = answer(request, &files, &list, &address);
        if reply.status == 302 {
            let signed = count.fetch_add(3, std::sync::atomic::Ordering::Relaxed);
            let location = reply.headers[0].1.replace("Signature=1", &format!("Signature={signed}"));
            return Reply::new(302, "").with("Location", location);
        }
        reply
    });
    let mut options = options();
    options.hub.endpoint = hub.address.clone();
    options.concurrency = 1;
    let remote = Remote::new(options).unwrap();
    let mount = remote.mount(Path::new("hf:org/name")).unwrap().unwrap();
    let checkpoint = Checkpoint::open(mount.path(), &Default::default()).unwrap();
    for tensor in 0..6 {
        let values: Vec<f32> = checkpoint.decode(&format!("model.layers.1.{tensor:05}.weight")).unwrap();
        assert_eq!(values.len(), 1 << 20);
    }
    assert!(storage.seen().len() > 6);
}

#[test]
fn a_model_that_is_mounted_twice_outlives_the_first() {
    let _alone = alone();
    let (hub, _storage) = hub(sharded("", 2, 3, 100));
    let remote = remote(&hub, None);
    let mount = || remote.mount(Path::new("hf:org/name")).unwrap().expect("it is not in the local cache");
    let (first, second) = (mount(), mount());
    drop(first);
    assert_eq!(Checkpoint::open(second.path(), &Default::default()).unwrap().tensor_count(), 6);
}

#[test]
fn nothing_is_sent_when_the_hub_is_offline() {
    let _alone = alone();
    let (hub, _storage) = hub(sharded("", 1, 1, 10));
    let mut options = options();
    options.hub.endpoint = hub.address.clone();
    options.hub.is_offline = true;
    assert!(Remote::new(options).unwrap().mount(Path::new("hf:org/name")).unwrap().is_none());
    assert_eq!(hub.seen().len(), 0);
}
