//! Where the values of a tensor come from.

use std::sync::Arc;

use crate::catalog::{Extent, TargetDtype, TensorId};
use crate::scheme::TileDecoder;

/// Where the values of a tensor come from.
#[derive(Clone)]
pub(crate) struct Values {
    pub(crate) decoder: Arc<dyn TileDecoder>,
    /// The stored bytes they are made of, the most telling first.
    pub(crate) parts: Vec<Extent>,
    pub(crate) sources: Vec<TensorId>,
    /// What they are rounded to.
    pub(crate) dtype: TargetDtype,
    pub(crate) elements: u64,
    pub(crate) origin: Origin,
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Quantised,
    /// As ordinary floats.
    Plain,
    /// Not as values: codes and scales keep their bits in another order. Elements are bytes then.
    Repacked,
}

impl Values {
    /// Bytes of the output that each element takes.
    pub(crate) const fn each(&self) -> u64 {
        match self.origin {
            Origin::Quantised | Origin::Plain => self.dtype.byte_size() as u64,
            Origin::Repacked => 1,
        }
    }
}
