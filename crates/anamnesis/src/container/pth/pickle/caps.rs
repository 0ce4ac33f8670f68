//! What no pickle may pass, whatever the caller allows.

/// Bytes of one pickle, or of the pickles of one legacy stream together.
pub(crate) const MAX_PKL_SIZE: u64 = 100 << 20;
/// Bytes of one string or number.
pub(crate) const MAX_PICKLE_PAYLOAD: u64 = 64 << 20;
/// Bytes of all values together, while they are being made. The pickle of a model of a hundred thousand tensors takes half.
pub(crate) const MAX_PICKLE_WORKING_SET: u64 = 128 << 20;
/// Bytes of a pickle, and of its values, that a compressed byte may become. The pickle of a model becomes a few dozen.
pub(crate) const MAX_PICKLE_GROWTH: u64 = 128;
/// Bytes that any compressed pickle may become, and as many that its values may take.
pub(crate) const FREE_PICKLE_GROWTH: u64 = 8 << 20;
/// Containers inside one another, where values are walked.
pub(crate) const MAX_PICKLE_VM_DEPTH: usize = 256;
/// Marks that are open at the same time.
pub(crate) const MAX_PICKLE_MARK_DEPTH: usize = 256;
