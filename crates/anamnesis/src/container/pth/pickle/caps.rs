//! Permanent caps of pickles, independent of the caller's limits.

/// Bytes of one pickle, or of all pickles of a legacy stream.
pub(crate) const MAX_PKL_SIZE: u64 = 100 << 20;
/// Bytes of one string or integer.
pub(crate) const MAX_PICKLE_PAYLOAD: u64 = 64 << 20;
/// Bytes of all values while parsing. The pickle of a model with a hundred thousand tensors takes half.
pub(crate) const MAX_PICKLE_WORKING_SET: u64 = 128 << 20;
/// Maximum bytes of a pickle, and of its values, per compressed byte. Models reach a few dozen.
pub(crate) const MAX_PICKLE_GROWTH: u64 = 128;
/// Bytes that every compressed pickle may inflate to, and as many for its values.
pub(crate) const FREE_PICKLE_GROWTH: u64 = 8 << 20;
/// Maximum nesting of containers.
pub(crate) const MAX_PICKLE_VM_DEPTH: usize = 256;
/// Maximum number of open marks.
pub(crate) const MAX_PICKLE_MARK_DEPTH: usize = 256;
