//! Values that cannot change, found again: a pickle writes the same short texts, names and tuples for every tensor.

use super::id::Id;

/// Values that are remembered.
const SLOTS: usize = 1024;
/// Longest text, and most items of a tuple, that is worth finding again.
pub(super) const MAX_TEXT_BYTES: usize = 32;
pub(super) const MAX_TUPLE_ITEMS: usize = 8;

/// The last value of each slot. Which slot one has follows from its content, so what is in the slot need only be compared.
#[derive(Debug)]
pub(super) struct Recent {
    slots: Vec<Option<Id>>,
}

/// Where a value is remembered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot(usize);

impl Recent {
    pub(super) fn new() -> Self {
        Self { slots: vec![None; SLOTS] }
    }

    /// The slot of a content, as bytes; `kind` tells texts, tuples and names apart.
    pub(super) fn slot(kind: u8, content: impl Iterator<Item = u32>) -> Slot {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let hash = content.fold(u64::from(kind), |hash, part| (hash ^ u64::from(part)).wrapping_mul(PRIME));
        Slot(((hash ^ hash >> 32) % SLOTS as u64) as usize)
    }

    pub(super) fn get(&self, slot: Slot) -> Option<Id> {
        self.slots[slot.0]
    }

    pub(super) fn set(&mut self, slot: Slot, id: Id) {
        self.slots[slot.0] = Some(id);
    }
}
