//! What the store says that its keys and values take is what the allocator handed out for them. The
//! only test here: others would allocate at the same time.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(unsafe_code, reason = "an allocator that counts can only be made so")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

use ff_backend_embedded::EmbeddedHost;
use support::{HOME, RUN, Random, call, in_memory, run};

/// What is allocated now, as the allocator counts it: with a header, in steps of 16 bytes.
static ALLOCATED: AtomicI64 = AtomicI64::new(0);

struct Counting;

fn taken(bytes: usize) -> i64 {
    (bytes + 8).next_multiple_of(16).max(32) as i64
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: as our caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(taken(layout.size()), Ordering::Relaxed);
        // SAFETY: as our caller promised.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATED.fetch_add(taken(bytes) - taken(layout.size()), Ordering::Relaxed);
        // SAFETY: as our caller promised.
        unsafe { System.realloc(place, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn used(host: &EmbeddedHost) -> i64 {
    host.stats().memory_used as i64
}

/// A few keys of every kind, which grow, shrink and go.
fn random_command(random: &mut Random) -> String {
    let uuid = format!("0190b7a0-5c3e-7f00-8a11-{:012x}", random.below(40_000));
    let long = "v".repeat(random.below(300) as usize + 1);
    let number = random.below(3000);
    let key = |kind: &str, count: u64| format!("ff:{{fp:7}}:{kind}{}", number % count);
    match random.below(14) {
        0..3 => format!("HSET ff:{{fp:7}}:x:{uuid} a 1 b {long} c {number}"),
        3 => format!("DEL ff:{{fp:7}}:x:{uuid}"),
        4 => format!("HSET {} f{number} {long}", key("h", 4)),
        5 => format!("HDEL {} f{number}", key("h", 4)),
        6..8 => format!("ZADD {} {number} {uuid}", key("z", 4)),
        8 => format!("ZREM {} {uuid}", key("z", 4)),
        9 => format!("ZADD {} {number} {long}", key("y", 4)),
        10 => format!("XADD {} MAXLEN ~ 500 * f {long}", key("s", 4)),
        11 => format!("RPUSH {} {long}", key("l", 40)),
        12 => format!("LTRIM {} {} -1", key("l", 40), number % 3),
        _ => format!("SET {} {long}", key("t", 900)),
    }
}

#[tokio::test]
async fn what_keys_and_values_take_is_counted_as_the_allocator_does() {
    let mut random = Random::new(ff_test_seed::random_test!().seed());
    let host = in_memory(RUN);
    run(&host, "SET ff:{fp:7}:first 1").await.unwrap();
    let before = ALLOCATED.load(Ordering::Relaxed) - used(&host);
    for round in 1..=4 {
        for _ in 0..10_000 {
            run(&host, &random_command(&mut random)).await.unwrap();
        }
        let (counted, truth) = (used(&host), ALLOCATED.load(Ordering::Relaxed) - before);
        println!("round {round}: counted {counted}, allocated {truth}");
        let apart = (counted - truth).abs();
        assert!(truth > 1 << 20 && apart * 20 < truth, "counted {counted}, allocated {truth}");
    }
    let keys = host.dump().await.unwrap();
    for key in keys.keys() {
        call(&host, "run", HOME, &[b"DEL", key]).await.unwrap();
    }
    let left = used(&host);
    assert!((0..1 << 20).contains(&left), "{left} bytes are left for nothing");
}
