//! Bytes in and out: where they are read from, and how an output file comes into being all at once.

mod memory;
pub(crate) mod output;
mod pool;
mod source;

pub(crate) use memory::zeroed;
pub(crate) use pool::{FilePool, MAX_OPEN_FILES};
pub(crate) use source::{BytesSource, FileSource, ReaderSource, Source, read_all};
