//! Taking times in turn.

use std::time::Instant;

/// Runs of each candidate.
const RUNS: usize = 7;

/// Processor seconds of this thread.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of the type the call writes.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// The median processor seconds of each candidate, run in turn after one run that does not count.
pub fn in_turn(candidates: &mut [&mut dyn FnMut()]) -> Vec<f64> {
    let mut times = vec![Vec::with_capacity(RUNS); candidates.len()];
    for run in 0..=RUNS {
        for (candidate, times) in candidates.iter_mut().zip(&mut times) {
            let start = processor_seconds();
            candidate();
            if run > 0 {
                times.push(processor_seconds() - start);
            }
        }
    }
    times.iter_mut().map(|times| median(times)).collect()
}

/// The median seconds on the wall of a few runs.
pub fn on_the_wall<E>(mut run: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let mut times = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
