//! An object of a cloud, read in ranges of one version.

use std::io::{self, Read};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_core::Stream;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};

use super::wait::wait;
use super::{Bucket, failure_of};
use crate::client::{Failure, of_io};
use crate::error::{RemoteError, RemoteFault};
use crate::file::{Beginning, Known, Transport, Version, changed, surplus};

/// An object.
pub(super) struct CloudFile {
    pub(super) bucket: Arc<Bucket>,
    pub(super) key: Path,
}

impl CloudFile {
    fn get(&self, range: Option<Range<u64>>, if_match: Option<String>) -> Result<GetResult, Failure> {
        let head = range.is_none();
        let options = GetOptions { if_match, head, range: range.map(GetRange::Bounded), ..GetOptions::default() };
        self.bucket.once(self.bucket.objects.get_opts(&self.key, options))
    }
}

fn version_of(meta: &ObjectMeta) -> Version {
    Version { etag: meta.e_tag.clone(), modified: Some(meta.last_modified.to_rfc3339()) }
}

impl Transport for CloudFile {
    fn host(&self) -> String {
        self.bucket.name.clone()
    }

    fn begin(&self, wanted: u64) -> Result<Beginning, Failure> {
        let found = match self.get(Some(0..wanted), None) {
            // An empty object has no ranges.
            Err(failure) if failure.error.fault() == RemoteFault::Status && !failure.is_temporary => {
                let meta = self.get(None, None)?.meta;
                return match meta.size {
                    0 => Ok(Beginning { known: Known { bytes: 0, version: version_of(&meta) }, head: Vec::new() }),
                    _ => Err(failure),
                };
            }
            found => found?,
        };
        let known = Known { bytes: found.meta.size, version: version_of(&found.meta) };
        let wanted = wanted.min(known.bytes);
        if found.range != (0..wanted) {
            return Err(other_range(&found.range, &(0..wanted)).into());
        }
        let mut head = Vec::new();
        let done = CloudBody::new(found).take(wanted.saturating_add(1)).read_to_end(&mut head);
        match done {
            _ if head.len() as u64 > wanted => Err(surplus().into()),
            Err(error) if head.is_empty() => {
                Err(of_io(&error, &self.host(), self.bucket.client.options.timeout).into())
            }
            _ => Ok(Beginning { known, head }),
        }
    }

    fn range(&self, range: Range<u64>, known: &Known) -> Result<Box<dyn Read + Send>, Failure> {
        let found = self.get(Some(range.clone()), known.version.etag.clone())?;
        if found.meta.size != known.bytes || known.version.differs(&version_of(&found.meta)) {
            return Err(changed().into());
        }
        match found.range == range {
            true => Ok(Box::new(CloudBody::new(found))),
            false => Err(other_range(&found.range, &range).into()),
        }
    }
}

fn other_range(found: &Range<u64>, wanted: &Range<u64>) -> RemoteError {
    let why = format!("the store answers with bytes {found:?}, {wanted:?} were asked for");
    RemoteError::new(RemoteFault::Answer, why)
}

/// The bytes of an answer.
struct CloudBody {
    stream: Pin<Box<dyn Stream<Item = object_store::Result<Bytes>> + Send>>,
    rest: Bytes,
}

impl CloudBody {
    fn new(found: GetResult) -> Self {
        Self { stream: found.into_stream(), rest: Bytes::new() }
    }
}

impl Read for CloudBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match wait(std::future::poll_fn(|context| self.stream.as_mut().poll_next(context))) {
                Some(Ok(bytes)) => self.rest = bytes,
                Some(Err(error)) => return Err(failure_of(&error).error.into()),
                None => return Ok(0),
            }
        }
        let count = self.rest.len().min(buffer.len());
        if let Some(to) = buffer.get_mut(..count) {
            self.rest.copy_to_slice(to);
        }
        Ok(count)
    }
}
