//! Rewriting and checking a journal need little memory beside what is there, by the allocator's own
//! account. The only test here: others would allocate at the same time.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(unsafe_code, reason = "an allocator that counts can only be made so")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use ff_backend_embedded::store::Slices;
use ff_core::partition::Partition;
use support::{call, in_directory};

/// What is allocated now, and what was at most.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn add(bytes: usize) {
    let now = ALLOCATED.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as our caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as our caller promised.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What was allocated beyond what there was before, at most.
async fn beyond(work: impl Future<Output = ()>) -> usize {
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work.await;
    PEAK.load(Ordering::Relaxed) - before
}

const PARTITIONS: u16 = 64;
const KEYS: u32 = 16_000;

#[tokio::test]
async fn rewriting_and_checking_need_no_second_copy_of_everything() {
    let root = tempfile::tempdir().unwrap();
    let host = in_directory(root.path());
    let value = [b'v'; 2000];
    for n in 0..KEYS {
        let partition = Partition::flow((n % u32::from(PARTITIONS)) as u16);
        let key = format!("{}:x:{n}", partition.key());
        let words: [&[u8]; 4] = [b"HSET", key.as_bytes(), b"value", &value];
        call(&host, "run", partition, &words).await.unwrap();
    }
    let used = host.stats().memory_used as usize;
    assert!(used > 32 << 20, "{used} bytes are there");
    for round in 0..2 {
        let more = beyond(async { host.compact().await.unwrap() }).await;
        println!("rewriting {round}: {more} bytes beside {used}");
        assert!(more * 100 < used * 15, "{more} bytes beside {used}");
    }
    host.close().await;
    drop(host);
    let check = beyond(async {
        let slices = Slices::open(root.path()).unwrap();
        let keys: usize = slices.for_each(|slice| slice.len()).unwrap().into_iter().sum();
        assert_eq!(keys, KEYS as usize);
    });
    let check = check.await;
    let start = beyond(async { drop(in_directory(root.path())) }).await;
    println!("checking: {check} bytes, starting: {start}");
    assert!(check * 10 <= start * 13, "a check took {check} bytes, a start {start}");
}
