//! The stored tensors of one weight, and what is said about it.

use crate::catalog::{StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{Evidence, ScaleType};
use crate::scheme::grouped::{Arithmetic, Formula, Step};

/// The name of the scheme, and of its method.
pub(super) const NAME: &str = "quanto";

/// The parts of a weight, and what is said about it.
pub(super) struct Parts<'a> {
    /// What the decoded weight is called.
    pub name: &'a str,
    pub id: TensorId,
    pub codes: &'a StoredTensor,
    pub scale: (TensorId, &'a StoredTensor),
    pub shift: Option<(TensorId, &'a StoredTensor)>,
    /// Type of the scales.
    pub kind: ScaleType,
    /// The type of the weights by its name in the configuration, and where it stands.
    pub said: Option<(String, String)>,
    pub evidence: Evidence,
}

impl Parts<'_> {
    pub(super) fn fail(&self, what: impl AsRef<str>) -> AnamnesisError {
        AnamnesisError::parse(format!("tensor {}: {}", quoted(&self.codes.name), what.as_ref()))
    }

    /// Refuses a weight of another type than the configuration says. `names` are those of its type.
    pub(super) fn check_said(&self, names: &[&str]) -> Result<()> {
        let Some((said, place)) = &self.said else { return Ok(()) };
        match names.contains(&said.trim_start_matches('q')) {
            true => Ok(()),
            false => Err(self.fail(format!("its codes are {}, {place} says {}", names[0], quoted(said)))),
        }
    }

    /// The library's arithmetic: every step is of the type of the scales.
    pub(super) fn arithmetic(&self, formula: Formula) -> Arithmetic {
        let step = match self.kind {
            ScaleType::Bf16 => Step::Bf16,
            ScaleType::F16 => Step::F16,
            _ => Step::F32,
        };
        Arithmetic { formula, step }
    }
}
