//! Whether large vectors are fresh memory from the system each time, or memory that was used before.

/// Lets every large vector be memory of its own, which the system hands out anew. To be called before
/// [`reuse`], which keeps what it has.
pub fn renew() {
    // SAFETY: both settings are known to this allocator, and a number is all they take.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
    }
}

/// Lets freed memory be used again, however large it is.
pub fn reuse() {
    // SAFETY: both settings are known to this allocator, and a number is all they take.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}
