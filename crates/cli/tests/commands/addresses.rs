//! Commands on models at addresses.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::folder::{Folder, Run};
use crate::network::server::{Reply, Request, Server};
use crate::network::{COMMIT, serve};
use crate::samples;

/// `amn` with the words of `line`, a hub at `hub`, and a cache inside of the folder.
fn command(folder: &Folder, hub: &str, line: &str) -> Command {
    let mut command = folder.command(line);
    command.env("HF_ENDPOINT", hub).env("HF_HOME", folder.path("hf")).env("HF_TOKEN", "hf_secret");
    for name in ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"] {
        command.env_remove(name);
    }
    command
}

fn run(folder: &Folder, hub: &str, line: &str) -> Run {
    Run::of(command(folder, hub, line).output().unwrap())
}

/// All files below a folder with their contents.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    if path.is_file() {
        return vec![(String::new(), fs::read(path).unwrap())];
    }
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = names.map(|name| (name.clone(), fs::read(path.join(name)).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn every_command_takes_addresses() {
    let folder = samples::folder();
    let server = serve(folder.root());
    let at = &server.address;
    for line in [
        "parse model.gguf --list",
        "parse Tiny-3.1-FP8/model.safetensors.index.json",
        "inspect Tiny-3.1-FP8/model.safetensors.index.json",
        "inspect arrays.npz",
        "tree Tiny-3.1-FP8/model.safetensors.index.json",
        "stats model-fp8.safetensors",
        "hash checkpoint.pth",
        "show plain.safetensors model.norm.weight",
        "verify Tiny-3.1-FP8/model.safetensors.index.json",
        "scan checkpoint.pth",
        "remember Tiny-3.1-FP8/model.safetensors.index.json --dry-run -o output",
        "forget plain.safetensors --to q8_0 --dry-run -o output.gguf",
    ] {
        let mut words = line.split(' ');
        let (verb, path) = (words.next().unwrap(), words.next().unwrap());
        let rest: Vec<_> = words.collect();
        let local = folder.amn(line).ok().replace(path, "[PATH]");
        let remote = folder.amn(&format!("{verb} {at}/{path} {}", rest.join(" "))).ok();
        let remote = remote.replace(&format!("{at}/{path}"), "[PATH]").replace(&format!("{at}/"), "");
        // The places of outputs and free space differ.
        let lines = |text: &str| -> Vec<String> {
            let kept = |line: &&str| !["Remember:", "Space:", "Memory:"].iter().any(|start| line.starts_with(start));
            text.lines().filter(kept).map(str::to_owned).collect()
        };
        assert_eq!(lines(&local), lines(&remote), "{line}");
    }
    let same = folder.amn(&format!("diff {at}/plain.safetensors plain.safetensors")).ok();
    assert!(same.contains("equal") || same.contains("same") || same.contains("identical"), "{same}");
}

#[test]
fn outputs_are_those_of_the_local_model() {
    let folder = samples::folder();
    let server = serve(folder.root());
    let at = &server.address;
    for (line, path, output) in [
        ("remember", "Tiny-3.1-FP8/model.safetensors.index.json", ""),
        ("remember", "model-fp8.safetensors", ".safetensors"),
        ("convert --to gguf", "Tiny-Llama/model.safetensors", ".gguf"),
        ("convert --to safetensors", "model.gguf", ".safetensors"),
        ("forget --to q4_0", "plain.safetensors", ".gguf"),
        ("forget --to bnb-nf4", "Tiny-3.1-FP8/", ""),
    ] {
        let address = format!("{at}/{path}");
        for (input, output) in [(path, format!("local{output}")), (&address, format!("remote{output}"))] {
            let run = folder.amn(&format!("{line} {input} -o {output}"));
            assert_eq!(run.code, Some(0), "{run:?}");
        }
        let (local, remote) = (folder.path(&format!("local{output}")), folder.path(&format!("remote{output}")));
        assert!(contents(&local) == contents(&remote), "{line} {path}");
        for path in [local, remote] {
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
    }
}

#[test]
fn a_model_of_the_hub_is_read_and_downloaded() {
    let folder = samples::folder();
    let server = serve(folder.root());
    let local = run(&folder, &server.address, "hash Tiny-3.1-FP8").ok();
    let remote = run(&folder, &server.address, "hash hf:example/Tiny-3.1-FP8").ok();
    assert_eq!(local, remote);
    assert!(!folder.path("hf/hub").exists(), "nothing is kept");
    let downloaded = run(&folder, &server.address, "hash hf:example/Tiny-3.1-FP8 --download").ok();
    assert_eq!(local, downloaded);
    let cache = folder.path("hf/hub/models--example--Tiny-3.1-FP8");
    assert_eq!(fs::read_to_string(cache.join("refs/main")).unwrap(), COMMIT);
    let snapshot = cache.join("snapshots").join(COMMIT);
    assert_eq!(contents(&snapshot), contents(&folder.path("Tiny-3.1-FP8")));
    let before = server.seen().len();
    assert_eq!(local, run(&folder, &server.address, "hash hf:example/Tiny-3.1-FP8").ok());
    assert_eq!(server.seen().len(), before, "the cache comes first");
    let mut offline = command(&folder, &server.address, "verify hf:example/Tiny-3.1-FP8");
    Run::of(offline.env("HF_HUB_OFFLINE", "1").output().unwrap()).ok();
    // A damaged blob is found by its name.
    let blob = fs::read_dir(cache.join("blobs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| fs::metadata(path).unwrap().len());
    let blob = blob.unwrap();
    let mut content = fs::read(&blob).unwrap();
    *content.last_mut().unwrap() ^= 1;
    fs::write(&blob, content).unwrap();
    let mut offline = command(&folder, &server.address, "verify hf:example/Tiny-3.1-FP8");
    let found = Run::of(offline.env("HF_HUB_OFFLINE", "1").output().unwrap());
    assert!(found.code == Some(1) && found.stdout.contains("damaged"), "{found:?}");
}

#[test]
fn a_download_with_another_digest_is_refused_and_leaves_nothing() {
    let folder = samples::folder();
    let root = folder.root().to_path_buf();
    let server = Server::start(move |request, _| {
        let mut reply = crate::network::answer(&root, request);
        if request.name().ends_with("model.safetensors")
            && let Some(last) = reply.body.last_mut()
        {
            *last ^= 1;
        }
        reply
    });
    let error = run(&folder, &server.address, "inspect hf:example/Tiny-GPTQ --download").failed();
    assert!(error.contains("digest") && error.contains("model.safetensors"), "{error}");
    let blobs = contents(&folder.path("hf/hub/models--example--Tiny-GPTQ/blobs"));
    assert!(blobs.iter().all(|(name, _)| !name.contains("incomplete")) && blobs.len() == 1, "only config.json");
    assert!(!folder.path("hf/hub/models--example--Tiny-GPTQ/refs").exists());
}

#[test]
fn errors_name_the_remedy_and_no_secret() {
    let folder = samples::folder();
    let server = Server::start(|request, _| match request.name() {
        "/api/models/org/gated/revision/main" => Reply::new(403, "").with("X-Error-Code", "GatedRepo"),
        "/api/models/org/private/revision/main" => Reply::new(401, ""),
        "/api/models/org/none/revision/main" => Reply::new(404, "").with("X-Error-Code", "RepoNotFound"),
        "/page.gguf" => Reply::new(200, "<html>").with("Content-Type", "text/html"),
        "/whole.gguf" => Reply::new(200, vec![0; 5 << 20]),
        _ => Reply::new(404, ""),
    });
    let at = server.address.clone();
    for (line, words) in [
        ("inspect hf:org/gated".to_owned(), ["hf:org/gated: ", "granted by its owner", "HF_TOKEN"]),
        ("inspect hf:org/private".to_owned(), ["hf:org/private: ", "credentials", "hf auth login"]),
        ("inspect hf:org/none".to_owned(), ["hf:org/none: ", "no such model", "private"]),
        (format!("inspect {at}/page.gguf"), ["/page.gguf: ", "web page", "address of the file itself"]),
        (format!("inspect {at}/whole.gguf"), ["/whole.gguf: ", "ranges", "download the file"]),
        (format!("inspect {at}/none.gguf"), ["/none.gguf: ", "no such file", ""]),
    ] {
        let error = run(&folder, &at, &line).failed();
        assert!(words.iter().all(|word| error.contains(word)), "{line}: {error}");
        assert!(!error.contains("hf_secret"), "{error}");
    }
    let cloud = if cfg!(feature = "clouds") { "s3://me:secret@bucket/model" } else { "s3://secret/model" };
    for address in ["https://me:secret@host/model.gguf", "https://host/../secret", cloud, "hf:../secret"] {
        let run = run(&folder, &at, &format!("inspect {address}"));
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(address.starts_with("hf:") || !run.stderr.contains("secret"), "{run:?}");
    }
    let before = folder.names();
    for (line, why) in [
        ("remember plain.safetensors -o https://host/model.gguf", "addresses are not written"),
        ("show plain.safetensors model.norm.weight -o s3://bucket/secret", "s3 addresses are"),
        ("remember plain.safetensors -o s3://bucket/secret", "the feature `clouds`"),
    ] {
        if cfg!(feature = "clouds") && line.starts_with("remember") && line.contains("s3:") {
            continue;
        }
        let error = folder.amn(line).refused();
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
    assert_eq!(folder.names(), before);
}

#[test]
fn the_token_is_sent_to_the_hub_alone_and_never_printed() {
    const SIGNATURE: &str = "signature-of-an-address";
    let folder = samples::folder();
    let root = folder.root().to_path_buf();
    // The storage fails in several ways.
    let storage = Server::start({
        let root = root.clone();
        move |request, _| match request.name() {
            name if name.contains("/page/") => Reply::new(200, "<html>").with("Content-Type", "text/html"),
            name if name.contains("/gone/") => Reply::new(404, ""),
            name if name.contains("/circle/") => Reply::new(302, "").with("Location", &request.path),
            name => {
                let path = name.trim_start_matches("/files").to_owned();
                crate::network::answer(&root, &Request { path, ..request.clone() })
            }
        }
    });
    let start = |fault: &'static str| {
        let (root, storage) = (root.clone(), storage.address.clone());
        Server::start(move |request, _| match request.name() {
            name if name.contains("/resolve/") && name.ends_with(".safetensors") => {
                let to = format!("{storage}/{fault}{name}?X-Signature={SIGNATURE}");
                Reply::new(302, "").with("Location", to)
            }
            _ => crate::network::answer(&root, request),
        })
    };
    let mut printed = 0;
    for fault in ["files", "page", "gone", "circle"] {
        let hub = start(fault);
        for line in [
            "inspect --verbose hf:example/Tiny-3.1-FP8",
            "inspect --json hf:example/Tiny-GPTQ",
            "hash --verbose hf:example/Tiny-3.1-FP8 --timeout 2",
            "remember --verbose hf:example/Tiny-3.1-FP8 -o out --provenance statement.json",
            "verify hf:example/Gated",
            "inspect hf:example/nothing --verbose",
            "inspect --verbose hf:example/Tiny-GPTQ --download",
        ] {
            let run = run(&folder, &hub.address, line);
            let is_well = fault == "files" && !line.contains("Gated") && !line.contains("nothing");
            assert_eq!(run.code, Some(if is_well { 0 } else { 1 }), "{fault}: {line}: {run:?}");
            printed += run.stdout.len() + run.stderr.len();
            for secret in ["hf_secret", SIGNATURE] {
                assert!(!run.stdout.contains(secret) && !run.stderr.contains(secret), "{fault}: {line}: {run:?}");
            }
            for written in ["statement.json", "out/.anamnesis.json"].map(|name| folder.path(name)) {
                let text = fs::read_to_string(written).unwrap_or_default();
                assert!(!text.contains("hf_secret") && !text.contains(SIGNATURE), "{fault}: {line}: {text}");
            }
        }
        let seen = hub.seen();
        assert!(seen.len() > 10, "{seen:?}");
        for request in seen {
            assert_eq!(request.headers.get("authorization").map(String::as_str), Some("Bearer hf_secret"));
            assert!(!request.path.contains("secret") && !request.path.contains(SIGNATURE), "{request:?}");
        }
        for name in ["out", "hf"].map(|name| folder.path(name)) {
            let _ = fs::remove_dir_all(name);
        }
        let _ = fs::remove_file(folder.path("statement.json"));
    }
    assert!(printed > 1000);
    let seen = storage.seen();
    assert!(seen.len() > 10, "{seen:?}");
    for request in seen {
        assert!(request.path.ends_with(SIGNATURE), "{request:?}");
        assert!(!format!("{request:?}").contains("hf_secret"), "{request:?}");
        assert!(!request.headers.contains_key("authorization") && !request.headers.contains_key("cookie"));
    }
}

/// On a terminal.
#[cfg(target_os = "linux")]
#[test]
fn progress_shows_the_bytes_over_the_network() {
    use std::io::Read;

    let folder = Folder::empty();
    folder.add_sparse("model.safetensors", "U8", &["a", "b", "c", "d"], 3 << 20);
    let model = fs::read(folder.path("model.safetensors")).unwrap();
    let server = Server::start(move |request, _| match request.name() {
        "/model.safetensors" => {
            let delay = std::time::Duration::from_millis(200);
            Reply { delay, ..Reply::file(&model, "1", request) }
        }
        _ => Reply::new(404, ""),
    });
    let line = format!("convert {}/model.safetensors --to npz -o copy.npz --network-concurrency 1", server.address);
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = folder.command(&line);
    command.env("TERM", "xterm").stdout(std::process::Stdio::null()).stderr(terminal.slave);
    let mut child = command.spawn().unwrap();
    // It has the other end of the terminal.
    drop(command);
    let mut shown = Vec::new();
    // The end of a terminal is an error.
    let _ = fs::File::from(terminal.master).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    let shown = String::from_utf8_lossy(&shown);
    let figure = |text: &str| {
        let mut words = text.split_whitespace();
        let (number, unit) = (words.next()?.parse::<f64>().ok()?, words.next()?);
        Some(
            number
                * if unit.starts_with("MB") {
                    1e6
                } else if unit.starts_with("KB") {
                    1e3
                } else {
                    1.0
                },
        )
    };
    let figures: Vec<f64> = shown.split("network ").skip(1).filter_map(figure).collect();
    let most = figures.iter().copied().fold(0.0, f64::max);
    assert!(figures.is_sorted() && most > 2e6 && most <= 13e6, "{figures:?} of {shown:?}");
}

#[test]
fn an_unfinished_directory_asks_only_for_the_rest() {
    let folder = samples::folder();
    let server = serve(folder.root());
    let line = format!("remember {}/Tiny-3.1-FP8/model.safetensors.index.json -o output", server.address);
    folder.amn(&format!("{line} --part 1/2"));
    let before = server.seen().len();
    let run = folder.amn(&format!("{line} --part 2/2"));
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(server.seen().len() > before);
    folder.amn("remember Tiny-3.1-FP8 -o expected").ok();
    assert!(contents(&folder.path("output")) == contents(&folder.path("expected")));
}

/// The script of `huggingface_hub` against the same server: files, layout of the cache, and refusals.
const SCRIPT: &str = r#"
import json, os, sys
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError
if sys.argv[1] == "local":
    print(hf_hub_download("example/Tiny-3.1-FP8", "config.json", local_files_only=True))
    print(snapshot_download("example/Tiny-3.1-FP8", local_files_only=True))
    sys.exit()
print(snapshot_download("example/Tiny-3.1-FP8"))
for name, options, expected in [
    ("example/Gated", {}, GatedRepoError),
    ("example/nothing", {}, RepositoryNotFoundError),
    ("example/Tiny-3.1-FP8", {"revision": "gone"}, RevisionNotFoundError),
]:
    try:
        HfApi().model_info(name, **options)
    except expected:
        continue
    sys.exit(f"{name} is not refused")
try:
    hf_hub_download("example/Tiny-3.1-FP8", "gone.json")
    sys.exit("gone.json is not refused")
except EntryNotFoundError:
    pass
"#;

/// The relative paths below a folder of a cache; links with their targets.
fn layout(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        match fs::read_link(&path) {
            Ok(target) => found.push(format!("{name} -> {}", target.display())),
            Err(_) if path.is_dir() => layout(root, &path, found),
            Err(_) => found.push(name),
        }
    }
    found.sort();
}

/// `AMN_HUB_PYTHON` is an interpreter with `huggingface_hub`; `cargo xtask remote` sets it.
#[test]
fn huggingface_hub_finds_what_was_downloaded_and_meets_the_same_hub() {
    let Some(python) = std::env::var_os("AMN_HUB_PYTHON") else { return };
    let folder = samples::folder();
    let server = serve(folder.root());
    let python = |mode: &str, home: &str| {
        let mut command = Command::new(&python);
        command.args(["-c", SCRIPT, mode]).env("HF_ENDPOINT", &server.address).env("HF_HOME", folder.path(home));
        command.env("HF_HUB_DISABLE_XET", "1").env_remove("HF_HUB_CACHE").env_remove("HF_HUB_OFFLINE");
        let run = Run::of(command.output().unwrap());
        assert_eq!(run.code, Some(0), "{run:?}");
        run.stdout
    };
    python("hub", "theirs");
    run(&folder, &server.address, "inspect hf:example/Tiny-3.1-FP8 --download").ok();
    let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
    for (home, found) in [("hf", &mut ours), ("theirs", &mut theirs)] {
        let root = folder.path(&format!("{home}/hub/models--example--Tiny-3.1-FP8"));
        layout(&root, &root, found);
    }
    // Lists of files, which only its own downloads read.
    theirs.retain(|path| !path.starts_with("trees/"));
    assert_eq!(ours, theirs);
    let found = python("local", "hf");
    let snapshot = folder.path(&format!("hf/hub/models--example--Tiny-3.1-FP8/snapshots/{COMMIT}"));
    assert!(
        found.lines().eq([snapshot.join("config.json"), snapshot].map(|path| path.display().to_string())),
        "{found}"
    );
}

/// The largest memory that a process has had, in bytes.
#[cfg(target_os = "linux")]
fn peak_of(command: &mut Command) -> u64 {
    use std::process::Stdio;

    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) << 10);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return peak;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_model() {
    const MOST: u64 = 96 << 20;
    let folder = Folder::empty();
    folder.add_sparse("model.safetensors", "U8", &["a", "b", "c", "d"], 32 << 20);
    let model = fs::read(folder.path("model.safetensors")).unwrap();
    let server = Server::start(move |request, _| match request.name() {
        "/model.safetensors" => Reply::file(&model, "1", request),
        _ => Reply::new(404, ""),
    });
    let line = format!("convert {}/model.safetensors --to npz -o copy.npz", server.address);
    let peak = peak_of(&mut folder.command(&line));
    assert!(peak <= MOST, "{} MiB", peak >> 20);
}
