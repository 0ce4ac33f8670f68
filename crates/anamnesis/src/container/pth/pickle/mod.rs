//! Pickles as data: a machine that reads every protocol, constructs nothing and calls nothing.

pub(crate) mod caps;
mod id;
mod machine;
pub(crate) mod opcodes;
mod recent;
mod spent;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod value;

pub(crate) use id::Id;
pub(crate) use machine::{Pickle, Watcher, read, read_within};
pub(crate) use value::{Global, Object, PickleValues, RawBytes, Value};

use crate::error::Result;
use opcodes::{Op, Reader};

/// Bytes of the pickle at the start of `bytes`, found without running it; `None` where it does not end there.
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
