//! Whether codes in 32-bit words are packed without gaps or padded, derived from the number of words.

use crate::error::{AnamnesisError, Result};

/// The number of codes along a dimension, and of the words they are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Packed {
    pub codes: u64,
    pub words: u64,
}

/// The number of words for codes without gaps.
fn dense(codes: u64, bits: u8) -> Option<u64> {
    Some(codes.checked_mul(bits.into())?.div_ceil(32))
}

/// The number of words if each holds only whole codes.
fn padded(codes: u64, bits: u8) -> u64 {
    codes.div_ceil(32 / u64::from(bits.max(1)))
}

/// Whether none of these has gaps. `known` is how the library version that packed them does it, if that is known.
pub(super) fn is_dense(bits: u8, all: &[Packed], known: Option<bool>) -> Result<bool> {
    let is_dense = all.iter().all(|packed| dense(packed.codes, bits) == Some(packed.words));
    let is_padded = all.iter().all(|packed| padded(packed.codes, bits) == packed.words);
    // With one word, or if codes fill words exactly, both packings are the same.
    let is_same = 32 % bits.max(1) == 0 || all.iter().all(|packed| packed.words <= 1);
    if is_same && is_dense {
        return Ok(true);
    }
    match (is_dense && known != Some(false), is_padded && known != Some(true)) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        (true, true) => Err(AnamnesisError::parse(format!(
            "its codes of {bits} bits may have gaps between them or not: both packings take as many words, and the \
             configuration has no version of the library that determines the packing"
        ))),
        (false, false) => Err(AnamnesisError::parse(unfit(bits, all))),
    }
}

/// The message that codes do not fit the words they are in.
fn unfit(bits: u8, all: &[Packed]) -> String {
    let fits = |packed: &&Packed| {
        dense(packed.codes, bits) == Some(packed.words) || padded(packed.codes, bits) == packed.words
    };
    match all.iter().find(|packed| !fits(packed)) {
        Some(Packed { codes, words }) => format!("{codes} codes of {bits} bits do not take {words} words"),
        None => format!("codes of {bits} bits are not packed as the version of the library in the configuration does"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bits: u8, codes: u64, words: u64, known: Option<bool>) -> std::result::Result<bool, String> {
        is_dense(bits, &[Packed { codes, words }], known).map_err(|error| error.to_string())
    }

    #[test]
    fn the_number_of_words_determines_whether_there_are_gaps() {
        assert_eq!((found(3, 128, 12, None), found(3, 128, 13, None)), (Ok(true), Ok(false)));
        assert_eq!((found(7, 4, 1, None), found(5, 7, 2, Some(false))), (Ok(true), Ok(false)));
        assert_eq!((found(3, 100, 10, Some(true)), found(3, 100, 10, Some(false))), (Ok(true), Ok(false)));
        assert_eq!((found(4, 9, 2, None), found(8, 9, 3, Some(false))), (Ok(true), Ok(true)));
        assert!(found(3, 100, 10, None).unwrap_err().contains("gaps between them or not"));
        for (words, known) in [(12, false), (13, true)] {
            assert!(found(3, 128, words, Some(known)).unwrap_err().contains("not packed as the version"));
        }
        for (bits, codes, words) in [(4, 128, 15), (4, 128, 17), (3, 128, 14), (1, 33, 1), (8, u64::MAX, 1)] {
            assert!(
                found(bits, codes, words, Some(true)).unwrap_err().contains("do not take"),
                "{bits} {codes} {words}"
            );
        }
    }

    #[test]
    fn unambiguous_zero_points_decide_for_ambiguous_codes() {
        let codes = Packed { codes: 100, words: 10 };
        assert_eq!(is_dense(3, &[codes, Packed { codes: 160, words: 15 }], None).ok(), Some(true));
        assert_eq!(is_dense(3, &[codes, Packed { codes: 160, words: 16 }], None).ok(), Some(false));
        let error = is_dense(3, &[Packed { codes: 160, words: 15 }, Packed { codes: 160, words: 16 }], None);
        assert!(error.unwrap_err().to_string().contains("not packed as the version"));
    }
}
