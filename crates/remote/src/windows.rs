//! Read-ahead of announced bytes.
//!
//! The ranges that a conversion is going to read are announced in order. They are cut into windows of megabytes, which
//! a few threads fetch while workers decode others. A worker that comes to a window before the threads do fetches it
//! itself. Windows are dropped when all of their bytes have been read, oldest first; together they stay within
//! [`MOST_BYTES`], whatever the number of files.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::RemoteError;
use crate::file::RemoteFile;

/// The longest window.
const WINDOW_BYTES: u64 = 2 << 20;
/// Announced ranges with a shorter gap between them are fetched together.
const MAX_GAP_BYTES: u64 = 32 << 10;
/// Most bytes in all windows, fetched or being fetched.
const MOST_BYTES: u64 = 40 << 20;
/// Shorter windows are never dropped: a request costs more than their memory.
const SMALL_BYTES: u64 = 4 << 10;
/// A window that nobody has read from for so many reads may be dropped before all of its bytes were read.
const STALE_READS: u64 = 4096;

/// The windows of all files, and the threads that fetch them.
pub(crate) struct Windows {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when a window is complete, or room was made for another one.
    changed: Condvar,
    /// The number of threads.
    threads: usize,
}

#[derive(Default)]
struct State {
    files: HashMap<u64, FileWindows>,
    /// The files with windows to fetch, in turn.
    turns: VecDeque<u64>,
    /// Bytes of all windows that are fetched or being fetched.
    held: u64,
    /// Buffers of dropped windows, for others: allocators do not return what many threads allocate and free.
    spare: Vec<Vec<u8>>,
    reads: u64,
    next_file: u64,
    started: usize,
    is_closed: bool,
}

struct FileWindows {
    file: Arc<RemoteFile>,
    /// By first byte; they do not overlap.
    windows: BTreeMap<u64, Window>,
    /// The first bytes of windows to fetch ahead.
    queue: VecDeque<u64>,
}

struct Window {
    end: u64,
    /// Announced bytes in it, without gaps.
    wanted: u64,
    /// Bytes of it that were read.
    used: u64,
    last_read: u64,
    /// Whether it is to be fetched ahead. A worker that was faster has read it already.
    is_ahead: bool,
    content: Content,
}

enum Content {
    Absent,
    Loading,
    Ready(Vec<u8>),
}

