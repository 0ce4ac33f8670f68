//! The allocator of the benchmark: every candidate gets its output from the same kind of memory.
//!
//! An output is a large allocation. In `Fresh` mode each one is mapped anew, so that the system's page faults are part of
//! the time; in `Warm` mode freed ones are handed out again, so that the time is the decoder's alone. Both ask the system
//! for huge pages, whoever allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Allocations of at least this size come from mappings of their own.
const LARGE_BYTES: usize = 4 << 20;
/// Bytes of a huge page; mappings start at a multiple of it.
const HUGE_PAGE: usize = 2 << 20;
/// Freed mappings that are kept in warm mode.
const KEPT: usize = 4;

#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Fresh,
    Warm,
}

pub struct Memory {
    is_warm: AtomicBool,
    /// Address and bytes of freed mappings; `(0, 0)` is an empty slot.
    kept: Mutex<[(usize, usize); KEPT]>,
}

impl Memory {
    pub const fn new() -> Self {
        Self { is_warm: AtomicBool::new(false), kept: Mutex::new([(0, 0); KEPT]) }
    }

    pub fn set_mode(&self, mode: Mode) {
        self.is_warm.store(mode == Mode::Warm, Ordering::Relaxed);
        if mode == Mode::Fresh {
            for slot in self.kept.lock().unwrap().iter_mut().filter(|slot| slot.1 > 0) {
                unmap(*slot);
                *slot = (0, 0);
            }
        }
    }

    /// A mapping and whether its bytes are zero.
    fn large(&self, bytes: usize) -> (*mut u8, bool) {
        let bytes = bytes.next_multiple_of(HUGE_PAGE);
        let mut kept = self.kept.lock().unwrap();
        match kept.iter_mut().find(|slot| slot.1 == bytes) {
            Some(slot) => (std::mem::replace(slot, (0, 0)).0 as *mut u8, false),
            None => (map(bytes), true),
        }
    }

    fn free(&self, address: *mut u8, bytes: usize) {
        let mapping = (address as usize, bytes.next_multiple_of(HUGE_PAGE));
        let mut kept = self.kept.lock().unwrap();
        match kept.iter_mut().find(|slot| slot.1 == 0) {
            Some(slot) if self.is_warm.load(Ordering::Relaxed) => *slot = mapping,
            _ => unmap(mapping),
        }
    }
}

// SAFETY: small allocations are the system's; a large one is a private mapping of at least its size, aligned to a huge
// page, handed out once until it is freed.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE_BYTES {
            return self.large(layout.size()).0;
        }
        // SAFETY: the layout is the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE_BYTES {
            // SAFETY: the layout is the caller's.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let (address, is_zero) = self.large(layout.size());
        if !is_zero && !address.is_null() {
            // SAFETY: the mapping has at least this size, and nothing else uses it.
            unsafe { ptr::write_bytes(address, 0, layout.size()) };
        }
        address
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        if layout.size() >= LARGE_BYTES {
            self.free(address, layout.size());
        } else {
            // SAFETY: a small allocation came from the system's allocator with this layout.
            unsafe { System.dealloc(address, layout) }
        }
    }
}

/// A new mapping that starts at a huge page, or null.
fn map(bytes: usize) -> *mut u8 {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a mapping at an address of the system's choice; the ends that are unmapped belong to it alone.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), bytes + HUGE_PAGE, access, kind, -1, 0);
        if start == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        let start = start as usize;
        let aligned = start.next_multiple_of(HUGE_PAGE);
        unmap((start, aligned - start));
        unmap((aligned + bytes, start + HUGE_PAGE - aligned));
        libc::madvise(aligned as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE);
        aligned as *mut u8
    }
}

fn unmap((address, bytes): (usize, usize)) {
    if bytes > 0 {
        // SAFETY: the range is part of a mapping made by `map` that nobody uses any more.
        unsafe { libc::munmap(address as *mut libc::c_void, bytes) };
    }
}
