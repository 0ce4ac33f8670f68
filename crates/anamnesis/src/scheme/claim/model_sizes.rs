//! The original dimensions of weights that are stored padded to whole blocks, from the sizes in the model's configuration.
//!
//! Without them a padded weight looks like any other, except that the plain tensors of the model have the original sizes. A
//! weight with this sign is refused.

use super::claims::Claims;
use crate::catalog::Dtype;
use crate::error::{AnamnesisError, Result};

/// The sizes of a model whose weights are padded.
pub(in crate::scheme) struct ModelSizes<'a> {
    /// Dimensions are padded to multiples of this.
    block: u64,
    /// In its configuration.
    configured: &'a [u64],
    /// Of its plain tensors, if the configuration has none.
    plain: Vec<u64>,
}

/// The size of a dimension without padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::scheme) struct Original {
    pub size: u64,
    /// Whether the configuration has it.
    pub is_known: bool,
}

/// Smaller sizes of plain tensors are more often those of heads than of layers.
const SMALLEST: u64 = 128;

impl<'a> ModelSizes<'a> {
    /// The sizes in the configuration or, if it has none, of plain tensors. Tensors with one of the suffixes `padded` are
    /// padded like their weights.
    pub(in crate::scheme) fn of(claims: &Claims<'a>, block: u64, padded: &[&str]) -> Self {
        let (configured, catalog) = (claims.config.model_sizes(), claims.catalog);
        if !configured.is_empty() {
            return Self { block, configured, plain: Vec::new() };
        }
        let is_float = |dtype| matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
        let plain = catalog
            .iter()
            .map(|(_, tensor)| tensor)
            .filter(|tensor| is_float(tensor.dtype) && !padded.iter().any(|suffix| tensor.name.ends_with(suffix)));
        let mut plain: Vec<u64> =
            plain.flat_map(|tensor| &tensor.shape).map(|&size| size as u64).filter(|&size| size > SMALLEST).collect();
        plain.sort_unstable();
        plain.dedup();
        Self { block, configured, plain }
    }

    /// The original size of a stored dimension: the stored size if a size of the model is equal to it, otherwise the
    /// size that is padded to it. Several of these are ambiguous, and those of plain tensors only a sign of padding.
    pub(in crate::scheme) fn original(&self, stored: u64) -> Result<Original> {
        let known = |size| Ok(Original { size, is_known: true });
        match self.candidates(stored, self.configured)[..] {
            [] => {}
            [one] => return known(one),
            [first, .., last] => {
                return Err(AnamnesisError::parse(format!(
                    "its dimension of {stored} may be {first} or {last} of the model, padded: the configuration has both"
                )));
            }
        }
        match self.candidates(stored, &self.plain)[..] {
            [first, ..] if first != stored => Err(AnamnesisError::parse(format!(
                "its dimension of {stored} may be {first} of the model, padded: no configuration has the model's sizes"
            ))),
            _ => Ok(Original { size: stored, is_known: false }),
        }
    }
    /// The sizes that a stored dimension may be, without repetition: only the stored one if it is among them.
    fn candidates(&self, stored: u64, sizes: &[u64]) -> Vec<u64> {
        if sizes.contains(&stored) {
            return vec![stored];
        }
        let is_padded = |size: &u64| *size > 0 && size.checked_next_multiple_of(self.block) == Some(stored);
        let mut padded: Vec<u64> = sizes.iter().copied().filter(is_padded).collect();
        padded.sort_unstable();
        padded.dedup();
        padded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original(stored: u64, configured: &[u64]) -> Result<u64> {
        ModelSizes { block: 128, configured, plain: Vec::new() }.original(stored).map(|original| original.size)
    }

    #[test]
    fn a_stored_size_is_cropped_only_to_a_size_that_is_padded_to_it() {
        assert_eq!(original(256, &[]).unwrap(), 256);
        assert_eq!(original(256, &[100, 300]).unwrap(), 256);
        assert_eq!(original(256, &[200, 64]).unwrap(), 200);
        assert_eq!(original(256, &[200, 256]).unwrap(), 256);
        assert!(original(256, &[200, 208]).is_err());
        assert_eq!(original(256, &[200, 200, 0]).unwrap(), 200);
    }

    #[test]
    fn only_a_size_of_the_configuration_is_known() {
        let known = |stored, configured: &[u64], plain: Vec<u64>| {
            ModelSizes { block: 128, configured, plain }.original(stored).map(|original| original.is_known)
        };
        assert!(known(256, &[200], Vec::new()).unwrap());
        assert!(known(256, &[256], Vec::new()).unwrap());
        assert!(!known(256, &[], vec![256, 250]).unwrap());
        let problem = known(256, &[], vec![200]).unwrap_err().to_string();
        assert!(problem.contains("its dimension of 256 may be 200 of the model, padded"), "{problem}");
    }
}
