//! How fast the machine is right now. On a shared machine that changes from one minute to the next:
//! two runs can only be compared if their times for it agree.

use std::time::Instant;

use crate::statistics::Latencies;

const NUMBERS: u64 = 4096;
const REPEATS: usize = 5;

/// Times a fixed piece of work a few times: sorting, which keeps a processor as busy with branches
/// and memory as a store does.
pub(crate) fn measure(times: &mut Latencies) {
    for _ in 0..REPEATS {
        let mut numbers = shuffled();
        let start = Instant::now();
        numbers.sort_unstable();
        std::hint::black_box(&numbers);
        times.add(start.elapsed());
    }
}

fn shuffled() -> Vec<u64> {
    (0..NUMBERS).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)).collect()
}
