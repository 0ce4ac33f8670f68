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

#[cfg(target_os = "linux")]
fn prefer_large_pages(memory: &mut [u8]) {
    const PAGE: usize = 4096;
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
    fn memory_of_any_size_is_zero() {
        for bytes in [0, 1, LARGE_BYTES - 1, LARGE_BYTES, 3 * LARGE_BYTES + 12_345] {
            let memory = zeroed(bytes);
            assert_eq!(memory.len(), bytes);
            assert!(memory.iter().all(|&byte| byte == 0));
        }
    }
}
