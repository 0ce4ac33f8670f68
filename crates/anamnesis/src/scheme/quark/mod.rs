//! AMD Quark: integers and four-bit floats. Its eight-bit floats are decoded by `fp8`.
//!
//! | `dtype` | `X.weight` | `X.weight_scale` | `X.weight_zero_point` |
//! |---|---|---|---|
//! | `fp4` | U8 `[.., out, in / 2]`, the low nibble of a byte first | U8, an exponent, `[.., out, in / 32]` | |
//! | `uint4`, `int4` in groups | I32 `[in, out / 8]`, in the order of AWQ | float `[groups, out]` | I32 `[groups, out / 8]` |
//! | `int8` | I8 `[out, in]` | float, one or `[out]` | I8, the shape of the scales |
//!
//! A value is `code * 2^(scale - 127)`, where 255 means infinity, or `(code - zero) * scale`; `int4` is in two's
//! complement. Other schemes use the same names, so weights are claimed only if the configuration names Quark. It
//! describes weights in `global_quant_config.weight`, and in similar entries for layers and classes of layers.

mod claim;
mod integers;
mod mxfp4;
mod parts;
mod spec;

pub(crate) use claim::Quark;
