//! Options of group-wise quantisation.

use std::str::FromStr;

use crate::error::{AnamnesisError, Request};

/// Which values share a scale.
///
/// ```
/// use anamnesis::GroupSize;
/// assert_eq!("64".parse::<GroupSize>()?, GroupSize::Values(64));
/// assert_eq!("channel".parse::<GroupSize>()?, GroupSize::Row);
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupSize {
    /// This many adjacent values of a row.
    Values(u32),
    /// All of a row.
    Row,
}

impl FromStr for GroupSize {
    type Err = AnamnesisError;

    fn from_str(text: &str) -> Result<Self, AnamnesisError> {
        match text.parse() {
            Ok(values) if values > 0 => Ok(Self::Values(values)),
            _ if text == "channel" => Ok(Self::Row),
            _ => {
                let why = "is neither a number of values nor channel".to_owned();
                Err(Request::Malformed { what: "group size", text: text.to_owned(), why }.into())
            }
        }
    }
}

/// Options of group-wise quantisation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupOptions {
    /// Which values share a scale; `None` means the target's default.
    pub size: Option<GroupSize>,
    /// Whether quantised weights keep their codes and scales if these decode to the same values in the target's format,
    /// even if the target's library, which calculates in half precision, decodes them to values that differ in the last
    /// bit.
    pub same_codes: bool,
}

impl GroupOptions {
    /// The target's defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { size: None, same_codes: false }
    }

    /// Sets which values share a scale.
    #[must_use]
    pub const fn with_size(mut self, size: GroupSize) -> Self {
        self.size = Some(size);
        self
    }

    /// Lets quantised weights keep their codes and scales if these decode to the same values in the target's format.
    #[must_use]
    pub const fn with_same_codes(mut self, same_codes: bool) -> Self {
        self.same_codes = same_codes;
        self
    }
}
