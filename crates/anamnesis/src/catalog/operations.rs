//! Operations that read stored tensors, as files with a graph record them.

use std::sync::Arc;

/// An operation with at least one stored operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    /// Its type, after the domain and a dot unless the domain is the default one.
    pub kind: Arc<str>,
    pub operands: Vec<Operand>,
    /// Its integer attributes.
    pub settings: Vec<(String, i64)>,
}

/// An operand of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operand {
    /// An optional operand that is not given.
    Absent,
    /// A stored tensor, by its name, and the bits that an element takes in the file.
    Stored { name: Arc<str>, bits: u8 },
    /// The result of another operation, by its index.
    Result(u32),
    /// Any other value.
    Computed,
}

impl Operation {
    /// The value of an integer attribute.
    pub(crate) fn setting(&self, name: &str) -> Option<i64> {
        self.settings.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// The operand at a place; those beyond the last are absent.
    pub(crate) fn operand(&self, place: usize) -> &Operand {
        self.operands.get(place).unwrap_or(&Operand::Absent)
    }

    /// The name of the stored tensor at a place.
    pub(crate) fn stored(&self, place: usize) -> Option<&str> {
        match self.operand(place) {
            Operand::Stored { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The bits that an element of the stored tensor at a place takes in the file.
    pub(crate) fn stored_bits(&self, place: usize) -> Option<u8> {
        match self.operand(place) {
            Operand::Stored { bits, .. } => Some(*bits),
            _ => None,
        }
    }
}
