//! Models of S3 and Azure, read and written: against moto with boto3, and against Azurite with the library of Azure.
//! `cargo xtask remote` installs them and sets `AMN_CLOUD_PYTHON` and `AMN_AZURITE`; without those only the refusals are
//! tested.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::folder::{Folder, Run};
use crate::network::server::{Reply, Server};
use crate::{checkpoint, components, samples};

const SECRET: &str = "very-secret-key";
const SESSION: &str = "very-secret-session";
/// The account and key of Azurite, which are public.
const AZURITE: [&str; 2] =
    ["devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="];

/// A store on this machine, which ends with this value.
struct Cloud {
    process: Child,
    python: PathBuf,
    port: u16,
    /// `s3` or `az`.
    scheme: &'static str,
    folder: Folder,
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Functions of the test scripts: `put`, `get`, `names` and `unfinished` of the bucket.
const S3: &str = r#"
import boto3, os, sys
s3 = boto3.client("s3")
def make(): s3.create_bucket(Bucket="bucket")
def put(path, key): s3.upload_file(path, "bucket", key)
def get(key, path): s3.download_file("bucket", key, path)
def names(): return sorted(o["Key"] for o in s3.list_objects_v2(Bucket="bucket").get("Contents", []))
def unfinished(): return [u["Key"] for u in s3.list_multipart_uploads(Bucket="bucket").get("Uploads", [])]
"#;
const AZ: &str = r#"
import os, sys
from azure.storage.blob import ContainerClient
name, key = os.environ["AZURE_STORAGE_ACCOUNT_NAME"], os.environ["AZURE_STORAGE_ACCOUNT_KEY"]
text = f"DefaultEndpointsProtocol=http;AccountName={name};AccountKey={key};BlobEndpoint={os.environ['AZURITE_BLOB_STORAGE_URL']}/{name};"
box = ContainerClient.from_connection_string(text, "bucket", api_version="2024-11-04")
def make(): box.create_container()
def put(path, key): box.upload_blob(key, open(path, "rb"))
def get(key, path): open(path, "wb").write(box.download_blob(key).readall())
def names(): return sorted(b.name for b in box.list_blobs())
def unfinished(): return []
"#;

impl Cloud {
    /// Starts a store; `None` if it is not installed.
    fn start(scheme: &'static str) -> Option<Self> {
        let python = PathBuf::from(std::env::var_os("AMN_CLOUD_PYTHON")?);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = Folder::empty();
        let mut command = match scheme {
            "s3" => {
                let mut command = Command::new(&python);
                command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
                command
            }
            _ => {
                let mut command = Command::new("node");
                command.arg(std::env::var_os("AMN_AZURITE")?).args(["--inMemoryPersistence", "--skipApiVersionCheck"]);
                command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
                command
            }
        };
        let process = command.current_dir(folder.root()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let cloud = Self { process, python, port, scheme, folder };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "the store does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        cloud.python("make()");
        Some(cloud)
    }

    /// Sets the environment of a command.
    fn environment(&self, command: &mut Command) {
        let at = format!("http://127.0.0.1:{}", self.port);
        match self.scheme {
            "s3" => command
                .env("AWS_ENDPOINT_URL", &at)
                .env("AWS_ALLOW_HTTP", "true")
                .env("AWS_ACCESS_KEY_ID", "key")
                .env("AWS_SECRET_ACCESS_KEY", SECRET)
                .env("AWS_DEFAULT_REGION", "us-east-1"),
            _ => command
                .env("AZURE_STORAGE_USE_EMULATOR", "true")
                .env("AZURITE_BLOB_STORAGE_URL", &at)
                .env("AZURE_STORAGE_ACCOUNT_NAME", AZURITE[0])
                .env("AZURE_STORAGE_ACCOUNT_KEY", AZURITE[1]),
        };
    }

    /// Runs lines of Python with the functions of this store, and returns their output.
    fn python(&self, lines: &str) -> String {
        let functions = if self.scheme == "s3" { S3 } else { AZ };
        let mut command = Command::new(&self.python);
        self.environment(command.arg("-c").arg(format!("{functions}\n{lines}")).current_dir(self.folder.root()));
        let run = command.output().unwrap();
        assert!(run.status.success(), "{lines}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap().trim().to_owned()
    }

    fn command(&self, folder: &Folder, line: &str) -> Command {
        let mut command = folder.command(line);
        self.environment(&mut command);
        command
    }

    fn amn(&self, folder: &Folder, line: &str) -> Run {
        Run::of(self.command(folder, line).output().unwrap())
    }

    /// Uploads files of a folder, by their names in it.
    fn put(&self, folder: &Folder, names: &[&str]) {
        let line = |name: &&str| format!("put({:?}, {name:?})\n", folder.path(name));
        self.python(&names.iter().map(line).collect::<String>());
    }

    /// The bytes of an object.
    fn get(&self, key: &str) -> Vec<u8> {
        self.python(&format!("get({key:?}, 'object')"));
        fs::read(self.folder.path("object")).unwrap()
    }

    fn names(&self, prefix: &str) -> Vec<String> {
        let text = self.python("print('\\n'.join(names()))");
        text.lines().filter_map(|name| name.strip_prefix(prefix)).map(str::to_owned).collect()
    }

    fn assert_nothing_unfinished(&self) {
        assert_eq!(self.python("print(unfinished())"), "[]");
    }
}

/// Runs a test with every store that is installed.
fn each_cloud(test: impl Fn(&Cloud)) {
    for scheme in ["s3", "az"] {
        if let Some(cloud) = Cloud::start(scheme) {
            test(&cloud);
        }
    }
}

const CHECKPOINT: &str = "Tiny-3.1-FP8";

fn files_of(folder: &Folder, directory: &str) -> Vec<String> {
    checkpoint::files(&folder.path(directory)).into_keys().map(|name| format!("{directory}/{name}")).collect()
}

#[test]
fn models_of_clouds_are_read_like_local_ones() {
    each_cloud(|cloud| {
        let folder = samples::folder();
        let files = files_of(&folder, CHECKPOINT);
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        cloud.put(
            &folder,
            &[&files[..], &["model.gguf", "checkpoint.pth", "arrays.npz", "model-fp8.safetensors"]].concat(),
        );
        let at = format!("{}://bucket", cloud.scheme);
        let folders = [CHECKPOINT, &format!("{CHECKPOINT}/")].map(str::to_owned);
        let index = [format!("{CHECKPOINT}/model.safetensors.index.json")];
        let single = ["model.gguf", "checkpoint.pth", "arrays.npz", "model-fp8.safetensors"].map(str::to_owned);
        for name in folders.iter().chain(&index).chain(&single) {
            let local = folder.amn(&format!("hash {name}")).ok();
            assert_eq!(local, cloud.amn(&folder, &format!("hash {at}/{name}")).ok(), "{at}/{name}");
        }
        let details = cloud.amn(&folder, &format!("inspect --verbose {at}/model.gguf"));
        assert_eq!(details.code, Some(0), "{details:?}");
        assert!(details.stderr.contains("network: 2 requests"), "a list and a range: {details:?}");
        let missing = cloud.amn(&folder, &format!("inspect {at}/missing.gguf")).failed();
        assert!(missing.contains("no such file"), "{missing}");
        let bucket = cloud.amn(&folder, &format!("inspect {}://nothing/model.gguf", cloud.scheme)).failed();
        assert!(bucket.contains("no such bucket"), "{bucket}");
    });
}

#[test]
fn outputs_in_clouds_have_the_bytes_of_local_ones() {
    each_cloud(|cloud| {
        let folder = samples::folder();
        // More than one part, and tensors that end inside of parts.
        folder.add_sparse("large.safetensors", "U8", &["a", "b", "c"], 5_000_001);
        let at = format!("{}://bucket", cloud.scheme);
        for (line, output) in [
            ("convert large.safetensors --to npz", "copy.npz"),
            ("convert large.safetensors --to safetensors", "copy.safetensors"),
            ("convert plain.safetensors --to q8_0 --allow-empty", "small.gguf"),
            ("remember model-fp8.safetensors", "model.safetensors"),
        ] {
            folder.amn(&format!("{line} -o {output}")).ok();
            let written = cloud.amn(&folder, &format!("{line} -o {at}/out/{output}"));
            assert_eq!(written.code, Some(0), "{written:?}");
            assert!(cloud.get(&format!("out/{output}")) == fs::read(folder.path(output)).unwrap(), "{line}");
            let again = cloud.amn(&folder, &format!("{line} -o {at}/out/{output}")).failed();
            assert!(again.contains("exists already"), "{again}");
            let forced = cloud.amn(&folder, &format!("{line} -o {at}/out/{output} --force"));
            assert_eq!(forced.code, Some(0), "{forced:?}");
        }
        cloud.assert_nothing_unfinished();
        let slash = cloud.amn(&folder, &format!("convert large.safetensors --to npz -o {at}/out/")).failed();
        assert!(slash.contains("a file name is needed"), "{slash}");
    });
}

#[test]
fn directories_in_clouds_are_complete_and_parts_of_them_too() {
    each_cloud(|cloud| {
        let folder = samples::folder();
        folder.amn(&format!("remember {CHECKPOINT} -o local")).ok();
        let local = checkpoint::files(&folder.path("local"));
        let at = format!("{}://bucket", cloud.scheme);
        let assert_same = |prefix: &str| {
            assert_eq!(cloud.names(prefix), local.keys().cloned().collect::<Vec<_>>());
            for (name, content) in &local {
                assert!(cloud.get(&format!("{prefix}{name}")) == *content, "{prefix}{name}");
            }
        };
        let whole = cloud.amn(&folder, &format!("remember {CHECKPOINT} -o {at}/whole/"));
        assert_eq!(whole.code, Some(0), "{whole:?}");
        assert_same("whole/");
        // The same command finds its output.
        let again = cloud.amn(&folder, &format!("remember {CHECKPOINT} -o {at}/whole"));
        assert_eq!(again.code, Some(0), "{again:?}");
        let other = cloud.amn(&folder, &format!("remember {CHECKPOINT} --to f32 -o {at}/whole")).failed();
        assert!(other.contains("is not empty"), "{other}");
        let forced = cloud.amn(&folder, &format!("remember {CHECKPOINT} --to f32 -o {at}/whole --force")).failed();
        assert!(forced.contains("is not replaced"), "{forced}");
        for part in ["2/2", "1/2"] {
            assert_eq!(cloud.names("parts/").contains(&"config.json".to_owned()), false);
            let run = cloud.amn(&folder, &format!("remember {CHECKPOINT} --part {part} -o {at}/parts"));
            assert_eq!(run.code, Some(0), "{run:?}");
        }
        assert_same("parts/");
        // From the cloud to the cloud.
        let files = files_of(&folder, CHECKPOINT);
        cloud.put(&folder, &files.iter().map(String::as_str).collect::<Vec<_>>());
        let run = cloud.amn(&folder, &format!("remember {at}/{CHECKPOINT} -o {at}/both/"));
        assert_eq!(run.code, Some(0), "{run:?}");
        assert_same("both/");
        let itself = cloud.amn(&folder, &format!("remember {at}/{CHECKPOINT} -o {at}/{CHECKPOINT}")).failed();
        assert!(itself.contains("the input itself"), "{itself}");
        cloud.assert_nothing_unfinished();
    });
}

#[test]
fn nothing_is_left_of_an_output_that_fails() {
    each_cloud(|cloud| {
        let folder = Folder::empty();
        let names: Vec<String> = (0..8).map(|number| format!("tensor{number}")).collect();
        folder.add_sparse("large.safetensors", "U8", &names.iter().map(String::as_str).collect::<Vec<_>>(), 4_000_000);
        let at = format!("{}://bucket", cloud.scheme);
        // The input fails after parts of the output have been uploaded.
        let model = fs::read(folder.path("large.safetensors")).unwrap();
        let server = Server::start(move |request, _| match request.range() {
            _ if request.name() != "/large.safetensors" => Reply::new(404, ""),
            Some((first, _)) if first > 24_000_000 => {
                std::thread::sleep(Duration::from_millis(300));
                Reply::new(403, "")
            }
            _ => Reply::file(&model, "etag", request),
        });
        let line = format!("convert {}/large.safetensors --to npz -o {at}/failed.npz", server.address);
        let failed = cloud.amn(&folder, &line).failed();
        assert!(failed.contains("refuses access"), "{failed}");
        assert_eq!(cloud.names(""), [""; 0]);
        cloud.assert_nothing_unfinished();
    });
}

#[test]
fn nothing_is_left_of_an_output_that_is_interrupted() {
    each_cloud(|cloud| {
        let folder = Folder::empty();
        folder.add_sparse("large.safetensors", "U8", &["a", "b", "c", "d"], 8_000_000);
        // The end of the input is held back until the command was interrupted, so that it cannot finish.
        let (is_waiting, is_released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (waiting, released) = (Arc::clone(&is_waiting), Arc::clone(&is_released));
        let model = fs::read(folder.path("large.safetensors")).unwrap();
        let server = Server::start(move |request, _| {
            if request.name() != "/large.safetensors" {
                return Reply::new(404, "");
            }
            if request.range().is_some_and(|(first, _)| first > 24_000_000) {
                waiting.store(true, Ordering::SeqCst);
                while !released.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            Reply::file(&model, "etag", request)
        });
        let line =
            format!("convert {}/large.safetensors --to npz -o {}://bucket/stopped.npz", server.address, cloud.scheme);
        let process = cloud.command(&folder, &line).stderr(Stdio::piped()).spawn().unwrap();
        let started = Instant::now();
        // Parts of the output are there, and not visible. Azurite does not list unfinished uploads.
        let has_begun = || cloud.scheme != "s3" || cloud.python("print(unfinished())") == "['stopped.npz']";
        while !is_waiting.load(Ordering::SeqCst) || !has_begun() {
            assert!(started.elapsed() < Duration::from_secs(60), "nothing is uploaded");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(cloud.names(""), [""; 0]);
        assert!(Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap().success());
        std::thread::sleep(Duration::from_millis(300));
        is_released.store(true, Ordering::SeqCst);
        let stopped = Run::of(process.wait_with_output().unwrap());
        assert_eq!(stopped.code, Some(130), "{stopped:?}");
        assert_eq!(cloud.names(""), [""; 0]);
        cloud.assert_nothing_unfinished();
    });
}

#[test]
fn an_output_in_a_cloud_is_stated_with_its_digest() {
    each_cloud(|cloud| {
        let folder = samples::folder();
        let at = format!("{}://bucket/out.npz", cloud.scheme);
        let line = format!("convert plain.safetensors --to npz -o {at} --provenance statement.json");
        assert_eq!(cloud.amn(&folder, &line).code, Some(0));
        let text = fs::read_to_string(folder.path("statement.json")).unwrap();
        let subject = &serde_json::from_str::<serde_json::Value>(&text).unwrap()["subject"][0];
        let digest = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(subject["name"], at);
        assert_eq!(subject["digest"]["sha256"], digest(&cloud.get("out.npz")));
        let there = folder.amn("verify --provenance statement.json");
        assert!(there.code == Some(1) && format!("{there:?}").contains("is at an address"), "{there:?}");
        fs::write(folder.path("out.npz"), cloud.get("out.npz")).unwrap();
        folder.amn("verify --provenance statement.json out.npz").ok();
    });
}

/// Without a store: the refusal is before any request.
#[test]
fn several_components_are_not_written_to_a_cloud() {
    let folder = Folder::empty();
    components::write(&folder.path(components::NAME));
    let server = Server::start(|_, _| Reply::new(500, ""));
    let line = format!("remember {} -o s3://bucket/out/", components::NAME);
    let mut command = folder.command(&line);
    for (name, value) in [("AWS_ENDPOINT_URL", server.address.as_str()), ("AWS_ALLOW_HTTP", "true")] {
        command.env(name, value);
    }
    let refused = Run::of(command.output().unwrap()).refused();
    assert!(refused.contains("a model of several components is written to a directory"), "{refused}");
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn an_object_that_is_replaced_midway_is_an_error() {
    let Some(cloud) = Cloud::start("s3") else { return };
    let folder = Folder::empty();
    folder.add_sparse("large.safetensors", "U8", &["a", "b"], 20_000_000);
    cloud.put(&folder, &["large.safetensors"]);
    // A server between both replaces the object after the header was read.
    let etag = |request: &crate::network::server::Request| request.headers.get("if-match").cloned();
    let model = fs::read(folder.path("large.safetensors")).unwrap();
    let between = Server::start(move |request, _| match (request.name(), etag(request)) {
        (name, _) if !name.ends_with("large.safetensors") => Reply::new(403, ""),
        (_, None) => Reply::file(&model, "first", request).with("Last-Modified", "Wed, 18 Nov 2026 00:00:00 GMT"),
        (_, Some(wanted)) => {
            assert_eq!(wanted, "\"first\"");
            Reply::new(412, "<Error><Code>PreconditionFailed</Code></Error>")
        }
    });
    let mut command = cloud.command(&folder, "convert s3://bucket/large.safetensors --to npz -o out.npz");
    let changed = Run::of(command.env("AWS_ENDPOINT_URL", &between.address).output().unwrap()).failed();
    assert!(changed.contains("changed"), "{changed}");
    assert!(!folder.path("out.npz").exists());
}

#[test]
fn secrets_are_never_shown() {
    let folder = samples::folder();
    let refuse = |_: &crate::network::server::Request, _: usize| {
        let text = format!("<Error><Code>SignatureDoesNotMatch</Code><StringToSign>{SECRET}</StringToSign></Error>");
        Reply::new(403, text)
    };
    let server = Server::start(refuse);
    let run = |line: &str| {
        let mut command = folder.command(line);
        command
            .env("AWS_ENDPOINT_URL", &server.address)
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AWS_SESSION_TOKEN", SESSION);
        let run = Run::of(command.output().unwrap());
        assert!(matches!(run.code, Some(1 | 2)), "{run:?}");
        run.stdout + &run.stderr
    };
    for line in [
        "inspect s3://bucket/model.gguf --verbose",
        "convert plain.safetensors --to npz -o s3://bucket/x.npz",
        "inspect s3://key:very-secret-key@bucket/model.gguf",
        "inspect s3://bucket/../model.gguf",
    ] {
        let error = run(line);
        assert!(!error.contains(SECRET) && !error.contains(SESSION), "{error}");
    }
    let refused = run("inspect s3://bucket/model.gguf");
    assert!(refused.contains("SignatureDoesNotMatch"), "{refused}");
    let seen = server.seen();
    assert!(seen.len() >= 3, "{seen:?}");
    for request in seen {
        // The key is never sent, only signatures by it; the session has a header of its own.
        assert!(!format!("{request:?}").contains(SECRET), "{request:?}");
        let with_session = request.headers.iter().filter(|(_, value)| value.contains(SESSION));
        assert_eq!(with_session.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["x-amz-security-token"]);
        assert!(!request.path.contains(SESSION) && request.headers["authorization"].starts_with("AWS4-HMAC-SHA256 "));
    }
    let plain = Run::of(
        folder
            .command("inspect s3://b/x.gguf")
            .env("AWS_ENDPOINT_URL", &server.address)
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .output()
            .unwrap(),
    )
    .refused();
    assert!(plain.contains("AWS_ALLOW_HTTP"), "{plain}");
}
