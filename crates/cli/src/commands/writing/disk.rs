//! The room on a disk.

use std::path::Path;

/// Bytes that can still be written where `output` is, or will be created; `None` where the system does not tell.
pub(super) fn free_bytes(output: &Path) -> Option<u64> {
    let place = output.ancestors().find(|place| place.exists()).unwrap_or(Path::new("."));
    #[cfg(unix)]
    {
        let space = rustix::fs::statvfs(place).ok()?;
        space.f_bavail.checked_mul(space.f_frsize)
    }
    #[cfg(not(unix))]
    {
        let _ = place;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_disk_of_an_output_is_that_of_its_parent() {
        for output in [".", "not-there-yet", "/not/there/yet"] {
            assert!(free_bytes(Path::new(output)).is_some_and(|bytes| bytes > 0), "{output}");
        }
    }
}
