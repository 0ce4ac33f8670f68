//! [`Leftover`]: a tensor that no scheme has claimed and that does not look like plain data.

use std::fmt;

use crate::catalog::Dtype;
use crate::error::quoted;

/// A tensor that looks like a part of a quantised weight and belongs to none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: Dtype,
    /// Why it does not look like plain data.
    pub why: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor {} ({}) is left over: {}", quoted(&self.name), self.dtype, self.why)
    }
}
