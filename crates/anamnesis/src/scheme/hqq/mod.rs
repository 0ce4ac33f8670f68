//! HQQ: `(code - zero) * scale` over groups of a weight that was laid flat.
//!
//! | stored | holds |
//! |---|---|
//! | `X.W_q` | the codes of a matrix whose rows (axis 1) or columns (axis 0) are groups, in planes of bits |
//! | `X.scale` `X.zero` | one number each for a group |
//! | `X.shape` | rows and columns of the weight |
//! | `X.nbits` `X.group_size` `X.axis` `X.packing` | how codes are grouped and packed |
//! | `X.view_as_float` | whether the bytes of `W_q` are called floats |
//! | `X.quant_scale` `X.quant_zero` `X.offload_meta` | whether scales and zeros are stored in a way that is refused here |
//! | `X.channel_wise` | whether there are groups at all |
//! | `X.optimize` and others | how the weight came about; they go with it |
//!
//! The library calculates in the type of `compute_dtype`; here every step is of F32.

mod claim;
mod encoder;
mod entries;
mod quantiser;
mod state;

pub(crate) use claim::Hqq;
pub(crate) use quantiser::ENCODINGS;
