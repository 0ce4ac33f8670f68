//! EXL3 of exllamav3: weights rotated on both sides, as paths of a trellis. Layers are stored as `[in, out]`.
//!
//! | stored | type and shape | |
//! |---|---|---|
//! | `X.trellis` | I16 `[in / 16, out / 16, 16 K]` | tiles of 16 by 16 weights of `K` bits: 1 to 8, or 1.5, 2.5 and 3.5 |
//! | `X.suh` or `X.su` | F16 `[in]`, or I16 `[in / 16]` | factors of the inputs, or their signs as bits |
//! | `X.svh` or `X.sv` | F16 `[out]`, or I16 `[out / 16]` | the same of the outputs |
//! | `X.mcg`, `X.mul1` | an I32 | selects the codebook by its presence; the value is the codebook's multiplier |
//!
//! `weight = diag(suh) · H · inner · H · diag(svh)` over blocks of 128 by 128, with the Hadamard matrix `H` divided by the
//! root of 128. Every step is rounded to half precision, as in `get_weight_tensor` of the library, and the sums of the
//! products are in the order of [`anamnesis_kernels::products`]: F32 is the exact widening of the result.
//!
//! Dimensions are padded to multiples of 128 and cropped to the sizes in the model's configuration ([`ModelSizes`](super::claim::ModelSizes)).

mod claim;
mod decoder;
mod padding;
mod weight;

pub(crate) use claim::Exl3;
