//! The original dimensions of padded weights, from the sizes in the model's configuration.

use crate::error::{AnamnesisError, Result};

/// Dimensions are padded to multiples of this.
pub(super) const BLOCK: u64 = 128;

/// The original size of a stored dimension, given the sizes in the configuration: the stored size if a size of the
/// model is equal to it, otherwise the size that is padded to it. Several of these are ambiguous.
pub(super) fn original(stored: u64, sizes: &[u64]) -> Result<u64> {
    let mut padded: Vec<u64> = sizes
        .iter()
        .copied()
        .filter(|&size| size > 0 && size.checked_next_multiple_of(BLOCK) == Some(stored))
        .collect();
    padded.sort_unstable();
    padded.dedup();
    match padded[..] {
        _ if padded.contains(&stored) => Ok(stored),
        [] => Ok(stored),
        [one] => Ok(one),
        [first, .., last] => Err(AnamnesisError::parse(format!(
            "its dimension of {stored} may be {first} or {last} of the model, padded: the configuration has both"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_size_is_cropped_only_to_a_size_that_is_padded_to_it() {
        assert_eq!(original(256, &[]).unwrap(), 256);
        assert_eq!(original(256, &[100, 300]).unwrap(), 256);
        assert_eq!(original(256, &[200, 64]).unwrap(), 200);
        assert_eq!(original(256, &[200, 256]).unwrap(), 256);
        assert!(original(256, &[200, 208]).is_err());
        assert_eq!(original(256, &[200, 200, 0]).unwrap(), 200);
    }
}
