//! Accounting of the memory that the values of a pickle use.

use super::caps::MAX_PICKLE_WORKING_SET;
use crate::error::{AnamnesisError, Result};
use crate::limits::Budget;

/// Memory used by the values of one pickle.
#[derive(Debug)]
pub(super) struct MemoryMeter {
    bytes: u64,
    max_value_bytes: u64,
}

impl MemoryMeter {
    /// No memory used, and a maximum.
    pub(super) fn new(max_value_bytes: u64) -> Self {
        Self { bytes: 0, max_value_bytes: max_value_bytes.min(MAX_PICKLE_WORKING_SET) }
    }

    /// Charges memory before it is used.
    pub(super) fn charge(&mut self, bytes: usize, budget: &mut Budget) -> Result<()> {
        let spent = self.bytes.saturating_add(bytes as u64);
        if spent > self.max_value_bytes {
            let message = format!("the values of the pickle take more than {} bytes", self.max_value_bytes);
            return Err(AnamnesisError::limit("MAX_PICKLE_WORKING_SET", message));
        }
        budget.working_set(bytes as u64, "the values of the pickle")?;
        self.bytes = spent;
        Ok(())
    }

    /// Reserves capacity for `more` items and charges all of it.
    pub(super) fn reserve<T>(&mut self, items: &mut Vec<T>, more: usize, budget: &mut Budget) -> Result<()> {
        let (length, capacity) = (items.len(), items.capacity());
        if capacity - length >= more {
            return Ok(());
        }
        // Long lists grow by a smaller factor, to limit unused capacity.
        let growth = if capacity * size_of::<T>() < SHORT_LIST_BYTES { capacity / 2 } else { capacity / 8 };
        let wanted = (length + more).max(capacity + growth);
        let block = if capacity == 0 { BLOCK_BYTES } else { 0 };
        self.charge((wanted - capacity) * size_of::<T>() + block, budget)?;
        items.reserve_exact(wanted - length);
        Ok(())
    }
}

/// Size up to which a list grows by half.
const SHORT_LIST_BYTES: usize = 256 << 10;
/// Overhead of an allocation in bytes.
pub(super) const BLOCK_BYTES: usize = 16;
