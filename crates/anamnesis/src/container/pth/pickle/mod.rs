//! A pickle parser for all protocols that constructs no objects and calls nothing.

pub(crate) mod caps;
mod id;
mod intern;
mod machine;
mod memory;
pub(crate) mod opcodes;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod value;

pub(crate) use id::Id;
pub(crate) use machine::{Pickle, Watcher, read, read_within};
pub(crate) use value::{Global, Object, PickleValues, RawBytes, Value};

use crate::error::Result;
use opcodes::{Op, Reader};

/// Length of the pickle at the start of `bytes`, without executing it; `None` if it is incomplete.
pub(crate) fn length(bytes: &[u8]) -> Result<Option<usize>> {
    let mut reader = Reader::new(bytes);
    loop {
        match reader.next() {
            Ok(Op::Stop) => return Ok(Some(reader.position())),
            Ok(_) => {}
            Err(_) if reader.ran_out() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}
