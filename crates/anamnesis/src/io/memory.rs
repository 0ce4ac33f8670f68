//! Memory for large buffers.

use bytemuck::Zeroable;
use bytemuck::allocation::try_zeroed_slice_box;

/// Allocations of at least this size ask the system for huge pages: with pages of 4 KiB, the page faults of a large output
/// take longer than filling it.
#[cfg(all(target_os = "linux", feature = "convert"))]
const LARGE_BYTES: usize = 4 << 20;

/// Zeroed bytes.
pub(crate) fn zeroed(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    prefer_huge_pages(memory.as_mut_ptr(), bytes);
    memory
}

/// Zeroed values; `None` without memory for them.
pub(crate) fn try_zeroed<T: Zeroable>(count: usize) -> Option<Vec<T>> {
    let mut memory: Vec<T> = try_zeroed_slice_box(count).ok()?.into_vec();
    prefer_huge_pages(memory.as_mut_ptr().cast(), count * size_of::<T>());
    Some(memory)
}

/// An empty vector with room for `bytes`.
pub(crate) fn with_capacity(bytes: usize) -> Vec<u8> {
    let mut memory = Vec::with_capacity(bytes);
    prefer_huge_pages(memory.as_mut_ptr(), bytes);
    memory
}

/// Bytes of a cache line.
const CACHE_LINE_BYTES: usize = 64;

/// A growable buffer aligned to a cache line: wide stores that cross a line cost twice as much.
#[derive(Debug, Default)]
pub(crate) struct AlignedBuffer(Vec<u8>);

impl AlignedBuffer {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The first `bytes` bytes, with arbitrary content.
    pub(crate) fn prefix_mut(&mut self, bytes: usize) -> &mut [u8] {
        if self.0.len() < bytes.saturating_add(CACHE_LINE_BYTES) {
            self.0.resize(bytes.saturating_add(CACHE_LINE_BYTES), 0);
        }
        let start = self.start();
        &mut self.0[start..start + bytes]
    }

    /// The first `bytes` bytes of the last request.
    pub(crate) fn prefix(&self, bytes: usize) -> &[u8] {
        self.0.get(self.start()..).and_then(|held| held.get(..bytes)).unwrap_or_default()
    }

    fn start(&self) -> usize {
        self.0.as_ptr().align_offset(CACHE_LINE_BYTES).min(CACHE_LINE_BYTES)
    }
}

/// Bytes of an ordinary page.
#[cfg(all(target_os = "linux", feature = "convert"))]
const PAGE: usize = 4096;

/// Asks for huge pages behind an allocation of `bytes` at `start`.
#[cfg(all(target_os = "linux", feature = "convert"))]
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

#[cfg(not(all(target_os = "linux", feature = "convert")))]
fn prefer_huge_pages(_start: *mut u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_to_cache_lines_and_keep_their_content() {
        let mut buffer = AlignedBuffer::new();
        assert_eq!(buffer.prefix(1), [0; 0]);
        for bytes in [0, 1, 1000, 63, 5000] {
            let found = buffer.prefix_mut(bytes);
            assert_eq!((found.len(), found.as_ptr().addr() % CACHE_LINE_BYTES), (bytes, 0));
            found.fill(7);
            assert_eq!(buffer.prefix(bytes), vec![7; bytes]);
        }
    }

    #[test]
    fn memory_of_any_size_is_zeroed() {
        const LARGE: usize = 4 << 20;
        for bytes in [0, 1, LARGE - 1, LARGE, 3 * LARGE + 12_345] {
            let memory = zeroed(bytes);
            assert_eq!(memory.len(), bytes);
            assert!(memory.iter().all(|&byte| byte == 0));
        }
    }
}
