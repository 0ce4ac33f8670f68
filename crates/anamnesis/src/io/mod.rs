//! Input and output: sources of bytes, and atomic output files.

mod arranged;
mod at_offset;
#[cfg(feature = "convert")]
mod atomic;
#[cfg(feature = "convert")]
mod digest;
mod existing;
mod file;
mod inside;
mod joined;
mod memory;
#[cfg(feature = "convert")]
pub(crate) mod output;
mod place;
mod pool;
mod positioned;
mod read_at;
pub(crate) mod record;
#[cfg(any(feature = "containers", feature = "convert"))]
mod scratch;
mod sliced;
mod source;
mod store;
#[cfg(feature = "convert")]
pub(crate) mod temporary;
#[cfg(feature = "convert")]
pub(crate) mod transaction;

pub(crate) use arranged::{ArrangedSource, Region};
pub(crate) use at_offset::{read_exact_at, write_all_at};
#[cfg(feature = "convert")]
pub use atomic::AtomicFile;
#[cfg(feature = "convert")]
pub use digest::file_sha256;
#[cfg(feature = "convert")]
pub(crate) use digest::{DigestKind, sha256};
pub use existing::Existing;
pub(crate) use file::FileSource;
pub(crate) use inside::{Links, file_inside, file_named_by};
pub(crate) use joined::JoinedSource;
pub(crate) use memory::{AlignedBuffer, try_zeroed, with_capacity, zeroed};
pub use place::exists;
#[cfg(feature = "convert")]
pub(crate) use place::remove;
pub(crate) use place::{
    announce, entry, entry_names, entry_paths, existing_entry, is_listed, is_mounted, is_unlinked_folder, open_file,
    open_file_in,
};
pub(crate) use pool::{FilePool, MAX_OPEN_FILES};
pub use positioned::PositionedRead;
pub(crate) use positioned::PositionedSource;
pub(crate) use read_at::{LocalReader, ReadAt};
pub use record::{FileRecord, FileState, record_files};
#[cfg(any(feature = "containers", feature = "convert"))]
pub(crate) use scratch::{HAS_SCRATCH_FILES, scratch_file};
pub(crate) use sliced::SlicedSource;
pub(crate) use source::{BytesSource, ReaderSource, Source, read_all};
pub use store::{Mount, Store, StoreEntry, StoreWrite};
