//! The source of a tensor's values.

use std::sync::Arc;

use crate::catalog::{Extent, TargetDtype, TensorId};
use crate::scheme::TileDecoder;

/// The values of a tensor: decoder, stored bytes and output type.
#[derive(Clone)]
pub(crate) struct Values {
    pub(crate) decoder: Arc<dyn TileDecoder>,
    /// The stored bytes, the main part first.
    pub(crate) parts: Vec<Extent>,
    pub(crate) sources: Vec<TensorId>,
    /// The output type.
    pub(crate) dtype: TargetDtype,
    pub(crate) elements: u64,
    pub(crate) origin: Origin,
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Quantised,
    /// As plain floats.
    Plain,
    /// Not as values: codes and scales are rearranged, and elements are bytes.
    Repacked,
}

impl Values {
    /// Output bytes per element.
    pub(crate) const fn each(&self) -> u64 {
        match self.origin {
            Origin::Quantised | Origin::Plain => self.dtype.byte_size() as u64,
            Origin::Repacked => 1,
        }
    }
}
