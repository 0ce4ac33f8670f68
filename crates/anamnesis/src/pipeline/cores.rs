//! How many threads are worth starting.

use std::fmt;

/// The cores that this process may use.
///
/// Two threads on one core share what decoding needs, so that one for each core is as fast as one for each hardware thread.
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
    /// How many may run at a time: fewer where a container or a service has a share of the processor only.
    pub at_once: usize,
}

impl Cores {
    /// Asks the system.
    #[must_use]
    pub fn found() -> Self {
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        let allowed = allowed();
        let hardware_threads = allowed.len().max(1);
        let mut siblings: Vec<String> = allowed.into_iter().filter_map(siblings).collect();
        let known = siblings.len();
        siblings.sort_unstable();
        siblings.dedup();
        // Where not every one tells its siblings, each counts as a core.
        let cores = if known == hardware_threads { siblings.len() } else { hardware_threads.max(at_once) };
        Self { cores, hardware_threads: hardware_threads.max(at_once), at_once }
    }

    /// The threads a conversion starts where nobody says how many.
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

/// The hardware threads that this process may run on, by number.
#[cfg(target_os = "linux")]
fn allowed() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).ok();
    let has = |number: &usize| set.is_some_and(|set| set.is_set(*number));
    (0..rustix::thread::CpuSet::MAX_CPU).filter(has).collect()
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Vec<usize> {
    Vec::new()
}

/// The hardware threads of the core that this one belongs to, as the system lists them.
fn siblings(number: usize) -> Option<String> {
    std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_as_many_as_cores_and_as_are_allowed() {
        for (cores, hardware_threads, at_once, wanted) in [(8, 16, 16, 8), (8, 16, 3, 3), (1, 2, 2, 1), (0, 0, 0, 1)] {
            assert_eq!(Cores { cores, hardware_threads, at_once }.threads(), wanted);
        }
        let found = Cores::found();
        assert!(found.threads() <= found.hardware_threads && found.cores <= found.hardware_threads, "{found:?}");
        let shared = Cores { cores: 8, hardware_threads: 16, at_once: 3 };
        assert_eq!(shared.to_string(), "8 cores with 16 hardware threads, of which 3 may run at once");
    }
}
