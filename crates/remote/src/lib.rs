//! Models of web servers, of the Hugging Face Hub and of clouds for anamnesis, read in ranges: nothing is downloaded as a
//! whole.
//!
//! | address | source |
//! |---|---|
//! | `https://host/model.gguf` | a file of any server that answers range requests, with its sidecars |
//! | `https://host/folder/model.safetensors.index.json`, `https://host/folder/` | a sharded checkpoint |
//! | `hf:org/name`, `hf:org/name@revision/file` | a model of the local cache, otherwise of the hub |
//! | `s3://bucket/key`, `gs://bucket/key`, `az://container/key` | a file or folder of a cloud, to read and to write (feature `clouds`) |
//!
//! An address is [mounted](Remote::mount): as long as the [`RemoteMount`] exists, every function of the library reads it by
//! its path.
//!
//! ```no_run
//! use std::path::Path;
//! use anamnesis::{Checkpoint, ParseLimits};
//! use anamnesis_remote::{Remote, RemoteMount, RemoteOptions};
//! let address = Path::new("https://host/model.gguf");
//! let mount = Remote::new(RemoteOptions::from_environment())?.mount(address)?;
//! let path = mount.as_ref().map_or(address, RemoteMount::path);
//! println!("{}", Checkpoint::open(path, &ParseLimits::default())?.inspect(&Default::default()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Dependencies.** `ureq` with rustls: blocking calls on a few threads suit positioned reads, it adds 19 crates and no
//! asynchronous runtime. Clouds are spoken to by `object_store`, which has their signatures, credentials and lists; it
//! brings 70 more crates, although its requests are sent by `ureq` too, and more than 30 seconds of compilation, so that
//! it is a feature which is off by default. Without it, public or signed `https` addresses of objects are read like any
//! other.

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod client;
#[cfg(feature = "clouds")]
mod clouds;
mod download;
mod error;
mod file;
mod folder;
mod http;
mod hub;
mod large_files;
mod options;
mod reader;
mod url;
mod web_file;
mod windows;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anamnesis::{AnamnesisError, HubSpec, Mount, Store};

use client::Client;
pub use error::{RemoteError, RemoteFault};
use http::WebFolder;
use hub::HubModel;
pub use options::{HubOptions, RemoteOptions};
use url::Url;

/// Schemes of clouds.
const CLOUDS: [&str; 7] = ["s3:", "gs:", "gcs:", "az:", "azure:", "abfs:", "abfss:"];

/// The network: connections and settings that all addresses share.
pub struct Remote {
    client: Arc<Client>,
}

/// A mounted address.
pub struct RemoteMount {
    path: PathBuf,
    mount: Mount,
    /// The model, if it is one of the hub.
    hub: Option<(Arc<HubModel>, HubSpec)>,
}

impl RemoteMount {
    /// The path by which the library reads the address: the address without a query.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Downloads files of a model of the hub, by their paths below [`path`](Self::path), with the sidecars in their
    /// folders, into the local Hugging Face cache. `progress` gets the bytes that are done, and all. `false` if this is
    /// not a model of the hub.
    ///
    /// # Errors
    /// `Io` if a file cannot be read or written, or does not have the digest that the hub lists.
    pub fn download(&self, files: &[PathBuf], progress: &mut dyn FnMut(u64, u64)) -> anamnesis::Result<bool> {
        let Some((model, spec)) = &self.hub else { return Ok(false) };
        let inside = |path: &PathBuf| Some(path.strip_prefix(self.mount.root()).ok()?.to_str()?.replace('\\', "/"));
        let names: Vec<String> = files.iter().filter_map(inside).collect();
        let root = anamnesis::hub_cache().ok_or_else(|| {
            AnamnesisError::Io(std::io::Error::new(std::io::ErrorKind::NotFound, "there is no Hugging Face cache"))
        })?;
        download::download(&root, model, spec, &names, progress)
            .map_err(|error| at_model(&self.mount.root().to_string_lossy(), error))?;
        Ok(true)
    }
}

impl Remote {
    /// Prepares the network; nothing is sent.
    ///
    /// # Errors
    /// If the certificates of the options cannot be read.
    pub fn new(options: RemoteOptions) -> Result<Self, RemoteError> {
        Ok(Self { client: Arc::new(Client::new(options)?) })
    }

    /// Whether a path is an address, which may need the network.
    #[must_use]
    pub fn is_address(path: &Path) -> bool {
        let text = path.to_string_lossy();
        let starts = |scheme: &&str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        ["http://", "https://", "hf:"].iter().chain(&CLOUDS).any(starts)
    }

