//! A look-alike of the Hugging Face Hub: lists, redirects to another host, and refusals.

use std::collections::HashMap;
use std::path::Path;

use anamnesis::Checkpoint;
use anamnesis_remote::{Remote, RemoteError, RemoteFault};

use crate::samples::{converted, options, sharded};
use crate::server::{Reply, Request, Server};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_secret";

/// The list of the files of a model.
fn list(files: &HashMap<String, Vec<u8>>) -> String {
    let siblings: Vec<_> = files
        .iter()
        .map(|(name, content)| format!("{{\"rfilename\": \"{}\", \"size\": {}}}", &name[1..], content.len()))
        .collect();
    format!("{{\"sha\": \"{COMMIT}\", \"siblings\": [{}]}}", siblings.join(","))
}

/// A hub, and the server with its large files.
fn hub(files: HashMap<String, Vec<u8>>) -> (Server, Server) {
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
    let hub = Server::start(move |request, _| answer(request, &files, &list, &address));
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
                Some(_) if name.ends_with(".safetensors") => {
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
    let files = sharded("", 8, 10, 5000);
    let (hub, storage) = hub(files.clone());
    let remote = remote(&hub, Some(TOKEN));
    let mount = remote.mount(Path::new("hf:org/name")).unwrap().unwrap();
    let checkpoint = Checkpoint::open(mount.path(), &Default::default()).unwrap();
    assert_eq!((checkpoint.file_count(), checkpoint.tensor_count()), (8, 80));
    assert_eq!(checkpoint.origin().model_name().unwrap(), "name");
    // List, index, configuration, and a redirect for every shard.
    assert_eq!((hub.seen().len(), storage.seen().len()), (11, 8), "{:?}", hub.seen());
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in &files {
        std::fs::write(folder.path().join(&name[1..]), content).unwrap();
    }
    assert!(converted(mount.path()).unwrap() == converted(folder.path()).unwrap());
    assert!(hub.seen().iter().all(|request| request.headers.contains_key("authorization")));
    assert!(storage.seen().iter().all(|request| !request.headers.contains_key("authorization")));
}

#[test]
fn revisions_and_files_are_part_of_the_address() {
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
fn nothing_is_sent_when_the_hub_is_offline() {
    let (hub, _storage) = hub(sharded("", 1, 1, 10));
    let mut options = options();
    options.hub.endpoint = hub.address.clone();
    options.hub.is_offline = true;
    assert!(Remote::new(options).unwrap().mount(Path::new("hf:org/name")).unwrap().is_none());
    assert_eq!(hub.seen().len(), 0);
}
