//! Permanent caps of GGUF files, independent of the caller's limits.

use crate::container::cursor::Cap;

pub(super) const TENSOR_COUNT: Cap = Cap("MAX_TENSOR_COUNT", 1_000_000);
pub(super) const KV_COUNT: Cap = Cap("MAX_KV_COUNT", 1_000_000);
pub(super) const STRING_BYTES: Cap = Cap("MAX_STRING_LEN", 16 << 20);
pub(super) const KEY_BYTES: Cap = Cap("MAX_GGUF_KEY_LEN", 65_535);
pub(super) const NAME_BYTES: Cap = Cap("MAX_TENSOR_NAME_LEN", 65_535);
pub(super) const ARRAY_LEN: Cap = Cap("MAX_ARRAY_LEN", 16_000_000);
/// An array of numbers has depth 1.
pub(super) const ARRAY_DEPTH: Cap = Cap("MAX_ARRAY_DEPTH", 4);
pub(super) const TENSOR_DIMS: Cap = Cap("MAX_TENSOR_DIMS", 8);
pub(super) const TENSOR_ELEMENTS: Cap = Cap("MAX_TENSOR_ELEMENTS", 1_000_000_000_000);
/// Larger than the page size of any system.
pub(super) const ALIGNMENT: Cap = Cap("MAX_ALIGNMENT", 1 << 24);
