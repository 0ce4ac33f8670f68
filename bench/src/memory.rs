//! An allocator that keeps large pieces of memory for the next who asks for the same size, contents and all.
//!
//! Fresh memory costs more than decoding into it. With recycled memory the measured time is that of the kernel, for
//! everybody alike.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;

/// The system's allocator for all but large pieces.
pub struct Recycling;

const LARGE: usize = 1 << 20;

/// Address and size of what was given back.
static KEPT: Mutex<[(usize, usize); 8]> = Mutex::new([(0, 0); 8]);

// SAFETY: every piece comes from the system's allocator, and goes to one owner at a time: it leaves the list when it is handed
// out. Alignments of large pieces that are kept are those of bytes to double words, for which the system gives 16.
unsafe impl GlobalAlloc for Recycling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_kept(layout)
            && let Ok(mut kept) = KEPT.lock()
            && let Some(piece) = kept.iter_mut().find(|piece| piece.1 == layout.size())
        {
            return std::mem::take(piece).0 as *mut u8;
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_kept(layout) {
            // What is decoded is written everywhere.
            // SAFETY: the caller's promise.
            return unsafe { self.alloc(layout) };
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_kept(layout)
            && let Ok(mut kept) = KEPT.lock()
            && let Some(place) = kept.iter_mut().find(|piece| piece.1 == 0)
        {
            *place = (pointer as usize, layout.size());
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn is_kept(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= 16
}
