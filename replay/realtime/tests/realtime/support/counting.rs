//! An allocator that counts allocations, per thread and for the whole process.
#![expect(unsafe_code, reason = "an allocator that counts")]
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static ALL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// Returns the allocations of this thread so far.
pub fn of_this_thread() -> u64 {
    OWN.get()
}

/// Returns the allocations of all threads so far.
pub fn of_all_threads() -> u64 {
    ALL.load(Ordering::Relaxed)
}

fn count() {
    OWN.set(OWN.get() + 1);
    ALL.fetch_add(1, Ordering::Relaxed);
}

struct Counting;

// SAFETY: all is left to the system's allocator; the counts have no destructors.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait says.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the trait says.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }

    // SAFETY: as the trait says.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
