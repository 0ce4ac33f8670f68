//! A small intern table for immutable values: pickles repeat the same short strings, globals and tuples for every
//! tensor.

use super::id::Id;

/// Number of slots.
const SLOTS: usize = 1024;
/// Maximum length of interned strings, and of interned tuples.
pub(super) const MAX_TEXT_BYTES: usize = 32;
pub(super) const MAX_TUPLE_ITEMS: usize = 8;

/// The most recent value of each slot. The slot is the hash of the content; the value has to be compared.
#[derive(Debug)]
pub(super) struct InternTable {
    slots: Vec<Option<Id>>,
}

/// The slot of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot(usize);

impl InternTable {
    pub(super) fn new() -> Self {
        Self { slots: vec![None; SLOTS] }
    }

    /// The slot of a content; `kind` separates strings, tuples and globals.
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
