//! Reshaping while decoding: decoders around decoders, tile by tile, so that no tensor is ever held whole.
//!
//! | | gives | asks the inner decoder for |
//! |---|---|---|
//! | `picked` | rows in another order, or some of them | the rows that a tile covers |
//! | `stacked` | tensors one behind the other | pieces of each |
//! | `woven` | pieces of tensors in turn | as many of each |
//! | `scheme::turned` | rows and columns exchanged | columns of stored numbers, or a whole matrix |
//! | `each` | every value changed | the same values |
//! | `unblocked` | the values of blocks whose bytes are rearranged | the bytes |

mod build;
mod constant;
mod each;
mod interleaved;
mod picked;
mod stacked;
#[cfg(test)]
mod tests;
mod unblocked;

pub(crate) use build::{Built, Leaf, as_blocks, as_values};