    /// Makes an address readable; `None` if it is none, or a model of the local cache.
    ///
    /// # Errors
    /// `Request` if the address is malformed, `Io` with a [`RemoteError`] if the model is not accessible.
    pub fn mount(&self, path: &Path) -> anamnesis::Result<Option<RemoteMount>> {
        if !Self::is_address(path) {
            return Ok(None);
        }
        let text = path.to_string_lossy();
        if is_cloud(&text) {
            return self.mount_cloud(&text).map(Some);
        }
        match text.starts_with("hf:") {
            true => self.mount_hub(&text),
            false => self.mount_web(&text).map(Some),
        }
    }

    fn mount_web(&self, text: &str) -> anamnesis::Result<RemoteMount> {
        let url = Url::parse(text).map_err(at_address)?;
        let (folder, name) = url.split();
        let only = url.query().is_some().then(|| (name.to_owned(), url.clone()));
        let root = folder.to_string();
        let store = Arc::new(WebFolder::new(&self.client, folder, name, only));
        let mount = Mount::new(root.trim_end_matches('/'), store)?;
        Ok(RemoteMount { path: mount.root().join(name), mount, hub: None })
    }

    /// Whether a path is an address that outputs can be written to.
    #[must_use]
    pub fn is_writable(path: &Path) -> bool {
        cfg!(feature = "clouds") && is_cloud(&path.to_string_lossy())
    }

    #[cfg(feature = "clouds")]
    fn mount_cloud(&self, text: &str) -> anamnesis::Result<RemoteMount> {
        let address = clouds::Address::parse(text).map_err(at_address)?;
        let bucket = clouds::Bucket::new(&self.client, &address).map_err(at_address)?;
        let (folder, name) = address.split();
        let root = format!("{}/{folder}", address.root());
        let store = Arc::new(clouds::CloudFolder::new(&self.client, Arc::new(bucket), folder, name));
        let mount = Mount::new(root.trim_end_matches('/'), store)?;
        let path = if name.is_empty() { mount.root().to_path_buf() } else { mount.root().join(name) };
        Ok(RemoteMount { path, mount, hub: None })
    }

    #[cfg(not(feature = "clouds"))]
    fn mount_cloud(&self, text: &str) -> anamnesis::Result<RemoteMount> {
        let scheme = text.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let why = format!("{scheme}: addresses are read by builds with the feature `clouds`, which this one has not");
        Err(at_address(RemoteError::new(RemoteFault::Scheme, why)))
    }

    fn mount_hub(&self, text: &str) -> anamnesis::Result<Option<RemoteMount>> {
        let spec = HubSpec::parse(text)?;
        if anamnesis::is_found(text) || self.client.options.hub.is_offline {
            return Ok(None);
        }
        let root = match spec.is_revision_given {
            true => format!("hf:{}@{}", spec.model, spec.revision.replace('/', "%2F")),
            false => format!("hf:{}", spec.model),
        };
        let model = HubModel::open(&self.client, &spec).map_err(|error| at_model(&root, error.into()))?;
        let model = Arc::new(model);
        let mount = Mount::new(&root, Arc::clone(&model) as Arc<dyn Store>)?;
        let path = if spec.file.is_empty() { PathBuf::from(&root) } else { mount.root().join(&spec.file) };
        Ok(Some(RemoteMount { path, mount, hub: Some((model, spec)) }))
    }

    /// A counter of the bytes sent and received, for the display of progress.
    #[must_use]
    pub fn traffic(&self) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        let client = Arc::clone(&self.client);
        Arc::new(move || client.bytes().saturating_add(client.sent()))
    }

    /// The number of requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.client.requests()
    }

    /// Optional files, such as sidecars, that servers refuse access to in the same way as to files that do not exist.
    /// They were taken as missing.
    #[must_use]
    pub fn refused_names(&self) -> Vec<String> {
        self.client.refused()
    }

    /// The number of bytes sent so far, in files that are written to stores.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.client.sent()
    }

    /// The number of bytes received so far, without headers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.client.bytes()
    }
}

fn is_cloud(text: &str) -> bool {
    CLOUDS.iter().any(|scheme| text.to_ascii_lowercase().starts_with(scheme))
}

fn at_model(model: &str, error: std::io::Error) -> AnamnesisError {
    AnamnesisError::Io(std::io::Error::new(error.kind(), HubError { model: model.to_owned(), error }))
}

/// A malformed address, whose text is not repeated: it may contain credentials.
fn at_address(error: RemoteError) -> AnamnesisError {
    AnamnesisError::Io(error.into())
}

/// An error about a model of the hub.
#[derive(Debug)]
struct HubError {
    model: String,
    error: std::io::Error,
}

impl std::fmt::Display for HubError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.model, self.error)
    }
}

impl std::error::Error for HubError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
