//! How important the inputs of each weight are.
//!
//! The files that say it reach a gigabyte, and may be of another model: an entry is its number of values, which are read when a
//! tensor of this name with as many inputs asks for them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::Result;

/// How important the inputs of each weight are.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Importance {
    /// By the name of the weight: a number for each input, for every matrix of a stack or for all.
    pub weights: BTreeMap<String, InputWeights>,
    /// The file it was read from, as it is told in the output.
    pub file: String,
    /// The text it was made with, where the file says it.
    pub dataset: Option<String>,
    /// Pieces of that text.
    pub chunks: Option<u32>,
}

/// The importance of each input of one weight: in memory, or in a file until it is asked for.
///
/// ```
/// use anamnesis::InputWeights;
/// let weights = InputWeights::from(vec![0.5, 2.0]);
/// assert_eq!(weights.len(), 2);
/// assert_eq!(weights.read()?[..], [0.5, 2.0]);
/// # Ok::<(), anamnesis::AnamnesisError>(())
/// ```
#[derive(Clone)]
pub struct InputWeights {
    len: usize,
    values: Values,
}

#[derive(Clone)]
enum Values {
    Held(Arc<[f32]>),
    Stored(Arc<dyn Fn() -> Result<Arc<[f32]>> + Send + Sync>),
}

impl InputWeights {
    /// `len` values that `read` gives.
    pub(crate) fn stored(len: usize, read: impl Fn() -> Result<Arc<[f32]>> + Send + Sync + 'static) -> Self {
        Self { len, values: Values::Stored(Arc::new(read)) }
    }

    /// How many values there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values.
    ///
    /// # Errors
    /// `Io` where the file cannot be read again.
    pub fn read(&self) -> Result<Arc<[f32]>> {
        match &self.values {
            Values::Held(values) => Ok(Arc::clone(values)),
            Values::Stored(read) => read(),
        }
    }
}

impl From<Vec<f32>> for InputWeights {
    fn from(values: Vec<f32>) -> Self {
        Self { len: values.len(), values: Values::Held(Arc::from(values)) }
    }
}

/// Values in memory are equal where their numbers are, those in files where they are the same entry.
impl PartialEq for InputWeights {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len
            && match (&self.values, &other.values) {
                (Values::Held(a), Values::Held(b)) => a == b,
                (Values::Stored(a), Values::Stored(b)) => Arc::ptr_eq(a, b),
                _ => false,
            }
    }
}

impl fmt::Debug for InputWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputWeights of {}", self.len)
    }
}
