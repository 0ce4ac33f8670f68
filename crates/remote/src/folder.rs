//! Files of one remote folder, opened once each: the part that web servers and the hub have in common.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use anamnesis::PositionedRead;

use crate::client::Client;
use crate::error::{RemoteError, RemoteFault};
use crate::file::RemoteFile;
use crate::reader::RemoteReader;
use crate::url::Url;
use crate::windows::Windows;

/// Opens files at the same time, and each of them once.
pub(crate) struct Files {
    pub(crate) client: Arc<Client>,
    windows: Arc<Windows>,
    opened: Mutex<HashMap<String, Opened>>,
    changed: Condvar,
}

#[derive(Clone)]
enum Opened {
    Opening,
    Missing,
    File(Arc<RemoteFile>),
}

/// A file to open: its name, its address, and its size if that is known.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) url: Url,
    pub(crate) bytes: Option<u64>,
}

impl Files {
    pub(crate) fn new(client: &Arc<Client>) -> Self {
        let windows = Arc::new(Windows::new(client.options.concurrency));
        Self { client: Arc::clone(client), windows, opened: Mutex::default(), changed: Condvar::new() }
    }

    /// Opens a file, or waits for the thread that opens it; `None` if it does not exist.
    pub(crate) fn find(&self, wanted: &Wanted) -> Result<Option<Arc<RemoteFile>>, RemoteError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match opened.get(&wanted.name) {
                None => break,
                Some(Opened::Opening) => opened = self.changed.wait(opened).unwrap_or_else(PoisonError::into_inner),
                Some(Opened::Missing) => return Ok(None),
                Some(Opened::File(file)) => return Ok(Some(Arc::clone(file))),
            }
        }
        opened.insert(wanted.name.clone(), Opened::Opening);
        drop(opened);
        let found = RemoteFile::open(&self.client, &wanted.url, wanted.bytes).map(|file| Some(Arc::new(file)));
        let found = match found {
            Err(error) if error.fault() == RemoteFault::Missing => Ok(None),
            found => found,
        };
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        match &found {
            Ok(Some(file)) => drop(opened.insert(wanted.name.clone(), Opened::File(Arc::clone(file)))),
            Ok(None) => drop(opened.insert(wanted.name.clone(), Opened::Missing)),
            // The next one who asks tries again.
            Err(_) => drop(opened.remove(&wanted.name)),
        }
        drop(opened);
        self.changed.notify_all();
        found
    }

    /// Opens files at the same time. Errors are met again by whoever opens the file.
    pub(crate) fn find_all(&self, wanted: &[Wanted]) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(wanted) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let _ = self.find(wanted);
            }
        };
        let threads = self.client.options.concurrency.min(wanted.len());
        if threads < 2 {
            return;
        }
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
        });
    }

    /// A reader for a file.
    pub(crate) fn reader(&self, file: Arc<RemoteFile>) -> Arc<dyn PositionedRead> {
        Arc::new(RemoteReader::new(file, &self.windows))
    }
}
