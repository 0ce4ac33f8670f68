//! The formats of GPTQ checkpoints.

use std::fmt;
use std::str::FromStr;

use crate::error::{AnamnesisError, Request, Result};

/// How a GPTQ checkpoint stores its zero points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GptqFormat {
    /// Stored minus one, as AutoGPTQ and most tools do.
    V1,
    /// Stored unchanged.
    V2,
}

impl GptqFormat {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// `v1` or `v2`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

impl fmt::Display for GptqFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for GptqFormat {
    type Err = AnamnesisError;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|format| text.eq_ignore_ascii_case(format.name())).ok_or_else(|| {
            let known = Self::ALL.map(|format| format.name().to_owned()).to_vec();
            Request::UnknownName { what: "GPTQ format", name: text.to_owned(), known }.into()
        })
    }
}
