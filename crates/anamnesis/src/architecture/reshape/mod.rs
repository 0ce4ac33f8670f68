//! Reshaping while decoding: decoders around decoders, tile by tile, so that no tensor is ever held whole.
//!
//! | | gives | asks the inner decoder for |
//! |---|---|---|
//! | `picked` | rows in another order, or some of them | the rows that a tile covers |
//! | `stacked` | tensors concatenated | pieces of each |
//! | `interleaved` | pieces of tensors in turn | as many of each |
//! | `scheme::Transposed` | matrices transposed | columns of stored numbers, or a whole matrix |
//! | `linear` | rows multiplied by a matrix | the rows that a tile covers, the matrix and the bias |
//! | `each` | a formula on every value | the same values |
//! | `resampled` | a grid of rows in another size | the lines around each line |
//! | `table` | integers in another width | the stored integers |
//! | `unblocked` | the values of blocks whose bytes are rearranged | the bytes |

mod build;
mod constant;
mod each;
mod folded;
mod interleaved;
mod linear;
mod picked;
mod resampled;
mod stacked;
mod table;
#[cfg(test)]
mod tests;
mod unblocked;
mod values;

pub(crate) use build::{Built, Leaf, as_blocks, as_values};
pub(crate) use table::TableDecoder;
