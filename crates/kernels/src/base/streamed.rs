//! Copying past the caches: for results that do not fit them and are not read soon.
//!
//! An ordinary store first reads the line it writes to, so filling used memory moves each byte twice; a non-temporal store
//! moves it once. Decoding into a piece of memory that stays in the caches, and copying from there, is faster
//! than decoding into the large result directly. For a tile that is written to a file right away the opposite holds.

/// Copies `from` to the beginning of `to`, as much as both hold, past the caches where the machine can.
///
/// ```
/// let mut to = vec![0; 1 << 20];
/// anamnesis_kernels::copy_past_caches(&[7; 1000], &mut to[3..]);
/// assert_eq!((to[2], to[3], to[1002], to[1003]), (0, 7, 7, 0));
/// ```
#[must_use = "an output that was not filled has old bytes behind what was written"]
pub fn copy_past_caches(from: &[u8], to: &mut [u8]) -> usize {
    let bytes = from.len().min(to.len());
    copy(&from[..bytes], &mut to[..bytes]);
    bytes
}

/// Copies a slice to one of the same length: whole lines past the caches, what is before and behind them as usual.
#[cfg(target_arch = "x86_64")]
fn copy(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const LINE: usize = 64;
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let (first, from) = from.split_at(head);
    let (start, to) = to.split_at_mut(head);
    start.copy_from_slice(first);
    let ((from, last), (to, end)) = (from.as_chunks::<LINE>(), to.as_chunks_mut::<LINE>());
    for (from, to) in from.iter().zip(to) {
        for (from, to) in from.as_chunks::<16>().0.iter().zip(to.as_chunks_mut::<16>().0) {
            // SAFETY: SSE2 is part of x86-64, both sides are 16 bytes long, and `to` is aligned because its line is. The
            // fence below comes before anybody else can look at what was stored.
            unsafe { _mm_stream_si128(to.as_mut_ptr().cast::<__m128i>(), _mm_loadu_si128(from.as_ptr().cast())) };
        }
    }
    end.copy_from_slice(last);
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

/// Copies a slice to one of the same length.
#[cfg(not(target_arch = "x86_64"))]
fn copy(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}
