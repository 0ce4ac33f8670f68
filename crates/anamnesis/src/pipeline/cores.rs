//! The number of threads to start.

use std::fmt;

/// The cores that this process may use.
///
/// Two hardware threads of a core share its execution units, so one thread per core is as fast as one per hardware
/// thread.
///
/// ```
/// let cores = anamnesis::Cores::found();
/// assert!(cores.threads() >= 1);
/// println!("{cores}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cores {
    /// Cores with at least one hardware thread that this process may run on.
    pub cores: usize,
    /// Hardware threads that this process may run on.
    pub hardware_threads: usize,
    /// How many hardware threads may run concurrently; fewer in containers with a CPU quota.
    pub at_once: usize,
}

impl Cores {
    /// Queries the system.
    #[must_use]
    pub fn found() -> Self {
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        let allowed = allowed();
        let hardware_threads = allowed.len().max(1);
        let mut siblings: Vec<String> = allowed.into_iter().filter_map(siblings).collect();
        let known = siblings.len();
        siblings.sort_unstable();
        siblings.dedup();
        // If siblings are unknown, each hardware thread counts as a core.
        let cores = if known == hardware_threads { siblings.len() } else { hardware_threads.max(at_once) };
        Self { cores, hardware_threads: hardware_threads.max(at_once), at_once }
    }

    /// The default number of threads of a conversion.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.cores.min(self.at_once).max(1)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, hardware_threads, at_once } = self;
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        write!(
            f,
            "{cores} core{} with {hardware_threads} hardware thread{}",
            plural(*cores),
            plural(*hardware_threads)
        )?;
        if at_once < hardware_threads {
            write!(f, ", of which {at_once} may run at once")?;
        }
        Ok(())
    }
}

/// The numbers of the hardware threads that this process may run on.
#[cfg(all(target_os = "linux", feature = "convert"))]
fn allowed() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).ok();
    let has = |number: &usize| set.is_some_and(|set| set.is_set(*number));
    (0..rustix::thread::CpuSet::MAX_CPU).filter(has).collect()
}

#[cfg(not(all(target_os = "linux", feature = "convert")))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

/// The hardware threads of the same core, as the system lists them.
fn siblings(number: usize) -> Option<String> {
    std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_thread_per_core_within_the_quota() {
        for (cores, hardware_threads, at_once, wanted) in [(8, 16, 16, 8), (8, 16, 3, 3), (1, 2, 2, 1), (0, 0, 0, 1)] {
            assert_eq!(Cores { cores, hardware_threads, at_once }.threads(), wanted);
        }
        let found = Cores::found();
        assert!(found.threads() <= found.hardware_threads && found.cores <= found.hardware_threads, "{found:?}");
        let shared = Cores { cores: 8, hardware_threads: 16, at_once: 3 };
        assert_eq!(shared.to_string(), "8 cores with 16 hardware threads, of which 3 may run at once");
    }
}
