//! Quark, of AMD: integers and four-bit floats. Its eight-bit floats are read by `fp8`.
//!
//! | `dtype` | `X.weight` | `X.weight_scale` | `X.weight_zero_point` |
//! |---|---|---|---|
//! | `fp4` | U8 `[.., out, in / 2]`, the low half of a byte first | U8, an exponent, `[.., out, in / 32]` | |
//! | `uint4`, `int4` in groups | I32 `[in, out / 8]`, in the order of AWQ | float `[groups, out]` | I32 `[groups, out / 8]` |
//! | `int8` | I8 `[out, in]` | float, one or `[out]` | I8, as the scales |
//!
//! A value is `code * 2^(scale - 127)`, a power that is infinite at 255, or `(code - zero) * scale`; `int4` is in two's
//! complement. Only the configuration tells these weights from others of the same names: `global_quant_config.weight` and its
//! like for single layers and types of layers.

mod claim;
mod integers;
mod mxfp4;
mod parts;
mod spec;

pub(crate) use claim::Quark;
