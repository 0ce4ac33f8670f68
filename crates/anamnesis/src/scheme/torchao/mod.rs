//! torchao: flattened tensor subclasses, each described in the metadata of the file.
//!
//! `X.weight` is stored as `X._weight_qdata`, `X._weight_scale` and so on; `__metadata__` has an entry `X.weight`: JSON
//! with the type of the tensor, its attributes, and the names of its parts.
//!
//! | type | codes | value |
//! |---|---|---|
//! | `Float8Tensor` | E4M3, E5M2 | `code * scale` |
//! | `Int8Tensor` `IntxUnpackedToInt8Tensor` | I8, one to a code | `(code - zero_point) * scale` |
//! | `MXTensor` | E4M3, E5M2, or two E2M1 in a byte | `code * 2^scale` |
//! | `NVFP4Tensor` | two E2M1 in a byte | `code * (scale * per_tensor_scale)` |
//!
//! The library rounds the result to the type in the description. Scales of the last two may be swizzled for matrix
//! units ([`swizzle`]). The other subclasses are laid out for one kind of device and are refused by name.

mod claim;
mod description;
mod layouts;

pub(crate) use claim::Torchao;
