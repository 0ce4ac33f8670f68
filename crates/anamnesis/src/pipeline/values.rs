//! The source of a tensor's values.

use std::ops::Range;
use std::sync::Arc;

use crate::catalog::{Extent, TargetDtype, TensorId};
use crate::error::{Request, Result, quoted};
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

    /// Refuses a range that the tensor `name` does not have, and a buffer whose length differs from that of its values.
    pub(super) fn check_range(&self, name: &str, range: &Range<u64>, bytes: usize) -> Result<()> {
        if range.start > range.end || range.end > self.elements {
            let what = format!("values {}..{} of {}", range.start, range.end, quoted(name));
            return Err(Request::Contradiction { what, why: format!("it has {}", self.elements) }.into());
        }
        let values = range.end - range.start;
        let wanted = values.checked_mul(self.dtype.byte_size() as u64);
        if wanted == Some(bytes as u64) {
            return Ok(());
        }
        let what = format!("a buffer of {bytes} bytes for {}", quoted(name));
        let why = format!("its {values} values take {} bytes as {}", wanted.unwrap_or(u64::MAX), self.dtype);
        Err(Request::Contradiction { what, why }.into())
    }
}
