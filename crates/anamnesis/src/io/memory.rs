//! Memory for large outputs.

/// Allocations of at least this size ask the system for huge pages: with pages of 4 KiB, the page faults of a large output
/// take longer than filling it.
const LARGE_BYTES: usize = 4 << 20;

/// Zeroed bytes.
pub(crate) fn zeroed(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    prefer_huge_pages(memory.as_mut_ptr(), bytes);
    memory
}

/// An empty vector with room for `bytes`.
pub(crate) fn with_capacity(bytes: usize) -> Vec<u8> {
    let mut memory = Vec::with_capacity(bytes);
    prefer_huge_pages(memory.as_mut_ptr(), bytes);
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

/// Bytes of an ordinary page.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

/// Asks for huge pages behind an allocation of `bytes` at `start`.
#[cfg(target_os = "linux")]
fn prefer_huge_pages(start: *mut u8, bytes: usize) {
    if bytes < LARGE_BYTES {
        return;
    }
    let skipped = start.align_offset(PAGE).min(bytes);
    let whole = (bytes - skipped) / PAGE * PAGE;
    // Where the system does not follow the advice, everything works as before.
    // SAFETY: the range lies inside one allocation of the caller, and the advice changes which pages back it, not its bytes.
    let _ =
        unsafe { rustix::mm::madvise(start.wrapping_add(skipped).cast(), whole, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn prefer_huge_pages(_start: *mut u8, _bytes: usize) {}

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
}
