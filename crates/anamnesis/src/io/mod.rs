//! Bytes in and out: where they are read from, and how an output file comes into being all at once.

#[allow(dead_code, reason = "containers that rearrange their bytes are to come")]
mod arranged;
mod file;
mod memory;
pub(crate) mod output;
mod pool;
mod source;
#[allow(dead_code, reason = "containers that rearrange their bytes are to come")]
mod strided;

#[allow(unused_imports, reason = "containers that rearrange their bytes are to come")]
pub(crate) use arranged::{ArrangedSource, Region};
pub(crate) use file::FileSource;
pub(crate) use memory::{is_used, zeroed};
pub(crate) use pool::{FilePool, MAX_OPEN_FILES};
pub(crate) use source::{BytesSource, ReaderSource, Source, read_all};
#[allow(unused_imports, reason = "containers that rearrange their bytes are to come")]
pub(crate) use strided::Strided;