impl Windows {
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), threads: threads.max(1) };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a file and returns its number.
    pub(crate) fn add(&self, file: Arc<RemoteFile>) -> u64 {
        let mut state = self.shared.lock();
        let number = state.next_file;
        state.next_file += 1;
        state.files.insert(number, FileWindows { file, windows: BTreeMap::new(), queue: VecDeque::new() });
        number
    }

    /// Removes a file that is no longer read.
    pub(crate) fn remove(&self, number: u64) {
        let mut state = self.shared.lock();
        if let Some(file) = state.files.remove(&number) {
            // A window that is being fetched is given back when it is complete.
            let held: u64 = file.windows.values().map(Window::held).sum();
            state.held = state.held.saturating_sub(held);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Adds the windows of these ranges, as far as there are none yet, and fetches them ahead in this order.
    pub(crate) fn announce(&self, number: u64, ranges: &[Range<u64>]) {
        let mut state = self.shared.lock();
        let Some(file) = state.files.get_mut(&number) else { return };
        file.add(ranges);
        if !file.queue.is_empty() && !state.turns.contains(&number) {
            state.turns.push_back(number);
        }
        while state.started < self.shared.threads && !state.turns.is_empty() {
            let shared = Arc::clone(&self.shared);
            if std::thread::Builder::new().name("network".to_owned()).spawn(move || shared.fetch_ahead()).is_err() {
                // Workers fetch for themselves.
                break;
            }
            state.started += 1;
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Copies announced bytes from `offset` on, as many as are in one window. `None` if no window has that offset; then
    /// the second value is the first byte of the next window.
    pub(crate) fn read(&self, number: u64, offset: u64, buffer: &mut [u8]) -> Result<Found, RemoteError> {
        let mut state = self.shared.lock();
        loop {
            state.reads += 1;
            let reads = state.reads;
            let Some(file) = state.files.get_mut(&number) else { return Ok(Found::Nothing { next: u64::MAX }) };
            let source = Arc::clone(&file.file);
            let Some((start, window)) = file.window_at(offset) else {
                let next = file.windows.range(offset..).next().map_or(u64::MAX, |(start, _)| *start);
                return Ok(Found::Nothing { next });
            };
            window.last_read = reads;
            match &window.content {
                Content::Ready(bytes) => {
                    // Copied under the lock, so that the buffer has one owner and is used again.
                    let count = buffer.len().min((window.end - offset) as usize);
                    let from = (offset - start) as usize;
                    if let (Some(to), Some(from)) = (buffer.get_mut(..count), bytes.get(from..from + count)) {
                        to.copy_from_slice(from);
                    }
                    window.used = window.used.saturating_add(count as u64);
                    let is_done = window.used >= window.wanted;
                    drop(state);
                    if is_done {
                        self.shared.changed.notify_all();
                    }
                    return Ok(Found::Bytes(count));
                }
                Content::Loading => {
                    state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Content::Absent => {
                    let end = window.end;
                    state = self.shared.load(state, number, source, start, end)?;
                }
            }
        }
    }
}

/// The result of a read.
pub(crate) enum Found {
    /// So many bytes were copied.
    Bytes(usize),
    /// No window has the offset; the next one begins at `next`.
    Nothing { next: u64 },
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl Window {
    /// Bytes in memory.
    fn held(&self) -> u64 {
        match &self.content {
            Content::Ready(bytes) => bytes.len() as u64,
            _ => 0,
        }
    }
}

impl FileWindows {
    /// The window that contains an offset, with its first byte.
    fn window_at(&mut self, offset: u64) -> Option<(u64, &mut Window)> {
        let (start, window) = self.windows.range_mut(..=offset).next_back()?;
        (offset < window.end).then_some((*start, window))
    }

    fn add(&mut self, ranges: &[Range<u64>]) {
        for (run, wanted) in joined(ranges) {
            // A long run with gaps: the gaps are spread over its windows.
            let share = |bytes: u64| bytes.min(wanted);
            let mut at = run.start;
            while at < run.end {
                if let Some((start, window)) = self.window_at(at) {
                    let end = window.end;
                    let is_new = matches!(window.content, Content::Absent) && !window.is_ahead;
                    if is_new {
                        window.is_ahead = true;
                        self.queue.push_back(start);
                    }
                    at = end;
                    continue;
                }
                let next = self.windows.range(at..).next().map_or(u64::MAX, |(start, _)| *start);
                let end = run.end.min(next).min(at.saturating_add(WINDOW_BYTES));
                let gaps = run.end - run.start - wanted;
                let wanted = share((end - at).saturating_sub(gaps));
                self.windows.insert(
                    at,
                    Window { end, wanted, used: 0, last_read: 0, is_ahead: true, content: Content::Absent },
                );
                self.queue.push_back(at);
                at = end;
            }
        }
    }
}

/// Ranges that follow one another closely, joined, with their bytes without gaps.
fn joined(ranges: &[Range<u64>]) -> Vec<(Range<u64>, u64)> {
    let mut runs: Vec<(Range<u64>, u64)> = Vec::new();
    for range in ranges.iter().filter(|range| range.start < range.end) {
        let bytes = range.end - range.start;
        match runs.last_mut() {
            Some((run, wanted)) if (run.end..=run.end.saturating_add(MAX_GAP_BYTES)).contains(&range.start) => {
                run.end = range.end;
                *wanted += bytes;
            }
            _ => runs.push((range.clone(), bytes)),
        }
    }
    runs
}

impl State {
    /// The next window to fetch ahead, if there is room for it.
    fn next(&mut self) -> Option<(u64, u64, u64, Arc<RemoteFile>)> {
        for _ in 0..self.turns.len() {
            let number = self.turns.pop_front()?;
            let Some(file) = self.files.get_mut(&number) else { continue };
            while let Some(start) = file.queue.front().copied() {
                let Some(window) = file.windows.get(&start).filter(|window| window.is_ahead) else {
                    file.queue.pop_front();
                    continue;
                };
                let (end, source) = (window.end, Arc::clone(&file.file));
                if !self.make_room(end - start) {
                    self.turns.push_front(number);
                    return None;
                }
                if let Some(file) = self.files.get_mut(&number) {
                    file.queue.pop_front();
                }
                self.turns.push_back(number);
                return Some((number, start, end, source));
            }
        }
        None
    }

    /// Drops windows that have been read until another one of `bytes` fits; `false` if it does not.
    fn make_room(&mut self, bytes: u64) -> bool {
        while self.held > 0 && self.held.saturating_add(bytes) > MOST_BYTES {
            let reads = self.reads;
            let windows = self.files.iter_mut().flat_map(|(_, file)| file.windows.values_mut());
            let is_stale = |window: &Window| window.used > 0 && reads - window.last_read > STALE_READS;
            let oldest = windows
                .filter(|window| window.held() >= SMALL_BYTES && (window.used >= window.wanted || is_stale(window)))
                .min_by_key(|window| window.last_read);
            let Some(window) = oldest else { return false };
            self.held = self.held.saturating_sub(window.held());
            window.used = 0;
            let content = std::mem::replace(&mut window.content, Content::Absent);
            if let Content::Ready(buffer) = content
                && buffer.capacity() as u64 >= WINDOW_BYTES
            {
                self.spare.push(buffer);
            }
        }
        true
    }

    fn window(&mut self, number: u64, start: u64) -> Option<&mut Window> {
        self.files.get_mut(&number)?.windows.get_mut(&start)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches windows until nobody reads from them any more.
    fn fetch_ahead(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            state = match state.next() {
                // An error is met again by the worker that needs the window.
                Some((number, start, end, file)) => match self.load(state, number, file, start, end) {
                    Ok(state) => state,
                    Err(_) => self.lock(),
                },
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Fetches a window without holding the lock.
    fn load<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        number: u64,
        file: Arc<RemoteFile>,
        start: u64,
        end: u64,
    ) -> Result<MutexGuard<'a, State>, RemoteError> {
        let bytes = end - start;
        // Whoever waits for this window has no other, so it is fetched even if there is no room.
        state.make_room(bytes);
        state.held += bytes;
        if let Some(window) = state.window(number, start) {
            window.content = Content::Loading;
            window.is_ahead = false;
        }
        let is_long = bytes > WINDOW_BYTES / 2;
        let mut content = state.spare.pop_if(|_| is_long).unwrap_or_default();
        drop(state);
        content.clear();
        content.reserve_exact(if is_long { WINDOW_BYTES } else { bytes } as usize);
        let done = file.fetch(start, end, &mut |bytes| content.extend_from_slice(bytes));
        let mut state = self.lock();
        let is_kept = match (state.window(number, start), &done) {
            (Some(window), Ok(())) => {
                window.content = Content::Ready(content);
                window.used = 0;
                true
            }
            (Some(window), Err(_)) => {
                window.content = Content::Absent;
                false
            }
            (None, _) => false,
        };
        if !is_kept {
            state.held = state.held.saturating_sub(bytes);
        }
        self.changed.notify_all();
        done.map(|()| state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_ranges_are_joined_and_distant_ones_are_not() {
        let far = 100 + MAX_GAP_BYTES + 1;
        let runs = joined(&[0..50, 50..90, 95..100, far..far + 1, 7..7]);
        assert_eq!(runs, [(0..100, 95), (far..far + 1, 1)]);
    }
}
