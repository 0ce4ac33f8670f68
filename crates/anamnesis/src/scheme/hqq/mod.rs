//! HQQ: `(code - zero) * scale` over groups of the flattened weight.
//!
//! | stored | holds |
//! |---|---|
//! | `X.W_q` | the codes of a matrix whose rows (axis 1) or columns (axis 0) are groups, in bit planes |
//! | `X.scale` `X.zero` | a scale and a zero point per group |
//! | `X.shape` | rows and columns of the weight |
//! | `X.nbits` `X.group_size` `X.axis` `X.packing` | how codes are grouped and packed |
//! | `X.view_as_float` | whether `W_q` has a float type although it holds codes |
//! | `X.quant_scale` `X.quant_zero` `X.offload_meta` | whether scales and zeros are quantised or offloaded, which is refused |
//! | `X.channel_wise` | whether there are groups at all |
//! | `X.optimize` and others | how the weight was quantised; not needed for decoding |
//!
//! The library calculates in the type of `compute_dtype`; here every step is F32.

mod claim;
#[cfg(feature = "encode")]
mod encoder;
mod entries;
#[cfg(feature = "encode")]
mod quantiser;
mod state;

pub(crate) use claim::Hqq;
#[cfg(feature = "encode")]
pub(crate) use quantiser::ENCODINGS;
