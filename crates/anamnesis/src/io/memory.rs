//! Memory for large outputs.

/// From here on the system is asked for large pages.
const LARGE_BYTES: usize = 4 << 20;

/// Zeroed bytes. A large output is filled from front to back right away, and with pages of the usual size the system would
/// be asked for one every 4 KiB, which takes longer than filling it; so large pages are asked for where that can be done.
pub(crate) fn zeroed(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    if bytes >= LARGE_BYTES {
        prefer_large_pages(&mut memory);
    }
    memory
}

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// Memory that grows as it is asked for and begins with a line of the caches: a wide store that reaches into a second line costs
/// as much as two.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<u8>);

impl Lines {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// So many bytes, with what they were left with.
    pub(crate) fn of(&mut self, bytes: usize) -> &mut [u8] {
        if self.0.len() < bytes.saturating_add(LINE) {
            self.0.resize(bytes.saturating_add(LINE), 0);
        }
        let start = self.start();
        &mut self.0[start..start + bytes]
    }

    /// So many of the bytes that were asked for last.
    pub(crate) fn held(&self, bytes: usize) -> &[u8] {
        self.0.get(self.start()..).and_then(|held| held.get(..bytes)).unwrap_or_default()
    }

    fn start(&self) -> usize {
        self.0.as_ptr().align_offset(LINE).min(LINE)
    }
}

/// Whether this memory has been used before, as far as a look at its middle tells. Fresh memory comes through the caches
/// when its pages are first touched; used memory of this size is in none of them.
#[cfg(target_os = "linux")]
pub(crate) fn is_used(memory: &mut [u8]) -> bool {
    if memory.len() < LARGE_BYTES {
        return false;
    }
    let middle = memory.len() / 2;
    let page = middle + memory[middle..].as_mut_ptr().align_offset(PAGE).min(memory.len() - middle - PAGE);
    let mut is_there = 0u8;
    // SAFETY: the page lies inside this slice (which is much longer than two pages), and one byte is what one page needs.
    let answer = unsafe { libc::mincore(memory[page..].as_mut_ptr().cast(), PAGE, &mut is_there) };
    answer == 0 && is_there & 1 == 1
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_used(_memory: &mut [u8]) -> bool {
    false
}

/// Bytes of a usual page.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

#[cfg(target_os = "linux")]
fn prefer_large_pages(memory: &mut [u8]) {
    let start = memory.as_mut_ptr().align_offset(PAGE).min(memory.len());
    let whole = (memory.len() - start) / PAGE * PAGE;
    let pages = &mut memory[start..start + whole];
    // Where the system does not follow the advice, everything works as before.
    // SAFETY: the range is memory of this slice alone, and the advice changes which pages back it, not what it holds.
    let _ = unsafe { rustix::mm::madvise(pages.as_mut_ptr().cast(), pages.len(), rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn prefer_large_pages(_memory: &mut [u8]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_where_the_caches_do_and_keep_what_they_hold() {
        let mut lines = Lines::new();
        assert_eq!(lines.held(1), [0; 0]);
        for bytes in [0, 1, 1000, 63, 5000] {
            let found = lines.of(bytes);
            assert_eq!((found.len(), found.as_ptr().addr() % LINE), (bytes, 0));
            found.fill(7);
            assert_eq!(lines.held(bytes), vec![7; bytes]);
        }
    }

    #[test]
    fn memory_of_any_size_is_zero() {
        for bytes in [0, 1, LARGE_BYTES - 1, LARGE_BYTES, 3 * LARGE_BYTES + 12_345] {
            let memory = zeroed(bytes);
            assert_eq!(memory.len(), bytes);
            assert!(memory.iter().all(|&byte| byte == 0));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_used_once_it_was_written() {
        let mut memory = zeroed(64 << 20);
        assert!(!is_used(&mut memory));
        memory.fill(1);
        assert!(is_used(&mut memory));
        assert!(!is_used(&mut [0; 100]));
    }
}
