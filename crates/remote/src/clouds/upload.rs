//! An object that is being written. Parts are uploaded as soon as all of their bytes are there, and the object is visible
//! when the upload is completed; if it is dropped before, the upload is aborted.
//!
//! Workers write in roughly ascending order, so that few parts are open at a time. Their memory is limited for all
//! objects of a folder together: further open parts are moved to an unnamed temporary file. An object of a single part
//! is sent at once in the end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anamnesis::{Existing, StoreWrite};
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{GetOptions, MultipartId, PutMode, PutPayload};

use super::Bucket;
use crate::client::Failure;
use crate::error::{RemoteError, RemoteFault};

/// The least bytes of a part but the last.
const LEAST_PART_BYTES: u64 = 5 << 20;
/// Most parts of an object.
const MOST_PARTS: u64 = 10_000;
/// Most parts in memory, open or being uploaded.
const MOST_BUFFERS: usize = 6;

/// The parts in memory, of all objects of a folder.
#[derive(Default)]
pub(super) struct Buffers {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Parts in memory.
    held: usize,
    /// Those of them that are being uploaded.
    uploading: usize,
}

impl Buffers {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room, as long as uploads make some; `false` if there is none.
    fn acquire(&self) -> bool {
        let is_full = |counts: &mut Counts| counts.held >= MOST_BUFFERS && counts.uploading > 0;
        let mut counts = self.changed.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        let has_room = counts.held < MOST_BUFFERS;
        counts.held += usize::from(has_room);
        has_room
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// An object before it is visible.
pub(super) struct Upload {
    shared: Arc<Shared>,
}

struct Shared {
    bucket: Arc<Bucket>,
    buffers: Arc<Buffers>,
    key: Path,
    bytes: u64,
    part_bytes: u64,
    existing: Existing,
    state: Mutex<State>,
    /// Notified when a part was uploaded.
    uploaded: Condvar,
    /// Called when the object is visible.
    published: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    /// The upload, from its first part on.
    id: Option<MultipartId>,
    /// Parts without all of their bytes, by number.
    open: BTreeMap<u64, Part>,
    /// Uploaded parts, by number.
    done: BTreeMap<u64, Option<PartId>>,
    uploading: usize,
    /// Parts that were moved out of memory.
    spilled: Option<File>,
    writes: u64,
    error: Option<RemoteError>,
    is_published: bool,
}

struct Part {
    /// Its bytes, unless they are in the temporary file.
    buffer: Option<Vec<u8>>,
    /// The written ranges, in order, with gaps between them.
    written: Vec<Range<u64>>,
    last_write: u64,
}

impl Upload {
    pub(super) fn new(
        bucket: &Arc<Bucket>,
        buffers: &Arc<Buffers>,
        key: Path,
        bytes: u64,
        existing: Existing,
        published: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let part_bytes = bytes.div_ceil(MOST_PARTS).next_multiple_of(1 << 20).max(LEAST_PART_BYTES);
        let (bucket, buffers) = (Arc::clone(bucket), Arc::clone(buffers));
        let (state, uploaded) = Default::default();
        let shared = Shared { bucket, buffers, key, bytes, part_bytes, existing, state, uploaded, published };
        Self { shared: Arc::new(shared) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part_range(&self, number: u64) -> Range<u64> {
        let start = number * self.part_bytes;
        start..self.bytes.min(start + self.part_bytes)
    }

    /// The number of parts; one of an empty object.
    fn part_count(&self) -> u64 {
        self.bytes.div_ceil(self.part_bytes).max(1)
    }

    /// Writes bytes of one part; returns the part if it is complete.
    fn write_part(&self, number: u64, at: u64, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let range = self.part_range(number);
        let mut state = self.lock();
        if !state.open.contains_key(&number) {
            drop(state);
            // Another thread may begin the same part meanwhile; then this one gives its buffer back.
            let is_in_memory = self.buffers.acquire() || self.spill()?;
            state = self.lock();
            if state.done.contains_key(&number) {
                self.buffers.change(|counts| counts.held -= usize::from(is_in_memory));
                return Err(io::Error::other("bytes of an object were written twice"));
            }
            match state.open.contains_key(&number) {
                true => self.buffers.change(|counts| counts.held -= usize::from(is_in_memory)),
                false => {
                    let buffer = is_in_memory.then(|| vec![0; (range.end - range.start) as usize]);
                    state.open.insert(number, Part { buffer, written: Vec::new(), last_write: 0 });
                }
            }
        }
        if let Some(error) = &state.error {
            return Err(error.clone().into());
        }
        state.writes += 1;
        let writes = state.writes;
        let State { open, spilled, .. } = &mut *state;
        let Some(part) = open.get_mut(&number) else { return Ok(None) };
        part.last_write = writes;
        match &mut part.buffer {
            Some(buffer) => {
                let from = (at - range.start) as usize;
                if let Some(to) = buffer.get_mut(from..from + bytes.len()) {
                    to.copy_from_slice(bytes);
                }
            }
            None => write_at(temporary(spilled)?, bytes, at)?,
        }
        add(&mut part.written, at..at + bytes.len() as u64);
        if part.written != [range.clone()] {
            return Ok(None);
        }
        self.take(&mut state, number).map(Some)
    }

    /// Takes the bytes of an open part, which counts as a part in memory from now on.
    fn take(&self, state: &mut State, number: u64) -> io::Result<Vec<u8>> {
        let Some(part) = state.open.remove(&number) else { return Ok(Vec::new()) };
        state.done.insert(number, None);
        match part.buffer {
            Some(buffer) => Ok(buffer),
            None => {
                let range = self.part_range(number);
                let mut buffer = vec![0; (range.end - range.start) as usize];
                // Bytes that were never written may be past the end of the file.
                for written in part.written {
                    let place = (written.start - range.start) as usize..(written.end - range.start) as usize;
                    read_at(temporary(&mut state.spilled)?, buffer.get_mut(place).unwrap_or_default(), written.start)?;
                }
                self.buffers.change(|counts| counts.held += 1);
                Ok(buffer)
            }
        }
    }

    /// Moves the part that was not written to for the longest time out of memory; `false` if there is none.
    fn spill(&self) -> io::Result<bool> {
        let mut state = self.lock();
        let State { open, spilled, .. } = &mut *state;
        let in_memory = open.iter_mut().filter(|(_, part)| part.buffer.is_some());
        let Some((number, part)) = in_memory.min_by_key(|(_, part)| part.last_write) else { return Ok(false) };
        let start = number * self.part_bytes;
        if let Some(buffer) = part.buffer.take() {
            for written in &part.written {
                let place = (written.start - start) as usize..(written.end - start) as usize;
                write_at(temporary(spilled)?, buffer.get(place).unwrap_or_default(), written.start)?;
            }
        }
        Ok(true)
    }

    /// Uploads a part on a thread of its own.
    fn upload(self: &Arc<Self>, number: u64, buffer: Vec<u8>) -> io::Result<()> {
        let id = match self.begin() {
            Ok(id) => id,
            Err(error) => {
                self.buffers.change(|counts| counts.held -= 1);
                return Err(error.into());
            }
        };
        self.buffers.change(|counts| counts.uploading += 1);
        self.lock().uploading += 1;
        let shared = Arc::clone(self);
        let payload = Arc::new(Mutex::new(Some(buffer)));
        let work = {
            let payload = Arc::clone(&payload);
            move || {
                let buffer = payload.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
                shared.put(number, &id, buffer);
            }
        };
        let again = work.clone();
        if std::thread::Builder::new().name("upload".to_owned()).spawn(work).is_err() {
            again();
        }
        Ok(())
    }

    /// The upload, which is begun with its first part.
    fn begin(&self) -> Result<MultipartId, RemoteError> {
        let mut state = self.lock();
        if let Some(id) = &state.id {
            return Ok(id.clone());
        }
        let bucket = &*self.bucket;
        let id = bucket.client.repeat(|| bucket.once(bucket.objects.create_multipart(&self.key)))?;
        state.id = Some(id.clone());
        Ok(id)
    }

    fn put(&self, number: u64, id: &MultipartId, buffer: Vec<u8>) {
        let bytes = buffer.len();
        let payload = PutPayload::from(buffer);
        let bucket = &*self.bucket;
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let done = bucket.client.repeat(|| bucket.once(bucket.objects.put_part(&self.key, id, index, payload.clone())));
        drop(payload);
        bucket.client.count_sent(bytes);
        self.buffers.change(|counts| {
            counts.held -= 1;
            counts.uploading -= 1;
        });
        let mut state = self.lock();
        state.uploading -= 1;
        match done {
            Ok(part) => drop(state.done.insert(number, Some(part))),
            Err(error) => state.error = Some(state.error.take().unwrap_or(error)),
        }
        drop(state);
        self.uploaded.notify_all();
    }

    /// Waits until no part is being uploaded.
    fn settle(&self) -> MutexGuard<'_, State> {
        let is_busy = |state: &mut State| state.uploading > 0;
        self.uploaded.wait_while(self.lock(), is_busy).unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an object of one part.
    fn put_whole(&self) -> Result<(), RemoteError> {
        let mut state = self.lock();
        let number = state.open.keys().next().copied();
        let buffer = match number {
            Some(number) => {
                let buffer = self.take(&mut state, number).map_err(|error| unwritable(&error))?;
                self.buffers.change(|counts| counts.held -= 1);
                buffer
            }
            // Nothing of it was written: it is empty, or zero.
            None => vec![0; usize::try_from(self.bytes).unwrap_or_default()],
        };
        drop(state);
        let payload = PutPayload::from(buffer);
        let bucket = &*self.bucket;
        let mode = || match self.existing {
            Existing::Refuse => PutMode::Create,
            _ => PutMode::Overwrite,
        };
        let put = || bucket.once(bucket.objects.put_opts(&self.key, payload.clone(), mode().into()));
        match bucket.client.repeat(put) {
            Err(error) if matches!(error.fault(), RemoteFault::Changed | RemoteFault::Exists) => Err(exists()),
            done => {
                bucket.client.count_sent(payload.content_length());
                done.map(drop)
            }
        }
    }

    /// The size of the object that is visible now.
    fn visible(&self) -> Result<Option<u64>, RemoteError> {
        let bucket = &*self.bucket;
        let head = || {
            let options = GetOptions { head: true, ..GetOptions::default() };
            bucket.once(bucket.objects.get_opts(&self.key, options))
        };
        match bucket.client.repeat(head) {
            Ok(found) => Ok(Some(found.meta.size)),
            Err(error) if error.fault() == RemoteFault::Missing => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn complete_parts(&self) -> Result<(), RemoteError> {
        let mut state = self.settle();
        let parts: Option<Vec<PartId>> = std::mem::take(&mut state.done).into_values().collect();
        let id = state.id.clone();
        drop(state);
        let (Some(parts), Some(id)) = (parts, id) else { return Err(incomplete()) };
        if parts.len() as u64 != self.part_count() {
            return Err(incomplete());
        }
        if self.existing == Existing::Refuse && self.visible()?.is_some() {
            return Err(exists());
        }
        let bucket = &*self.bucket;
        let mut attempts = 0;
        let complete = || {
            attempts += 1;
            bucket.once(bucket.objects.complete_multipart(&self.key, &id, parts.clone())).map(drop).map_err(|failure| {
                // The text of an answer with status 200 is an error too, which passes.
                let is_temporary = failure.is_temporary || failure.error.fault() == RemoteFault::Answer;
                Failure { is_temporary, ..failure }
            })
        };
        match bucket.client.repeat(complete) {
            // An answer was lost after the upload had been completed.
            Err(error) if attempts > 1 && error.fault() == RemoteFault::Missing => match self.visible()? {
                Some(bytes) if bytes == self.bytes => Ok(()),
                _ => Err(error),
            },
            done => done,
        }
    }
}

impl StoreWrite for Upload {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.shared.bytes);
        let end = end.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "bytes past the end of an object"))?;
        let mut at = offset;
        let mut rest = bytes;
        while at < end {
            let number = at / self.shared.part_bytes;
            let count = (self.shared.part_range(number).end.min(end) - at) as usize;
            let (piece, others) = rest.split_at(count.min(rest.len()));
            if let Some(buffer) = self.shared.write_part(number, at, piece)? {
                if self.shared.part_count() > 1 {
                    self.shared.upload(number, buffer)?;
                } else {
                    // It is sent at the end.
                    let mut state = self.shared.lock();
                    let written = vec![self.shared.part_range(number)];
                    state.done.remove(&number);
                    state.open.insert(number, Part { buffer: Some(buffer), written, last_write: 0 });
                }
            }
            (at, rest) = (at + count as u64, others);
        }
        Ok(())
    }

    fn complete(&self) -> io::Result<()> {
        let shared = &self.shared;
        if shared.part_count() > 1 {
            let missing: Vec<u64> = {
                let state = shared.lock();
                (0..shared.part_count()).filter(|number| !state.done.contains_key(number)).collect()
            };
            for number in missing {
                // Bytes that were not written are zero.
                let buffer = {
                    let mut state = shared.lock();
                    let empty = || Part { buffer: None, written: Vec::new(), last_write: 0 };
                    state.open.entry(number).or_insert_with(empty);
                    shared.take(&mut state, number)?
                };
                shared.upload(number, buffer)?;
            }
        }
        match &shared.settle().error {
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    fn publish(&self) -> io::Result<()> {
        match self.shared.part_count() {
            1 => self.shared.put_whole()?,
            _ => self.shared.complete_parts()?,
        }
        self.shared.lock().is_published = true;
        (self.shared.published)();
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let mut state = self.shared.settle();
        let held = state.open.values().filter(|part| part.buffer.is_some()).count();
        state.open.clear();
        self.shared.buffers.change(|counts| counts.held -= held);
        if let Some(id) = state.id.take().filter(|_| !state.is_published) {
            let bucket = &*self.shared.bucket;
            let abort = || bucket.once(bucket.objects.abort_multipart(&self.shared.key, &id));
            // The upload is not visible, whether this succeeds or not.
            let _ = bucket.client.repeat(abort);
        }
    }
}

fn exists() -> RemoteError {
    RemoteError::new(RemoteFault::Exists, "exists already")
}

fn incomplete() -> RemoteError {
    RemoteError::new(RemoteFault::Answer, "parts of the object were not uploaded")
}

fn unwritable(error: &io::Error) -> RemoteError {
    RemoteError::new(RemoteFault::Status, format!("the temporary file of an upload failed: {error}"))
}

/// Adds a range to ordered ranges, and joins those that touch.
fn add(ranges: &mut Vec<Range<u64>>, new: Range<u64>) {
    let first = ranges.partition_point(|range| range.end < new.start);
    let last = ranges.partition_point(|range| range.start <= new.end);
    let joined = ranges.get(first..last).unwrap_or_default();
    let start = joined.first().map_or(new.start, |range| range.start.min(new.start));
    let end = joined.last().map_or(new.end, |range| range.end.max(new.end));
    ranges.splice(first..last, std::iter::once(start..end));
}

/// The temporary file, created if there is none.
fn temporary(file: &mut Option<File>) -> io::Result<&File> {
    if file.is_none() {
        *file = Some(tempfile::tempfile()?);
    }
    file.as_ref().ok_or_else(|| ErrorKind::NotFound.into())
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    use std::io::{Seek, Write};
    file.seek(io::SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    use std::io::{Read, Seek};
    file.seek(io::SeekFrom::Start(offset))?;
    file.read_exact(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_in_any_order() {
        let mut ranges = Vec::new();
        for range in [4..6, 0..2, 8..9, 2..4, 9..10] {
            add(&mut ranges, range);
        }
        assert_eq!(ranges, [0..6, 8..10]);
        add(&mut ranges, 5..9);
        assert_eq!(ranges, vec![Range { start: 0, end: 10 }]);
    }
}
