//! LoRA adapters of PEFT for a base of a known architecture: pairs of low-rank matrices, changed like the weights they are
//! added to.
//!
//! The product of a pair is mapped like a tensor of the base (`map`). The steps of that mapping then become steps on
//! the two factors (`low_rank`): rows of the product are rows of B, columns are columns of A.

mod description;
mod low_rank;
mod map;

pub(crate) use description::{AdapterDescription, DESCRIPTION};
