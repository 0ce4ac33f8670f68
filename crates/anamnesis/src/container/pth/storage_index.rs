//! A hash index of storages that does not own its keys: there may be a million, and the pickle contains them.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;

/// Indices of storages by the hash of their key, with linear probing.
#[derive(Debug, Default)]
pub(super) struct StorageIndex {
    hasher: RandomState,
    /// A power of two, at most half full.
    slots: Vec<Option<NonZeroU32>>,
    taken: usize,
}

impl StorageIndex {
    /// The index with this key for which `is_it` holds, or the slot to insert it into.
    pub(super) fn find(&self, key: &str, is_it: impl Fn(u32) -> bool) -> std::result::Result<u32, usize> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = self.hasher.hash_one(key) as usize & mask;
        while let Some(&Some(slot)) = self.slots.get(at) {
            if is_it(slot.get() - 1) {
                return Ok(slot.get() - 1);
            }
            at = (at + 1) & mask;
        }
        Err(at)
    }

    /// Grows the table for one more index.
    pub(super) fn grow<'k>(&mut self, key_of: impl Fn(u32) -> Cow<'k, str>) {
        if (self.taken + 1) * 2 <= self.slots.len() {
            return;
        }
        let slots = vec![None; (self.slots.len() * 2).max(8)];
        for slot in std::mem::replace(&mut self.slots, slots).into_iter().flatten() {
            if let Err(at) = self.find(&key_of(slot.get() - 1), |_| false) {
                self.slots[at] = Some(slot);
            }
        }
    }

    pub(super) fn insert(&mut self, at: usize, index: u32) {
        self.slots[at] = NonZeroU32::new(index + 1);
        self.taken += 1;
    }
}
