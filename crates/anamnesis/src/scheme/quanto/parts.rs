//! The stored tensors of a quanto weight, and its configuration.

use crate::catalog::{StoredTensor, TensorId};
use crate::error::{AnamnesisError, Result, quoted};
use crate::scheme::coder::{Evidence, ScaleType};
use crate::scheme::grouped::{Arithmetic, Formula, Step};

/// The name of the scheme, and its `quant_method`.
pub(super) const NAME: &str = "quanto";

/// The parts of a weight, and its configuration.
pub(super) struct Parts<'a> {
    /// The name of the decoded weight.
    pub name: &'a str,
    pub id: TensorId,
    pub codes: &'a StoredTensor,
    pub scale: (TensorId, &'a StoredTensor),
    pub shift: Option<(TensorId, &'a StoredTensor)>,
    /// The type of the scales.
    pub kind: ScaleType,
    /// The type of weights in the configuration, and its place.
    pub configured: Option<(String, String)>,
    pub evidence: Evidence,
}

impl Parts<'_> {
    pub(super) fn fail(&self, what: impl AsRef<str>) -> AnamnesisError {
        AnamnesisError::parse(format!("tensor {}: {}", quoted(&self.codes.name), what.as_ref()))
    }

    /// Refuses a weight of another type than the configured one. `names` are the names of its type.
    pub(super) fn check_configured(&self, names: &[&str]) -> Result<()> {
        let Some((configured, place)) = &self.configured else { return Ok(()) };
        match names.contains(&configured.trim_start_matches('q')) {
            true => Ok(()),
            false => Err(self.fail(format!("its codes are {}, {place} says {}", names[0], quoted(configured)))),
        }
    }

    /// The library's arithmetic: every step is rounded to the type of the scales.
    pub(super) fn arithmetic(&self, formula: Formula) -> Arithmetic {
        let step = match self.kind {
            ScaleType::Bf16 => Step::Bf16,
            ScaleType::F16 => Step::F16,
            _ => Step::F32,
        };
        Arithmetic { formula, step }
    }
}
