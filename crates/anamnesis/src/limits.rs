//! Limits on the resources that parsing may use, and the budget that tracks them.

use crate::error::{AnamnesisError, Result};

/// Limits of the caller. All are unbounded by default; the permanent caps of each format always apply.
///
/// ```
/// use anamnesis::ParseLimits;
/// let limits = ParseLimits::unbounded().with_max_single_alloc(1 << 20).with_max_item_count(10_000);
/// assert_eq!(limits.max_single_alloc_bytes(), 1 << 20);
/// assert_eq!(limits.max_total_bytes(), u64::MAX);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseLimits {
    max_single_alloc_bytes: u64,
    max_total_bytes: u64,
    max_item_count: u64,
    max_decompression_ratio: u64,
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self::unbounded()
    }
}

impl ParseLimits {
    /// No limits except the permanent caps.
    #[must_use]
    pub const fn unbounded() -> Self {
        Self {
            max_single_alloc_bytes: u64::MAX,
            max_total_bytes: u64::MAX,
            max_item_count: u64::MAX,
            max_decompression_ratio: u64::MAX,
        }
    }

    /// Bounds each single buffer, in bytes.
    #[must_use]
    pub const fn with_max_single_alloc(mut self, bytes: u64) -> Self {
        self.max_single_alloc_bytes = bytes;
        self
    }

    /// Bounds the sum of all buffers of one call, in bytes.
    #[must_use]
    pub const fn with_max_total_bytes(mut self, bytes: u64) -> Self {
        self.max_total_bytes = bytes;
        self
    }

    /// Bounds each count that a file declares: tensors, metadata entries, archive entries.
    #[must_use]
    pub const fn with_max_item_count(mut self, items: u64) -> Self {
        self.max_item_count = items;
        self
    }

    /// Bounds the ratio of decompressed to compressed bytes.
    #[must_use]
    pub const fn with_max_decompression_ratio(mut self, ratio: u64) -> Self {
        self.max_decompression_ratio = ratio;
        self
    }

    /// The bound on each single buffer, in bytes.
    #[must_use]
    pub const fn max_single_alloc_bytes(&self) -> u64 {
        self.max_single_alloc_bytes
    }

    /// The bound on the sum of all buffers of one call, in bytes.
    #[must_use]
    pub const fn max_total_bytes(&self) -> u64 {
        self.max_total_bytes
    }

    /// The bound on each declared count.
    #[must_use]
    pub const fn max_item_count(&self) -> u64 {
        self.max_item_count
    }

    /// The bound on the decompression ratio.
    #[must_use]
    pub const fn max_decompression_ratio(&self) -> u64 {
        self.max_decompression_ratio
    }
}

/// Whether the name of a limit is one of the caller's, not a permanent cap.
pub(crate) fn is_caller_limit(tag: &str) -> bool {
    matches!(tag, "max_single_alloc_bytes" | "max_total_bytes" | "max_item_count" | "max_decompression_ratio")
}

/// The limits of one call and what has been spent of them. Every allocation whose size a file declares is charged
/// here first.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: ParseLimits,
    spent_bytes: u64,
}

impl Budget {
    pub(crate) fn new(limits: &ParseLimits) -> Self {
        Self { limits: limits.clone(), spent_bytes: 0 }
    }

    /// Charges one buffer of `bytes` bytes for `what`.
    pub(crate) fn buffer(&mut self, bytes: u64, what: &str) -> Result<()> {
        if bytes > self.limits.max_single_alloc_bytes {
            return Err(AnamnesisError::limit(
                "max_single_alloc_bytes",
                format!("{what} takes {bytes} bytes, {} are allowed", self.limits.max_single_alloc_bytes),
            ));
        }
        self.working_set(bytes, what)
    }

    /// Charges `bytes` bytes of small allocations for `what`.
    pub(crate) fn working_set(&mut self, bytes: u64, what: &str) -> Result<()> {
        let spent = self.spent_bytes.saturating_add(bytes);
        if spent > self.limits.max_total_bytes {
            return Err(AnamnesisError::limit(
                "max_total_bytes",
                format!("{what} brings the total to {spent} bytes, {} are allowed", self.limits.max_total_bytes),
            ));
        }
        self.spent_bytes = spent;
        Ok(())
    }

    /// Checks a declared number of `what`.
    pub(crate) fn items(&self, count: u64, what: &str) -> Result<()> {
        if count > self.limits.max_item_count {
            return Err(AnamnesisError::limit(
                "max_item_count",
                format!("{count} {what}, {} are allowed", self.limits.max_item_count),
            ));
        }
        Ok(())
    }

    /// Checks the decompression ratio of `what`. Empty input must not decompress to anything.
    pub(crate) fn growth(&self, compressed: u64, bytes: u64, what: &str) -> Result<()> {
        let ratio = self.limits.max_decompression_ratio;
        // A product that overflows is larger than any size.
        if compressed.checked_mul(ratio).is_some_and(|most| bytes > most) {
            return Err(AnamnesisError::limit(
                "max_decompression_ratio",
                format!("{what} makes {bytes} bytes of {compressed}, {ratio} of each are allowed"),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(result: Result<()>) -> &'static str {
        match result {
            Err(AnamnesisError::LimitExceeded { limit, .. }) => limit,
            other => panic!("expected a limit, got {other:?}"),
        }
    }

    #[test]
    fn a_budget_limits_the_sum_and_each_item() {
        let mut budget = Budget::new(&ParseLimits::unbounded().with_max_total_bytes(100));
        budget.buffer(60, "a").unwrap();
        assert_eq!(tag(budget.buffer(41, "b")), "max_total_bytes");
        budget.buffer(40, "c").unwrap();
    }

    #[test]
    fn each_limit_has_its_own_name() {
        let limits = ParseLimits::default().with_max_single_alloc(10).with_max_item_count(3);
        let mut budget = Budget::new(&limits);
        assert_eq!(tag(budget.buffer(11, "a")), "max_single_alloc_bytes");
        assert_eq!(tag(budget.items(4, "tensors")), "max_item_count");
    }

    #[test]
    fn sums_near_u64_max_do_not_wrap() {
        let mut budget = Budget::new(&ParseLimits::default().with_max_total_bytes(u64::MAX - 1));
        budget.buffer(u64::MAX - 1, "a").unwrap();
        assert_eq!(tag(budget.buffer(u64::MAX - 1, "b")), "max_total_bytes");
    }
}
