//! Bytes in and out: where they are read from, and how an output file comes into being all at once.

mod file;
mod memory;
pub(crate) mod output;
mod pool;
mod source;

pub(crate) use file::FileSource;
pub(crate) use memory::{is_used, zeroed};
pub(crate) use pool::{FilePool, MAX_OPEN_FILES};
pub(crate) use source::{BytesSource, ReaderSource, Source, read_all};
