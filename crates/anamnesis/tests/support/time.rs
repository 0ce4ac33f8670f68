//! Time that does not depend on what else the machine does.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The time that this thread has run; where the system does not count it, the time that has passed.
pub fn processor_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = counted.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}
