//! The memory that the values of a pickle take, paid for before it is used.

use super::caps::MAX_PICKLE_WORKING_SET;
use crate::error::{AnamnesisError, Result};
use crate::limits::Budget;

/// What the values of one pickle take.
#[derive(Debug)]
pub(super) struct Spent {
    bytes: u64,
    most: u64,
}

impl Spent {
    /// Nothing yet, of at most so many bytes.
    pub(super) fn new(most: u64) -> Self {
        Self { bytes: 0, most: most.min(MAX_PICKLE_WORKING_SET) }
    }

    /// Pays for memory before it is used.
    pub(super) fn pay(&mut self, bytes: usize, budget: &mut Budget) -> Result<()> {
        let spent = self.bytes.saturating_add(bytes as u64);
        if spent > self.most {
            let message = format!("the values of the pickle take more than {} bytes", self.most);
            return Err(AnamnesisError::limit("MAX_PICKLE_WORKING_SET", message));
        }
        budget.working_set(bytes as u64, "the values of the pickle")?;
        self.bytes = spent;
        Ok(())
    }

    /// Makes room for `more` items and pays for all of it, used or not.
    pub(super) fn room<T>(&mut self, items: &mut Vec<T>, more: usize, budget: &mut Budget) -> Result<()> {
        let (length, capacity) = (items.len(), items.capacity());
        if capacity - length >= more {
            return Ok(());
        }
        // Long lists grow by less, as half of them unused would be a lot.
        let growth = if capacity * size_of::<T>() < SHORT_LIST_BYTES { capacity / 2 } else { capacity / 8 };
        let wanted = (length + more).max(capacity + growth);
        let block = if capacity == 0 { BLOCK_BYTES } else { 0 };
        self.pay((wanted - capacity) * size_of::<T>() + block, budget)?;
        items.reserve_exact(wanted - length);
        Ok(())
    }
}

/// Bytes up to which a list grows by half.
const SHORT_LIST_BYTES: usize = 256 << 10;
/// Bytes that a block of memory takes beside what is in it.
pub(super) const BLOCK_BYTES: usize = 16;
