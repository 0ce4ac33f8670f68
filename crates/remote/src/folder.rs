//! Files of one remote folder, opened once each: the part that web servers, the hub and clouds have in common.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use anamnesis::PositionedRead;

use crate::client::Client;
use crate::error::{RemoteError, RemoteFault};
use crate::file::{RemoteFile, Transport};
use crate::reader::RemoteReader;
use crate::windows::Windows;

/// Opens files at the same time, and each of them once.
pub(crate) struct Files {
    pub(crate) client: Arc<Client>,
    windows: Arc<Windows>,
    opened: Mutex<HashMap<String, Opened>>,
    changed: Condvar,
    /// Whether access to a file that does not exist is refused, instead of saying that it does not.
    hides_missing: Mutex<Option<bool>>,
}

/// A name that no file has.
const NO_FILE: &str = ".anamnesis-no-such-file";

#[derive(Clone)]
enum Opened {
    Opening,
    Missing,
    File(Arc<RemoteFile>),
}

/// A file to open: its name, how it is asked for, and its size if that is known.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) bytes: Option<u64>,
}

impl Files {
    pub(crate) fn new(client: &Arc<Client>) -> Self {
        let windows = Arc::new(Windows::new(client.options.concurrency));
        Self {
            client: Arc::clone(client),
            windows,
            opened: Mutex::default(),
            changed: Condvar::new(),
            hides_missing: Mutex::default(),
        }
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
        let found = RemoteFile::open(&self.client, &wanted.transport, wanted.bytes).map(|file| Some(Arc::new(file)));
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

    /// Opens a file that is not needed; `None` if it does not exist. If access to it is refused, it may exist, and that is
    /// an error, unless the server refuses access to a name that no file has in the same way.
    pub(crate) fn find_optional(
        &self,
        name: &str,
        wanted: impl Fn(&str) -> Option<Wanted>,
    ) -> Result<Option<Arc<RemoteFile>>, RemoteError> {
        let Some(file) = wanted(name) else { return Ok(None) };
        let error = match self.find(&file) {
            Err(error) if is_refused(&error) => error,
            found => return found,
        };
        let mut hides_missing = self.hides_missing.lock().unwrap_or_else(PoisonError::into_inner);
        let hides = *hides_missing.get_or_insert_with(|| {
            wanted(NO_FILE).is_some_and(|none| self.find(&none).is_err_and(|error| is_refused(&error)))
        });
        if !hides {
            return Err(error);
        }
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Opened::Missing);
        self.client.note_refused(name);
        Ok(None)
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

fn is_refused(error: &RemoteError) -> bool {
    matches!(error.fault(), RemoteFault::Forbidden | RemoteFault::Unauthorized | RemoteFault::Credentials)
}
