//! Tables of integers: token ids and the experts of tokens.

use std::ops::Range;

use crate::architecture::types::IntegerTable;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::{AnamnesisError, Result};
use crate::scheme::{Context, TileDecoder, Window};

/// Decodes the integers of part 0; its elements are the bytes of the output.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct TableDecoder {
    kind: IntegerTable,
    /// Bytes of a stored integer.
    stored_bytes: u64,
}

impl TableDecoder {
    /// The decoder of a table that is stored in this type, if it is one of integers.
    pub(crate) const fn of(kind: IntegerTable, stored: Dtype) -> Option<Self> {
        match stored {
            Dtype::I64 => Some(Self { kind, stored_bytes: 8 }),
            Dtype::I32 => Some(Self { kind, stored_bytes: 4 }),
            _ => None,
        }
    }

    fn bytes(self) -> u64 {
        self.kind.dtype().byte_size() as u64
    }

    /// The stored integers.
    pub(crate) fn stored(self, bytes: &[u8]) -> Vec<i64> {
        match self.stored_bytes {
            8 => bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
            _ => bytes.as_chunks::<4>().0.iter().map(|bytes| i64::from(i32::from_le_bytes(*bytes))).collect(),
        }
    }
}

impl TileDecoder for TableDecoder {
    fn granule(&self) -> u64 {
        self.bytes()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let place = |byte: u64| byte / self.bytes() * self.stored_bytes;
        windows.push(Window::between(0, place(elements.start)..place(elements.end)));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        _target: TargetDtype,
        out: &mut [u8],
        _context: &mut Context,
    ) -> Result<usize> {
        let stored = self.stored(inputs.first().copied().unwrap_or_default());
        let first = elements.start / self.bytes();
        let mut written = 0;
        for ((place, number), out) in (first..).zip(stored).zip(out.chunks_exact_mut(self.bytes() as usize)) {
            match self.kind {
                IntegerTable::I32 => {
                    let number = i32::try_from(number).map_err(|_| {
                        AnamnesisError::parse(format!("its integer {place} is {number}, which needs more than 32 bits"))
                    })?;
                    out.copy_from_slice(&number.to_le_bytes());
                }
                IntegerTable::TokenIds => out.copy_from_slice(&number.wrapping_add(place as i64).to_le_bytes()),
            }
            written += out.len();
        }
        Ok(written)
    }

    fn describe(&self) -> String {
        "integers".to_owned()
    }
}
