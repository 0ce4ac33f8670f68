//! Clouds: S3, Google Cloud Storage and Azure, by `object_store`, which has their protocols and credentials.
//!
//! ```text
//! s3://BUCKET/KEY    gs://BUCKET/KEY    az://CONTAINER/KEY
//! ```
//!
//! `object_store` signs requests and reads lists; the requests themselves are sent by this crate's own client
//! (`service`), so that time limits, authorities, cancellation, counting and repetition are those of web servers, and
//! no second HTTP implementation is built. Nothing in it waits for another task, so that no asynchronous runtime is
//! started: a call runs on the thread that makes it (`wait`).

mod address;
mod file;
mod folder;
mod service;
mod upload;
mod wait;

use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig};

use crate::client::{Client, Failure};
use crate::error::{RemoteError, RemoteFault};
pub(crate) use address::{Address, Scheme};
pub(crate) use folder::CloudFolder;
use service::Connector;
use wait::wait;

/// Everything that is asked of a store.
trait Objects: ObjectStore + MultipartStore + PaginatedListStore {}

impl<T: ObjectStore + MultipartStore + PaginatedListStore> Objects for T {}

/// A bucket or container.
pub(crate) struct Bucket {
    client: Arc<Client>,
    objects: Box<dyn Objects>,
    /// Its address, for messages.
    name: String,
}

impl Bucket {
    /// Prepares a bucket with the settings of the environment; nothing is sent.
    pub(crate) fn new(client: &Arc<Client>, address: &Address) -> Result<Self, RemoteError> {
        let connector = Connector::new(client, address.scheme);
        // Requests are repeated by the client.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let bucket = &address.bucket;
        let boxed = |objects: Result<Box<dyn Objects>, object_store::Error>| {
            objects.map_err(|error| {
                let scheme = address.scheme.name();
                let why = scrubbed(&error.to_string());
                RemoteError::new(RemoteFault::Credentials, format!("the settings for {scheme} are not usable: {why}"))
            })
        };
        let objects = boxed(match address.scheme {
            Scheme::S3 => AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .with_http_connector(connector)
                .with_retry(retry)
                .build()
                .map(|store| Box::new(store) as Box<dyn Objects>),
            Scheme::Google => GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_http_connector(connector)
                .with_retry(retry)
                .build()
                .map(|store| Box::new(store) as Box<dyn Objects>),
            Scheme::Azure => MicrosoftAzureBuilder::from_env()
                .with_container_name(bucket)
                .with_http_connector(connector)
                .with_retry(retry)
                .build()
                .map(|store| Box::new(store) as Box<dyn Objects>),
        })?;
        Ok(Self { client: Arc::clone(client), objects, name: address.root() })
    }

    /// Runs one call, without repetition.
    fn once<'a, T>(&'a self, call: impl Future<Output = object_store::Result<T>> + 'a) -> Result<T, Failure> {
        wait(call).map_err(|error| failure_of(&error))
    }
}

/// The key of an object.
fn key(text: &str) -> Result<Path, RemoteError> {
    Path::parse(text).map_err(|_| RemoteError::new(RemoteFault::Address, "the address contains an empty name, .. or ."))
}

/// The failure behind an error of `object_store`: usually the one of the service.
fn failure_of(error: &object_store::Error) -> Failure {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut last = String::new();
    while let Some(error) = next {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return failure.clone();
        }
        last = error.to_string();
        next = error.source();
    }
    let fault = match error {
        object_store::Error::NotFound { .. } => RemoteFault::Missing,
        object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. } => RemoteFault::Changed,
        object_store::Error::AlreadyExists { .. } => RemoteFault::Exists,
        object_store::Error::PermissionDenied { .. } => RemoteFault::Forbidden,
        object_store::Error::Unauthenticated { .. } => RemoteFault::Credentials,
        _ => RemoteFault::Answer,
    };
    RemoteError::new(fault, format!("the store answers with an error: {}", scrubbed(&last))).into()
}

/// A text without the secrets of the environment and without control characters.
fn scrubbed(text: &str) -> String {
    let is_secret =
        |name: &str| ["KEY", "SECRET", "TOKEN", "SAS", "CREDENTIAL", "PASSWORD"].iter().any(|part| name.contains(part));
    let secrets = std::env::vars().filter(|(name, value)| is_secret(&name.to_ascii_uppercase()) && value.len() > 3);
    let is_found = secrets.into_iter().any(|(_, value)| text.contains(&value));
    match is_found {
        true => "its text contains a secret and is not shown".to_owned(),
        false => text.chars().filter(|c| !c.is_control()).take(200).collect(),
    }
}
