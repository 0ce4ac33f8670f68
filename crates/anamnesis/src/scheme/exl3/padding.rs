//! The sign of padded outputs: their factors are zero.

use crate::error::{AnamnesisError, Result};

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

    #[test]
    fn zeros_at_the_end_of_the_factors_are_padding() {
        assert!(check_end(&[0, 0, 0, 0x3c]).is_ok());
        let problem = check_end(&[0, 0x3c, 0, 0x80, 0, 0]).unwrap_err().to_string();
        assert!(problem.contains("the factors of its last 2 outputs are zero"), "{problem}");
    }
}
