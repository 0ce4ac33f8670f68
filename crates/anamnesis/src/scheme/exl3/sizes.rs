//! The original dimensions of padded weights, from the sizes in the model's configuration.
//!
//! Without them a padded weight looks like any other, except that the factors of padded outputs are zero and that the
//! plain tensors of the model have the original sizes. A weight with such a sign is refused.

use crate::catalog::{Catalog, Dtype};
use crate::error::{AnamnesisError, Result};

/// Dimensions are padded to multiples of this.
pub(super) const BLOCK: u64 = 128;

/// The sizes of a model.
pub(super) struct Sizes<'a> {
    /// In its configuration.
    configured: &'a [u64],
    /// Of its plain tensors, if the configuration has none.
    plain: Vec<u64>,
}

/// The size of a dimension without padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Original {
    pub size: u64,
    /// Whether the configuration has it.
    pub is_known: bool,
}

/// The suffixes of tensors that are padded like their weights.
const PADDED: [&str; 3] = [".suh", ".svh", ".bias"];

impl<'a> Sizes<'a> {
    pub(super) fn of(configured: &'a [u64], catalog: &Catalog) -> Self {
        if !configured.is_empty() {
            return Self { configured, plain: Vec::new() };
        }
        let is_float = |dtype| matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
        let plain = catalog
            .iter()
            .map(|(_, tensor)| tensor)
            .filter(|tensor| is_float(tensor.dtype) && !PADDED.iter().any(|suffix| tensor.name.ends_with(suffix)));
        // Smaller ones are more often sizes of heads than of layers.
        let mut plain: Vec<u64> =
            plain.flat_map(|tensor| &tensor.shape).map(|&size| size as u64).filter(|&size| size > BLOCK).collect();
        plain.sort_unstable();
        plain.dedup();
        Self { configured, plain }
    }

    /// The original size of a stored dimension: the stored size if a size of the model is equal to it, otherwise the
    /// size that is padded to it. Several of these are ambiguous, and those of plain tensors only a sign of padding.
    pub(super) fn original(&self, stored: u64) -> Result<Original> {
        let known = |size| Ok(Original { size, is_known: true });
        match candidates(stored, self.configured)[..] {
            [] => {}
            [one] => return known(one),
            [first, .., last] => {
                return Err(AnamnesisError::parse(format!(
                    "its dimension of {stored} may be {first} or {last} of the model, padded: the configuration has both"
                )));
            }
        }
        match candidates(stored, &self.plain)[..] {
            [first, ..] if first != stored => Err(AnamnesisError::parse(format!(
                "its dimension of {stored} may be {first} of the model, padded: no configuration has the model's sizes"
            ))),
            _ => Ok(Original { size: stored, is_known: false }),
        }
    }
}

/// The sizes that a stored dimension may be, without repetition: only the stored one if it is among them.
fn candidates(stored: u64, sizes: &[u64]) -> Vec<u64> {
    if sizes.contains(&stored) {
        return vec![stored];
    }
    let is_padded = |size: &u64| *size > 0 && size.checked_next_multiple_of(BLOCK) == Some(stored);
    let mut padded: Vec<u64> = sizes.iter().copied().filter(is_padded).collect();
    padded.sort_unstable();
    padded.dedup();
    padded
}

/// Refuses factors of outputs that end in zeros, as those of padding do.
pub(super) fn check_end(factors: &[u8]) -> Result<()> {
    let (factors, _) = factors.as_chunks::<2>();
    let zeros = factors.iter().rev().take_while(|factor| u16::from_le_bytes(**factor) & 0x7FFF == 0).count();
    match zeros {
        0 => Ok(()),
        _ => Err(AnamnesisError::parse(format!(
            "the factors of its last {zeros} outputs are zero, as those of padding are: no configuration has its size"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original(stored: u64, configured: &[u64]) -> Result<u64> {
        Sizes { configured, plain: Vec::new() }.original(stored).map(|original| original.size)
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
            Sizes { configured, plain }.original(stored).map(|original| original.is_known)
        };
        assert!(known(256, &[200], Vec::new()).unwrap());
        assert!(known(256, &[256], Vec::new()).unwrap());
        assert!(!known(256, &[], vec![256, 250]).unwrap());
        let problem = known(256, &[], vec![200]).unwrap_err().to_string();
        assert!(problem.contains("its dimension of 256 may be 200 of the model, padded"), "{problem}");
    }

    #[test]
    fn zeros_at_the_end_of_the_factors_are_padding() {
        assert!(check_end(&[0, 0, 0, 0x3c]).is_ok());
        let problem = check_end(&[0, 0x3c, 0, 0x80, 0, 0]).unwrap_err().to_string();
        assert!(problem.contains("the factors of its last 2 outputs are zero"), "{problem}");
    }
}
