//! Importance matrices (`imatrix`): a weighting of the inputs of each weight.
//!
//! Such files reach a gigabyte and may belong to another model, so an entry holds only its number of values. The values
//! are read when a tensor of the same name and as many inputs is quantised.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::Result;

/// An importance matrix: a weighting of the inputs of each weight.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Importance {
    /// By the name of the weight: a value per input, either for each matrix of a stack or shared by all of them.
    pub weights: BTreeMap<String, InputWeights>,
    /// The file it was read from, as the output's metadata names it.
    pub file: String,
    /// The calibration text, if the file names it.
    pub dataset: Option<String>,
    /// The number of chunks of the calibration text.
    pub chunks: Option<u32>,
}

/// The importance of each input of one weight: in memory, or read from a file on demand.
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
    /// `len` values that `read` returns on demand.
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
    /// `Io` if the file cannot be read again.
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

/// Values in memory are compared; values in files are equal if they are the same entry.
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
