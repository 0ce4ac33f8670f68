//! Options of an output directory: shard size and part.

use std::str::FromStr;

use crate::error::AnamnesisError;

/// The default shard size in bytes.
const SHARD_BYTES: u64 = 5_000_000_000;

/// How the output is split into weight files, and which of them this run writes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryOptions {
    /// Maximum size of a weight file, in bytes of tensors; a tensor is never split. `None` writes one file.
    pub shard_bytes: Option<u64>,
    /// The part of the output that this run writes; `None` writes all of it.
    pub part: Option<Part>,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl DirectoryOptions {
    /// Shards of 5 GB, all of them written.
    #[must_use]
    pub const fn new() -> Self {
        Self { shard_bytes: Some(SHARD_BYTES), part: None }
    }

    /// Sets the maximum size of a weight file.
    #[must_use]
    pub const fn with_shard_bytes(mut self, bytes: u64) -> Self {
        self.shard_bytes = Some(bytes);
        self
    }

    /// Writes one weight file of any size.
    #[must_use]
    pub const fn with_single_file(mut self) -> Self {
        self.shard_bytes = None;
        self
    }

    /// Writes one part of the output.
    #[must_use]
    pub const fn with_part(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
    }
}

/// One of several parts of the output of about equal size, written as `3/8`.
///
/// ```
/// let part: anamnesis::Part = "3/8".parse()?;
/// assert_eq!((part.number(), part.count()), (3, 8));
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    number: usize,
    count: usize,
}

impl Part {
    /// The number of this part, counted from 1.
    #[must_use]
    pub const fn number(self) -> usize {
        self.number
    }

    /// The number of parts.
    #[must_use]
    pub const fn count(self) -> usize {
        self.count
    }

    /// Which shards of these sizes belong to this part. Shards are assigned in descending order of size, each to the
    /// part with the fewest bytes so far.
    #[must_use]
    pub fn of(self, sizes: &[u64]) -> Vec<bool> {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|&shard| std::cmp::Reverse(sizes[shard]));
        // If there are more parts than shards, the last parts are empty.
        let mut loads = vec![0u64; self.count.min(sizes.len())];
        let mut mine = vec![false; sizes.len()];
        for shard in order {
            let Some(share) = (0..loads.len()).min_by_key(|&share| loads[share]) else { break };
            loads[share] = loads[share].saturating_add(sizes[shard].max(1));
            mine[shard] = share == self.number - 1;
        }
        mine
    }

    /// Whether this part also writes the sidecars.
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.number == 1
    }
}

impl FromStr for Part {
    type Err = AnamnesisError;

    fn from_str(text: &str) -> Result<Self, AnamnesisError> {
        let parsed = text.split_once('/').and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        match parsed {
            Some((number, count)) if number >= 1 && number <= count => Ok(Self { number, count }),
            _ => Err(AnamnesisError::parse(format!("{text:?} is not a part; write 3/8 for the third of eight"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_every_shard_once() {
        let parts: Vec<Part> = ["1/3", "2/3", "3/3"].iter().map(|text| text.parse().unwrap()).collect();
        let sizes = [70, 10, 60, 0, 20, 30, 30, 0, 50, u64::MAX];
        let shares: Vec<Vec<bool>> = parts.iter().map(|part| part.of(&sizes)).collect();
        for shard in 0..sizes.len() {
            assert_eq!(shares.iter().filter(|share| share[shard]).count(), 1, "{shard}");
        }
        let bytes = |share: &Vec<bool>| sizes.iter().zip(share).filter(|(_, mine)| **mine).map(|(size, _)| size).sum();
        assert_eq!(shares.iter().map(bytes).collect::<Vec<u64>>(), [u64::MAX, 140, 130]);
        let part: Part = "5/8".parse().unwrap();
        assert_eq!(part.of(&[1, 1]), [false, false]);
        assert!(part.of(&[]).is_empty());
        for text in ["", "1", "0/3", "4/3", "a/b", "1/0", "-1/2", "1/2/3"] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }
}
