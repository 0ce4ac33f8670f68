//! Gemma's own quantisation in transformers (`quant_method: gemma`): packed linear layers and embeddings.
//!
//! | stored | type and shape | |
//! |---|---|---|
//! | `X.weight` | U8 (2, 4 bits) or I8 (8 bits) `[out, in * bits / 8]` | codes from the lowest bits on, less the middle one |
//! | `X.weight_scale` | F32 `[out, 1]` | a scale per row |
//! | `X.embedding_quantized` | as `X.weight` | codes of an embedding, which is decoded to `X.weight` |
//! | `X.embedding_scale` | F32 `[rows, blocks]` | a scale per block of a row |
//! | `X.input_activation_scale`, `X.output_activation_scale` | F32 | scales of activations, which a decoded weight does not need |
//! | `X.k_cache_scale`, `X.v_cache_scale` | F32 | the same of caches |
//!
//! `value = code * scale`. Only the configuration has the bits: in `num_bits`, or for single modules in
//! `module_quant_configs`, whose first expression that is found in a module's name applies.

mod claim;
mod weight;

pub(crate) use claim::Gemma;
