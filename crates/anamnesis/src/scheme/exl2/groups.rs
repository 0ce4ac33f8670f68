//! The groups of a weight and the order of its inputs.

use crate::error::{AnamnesisError, Result};

/// Rows of codes that fill whole words.
pub(super) const RUN: u64 = 32;

/// A run of 32 packed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Run {
    /// The row of words in which it begins.
    pub first_word: u32,
    pub group: u16,
    pub bits: u8,
}

/// The runs of a weight with `inputs` packed rows in `words` rows of words, from `q_groups`.
pub(super) fn runs(stored: &[u8], inputs: u64, words: u64) -> Result<Vec<Run>> {
    let groups: Vec<(u16, u16)> = stored
        .as_chunks::<4>()
        .0
        .iter()
        .map(|[a, b, c, d]| (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d])))
        .collect();
    let mut runs = Vec::new();
    let mut last_bits = u16::MAX;
    for (index, &(bits, first)) in groups.iter().enumerate() {
        let fail = |why: String| Err(AnamnesisError::parse(format!("group {index} of q_groups {why}")));
        if !matches!(bits, 2 | 3 | 4 | 5 | 6 | 8) {
            return fail(format!("has {bits} bits; 2, 3, 4, 5, 6 and 8 are known"));
        }
        if bits > last_bits {
            return fail(format!("has {bits} bits after one of {last_bits}; groups are in falling order"));
        }
        last_bits = bits;
        let end = groups.get(index + 1).map_or(words, |(_, next)| u64::from(*next));
        let first = u64::from(first);
        if index == 0 && first != 0 {
            return fail(format!("begins with word {first}"));
        }
        let Some(count) = end.checked_sub(first).filter(|count| *count > 0 && end <= words) else {
            return fail(format!("has the words {first} to {end} of {words}"));
        };
        if !count.is_multiple_of(bits.into()) {
            return fail(format!("has {count} words, which are not whole runs of codes of {bits} bits"));
        }
        let (Ok(group), Ok(bits)) = (u16::try_from(index), u8::try_from(bits)) else {
            return fail("is one too many".to_owned());
        };
        let starts = (first..end).step_by(bits.into());
        runs.extend(starts.map(|word| Run { first_word: word as u32, group, bits }));
    }
    match runs.len() as u64 * RUN == inputs {
        true => Ok(runs),
        false => {
            let found = runs.len() as u64 * RUN;
            Err(AnamnesisError::parse(format!("its groups have {found} rows, and q_invperm {inputs}")))
        }
    }
}

/// The packed row of each input, from `q_invperm`: a permutation.
pub(super) fn order(stored: &[u8]) -> Result<Vec<u16>> {
    let rows: Vec<u16> = stored.as_chunks::<4>().0.iter().map(|[a, b, ..]| u16::from_le_bytes([*a, *b])).collect();
    let mut is_seen = vec![false; rows.len()];
    for (input, row) in rows.iter().enumerate() {
        match is_seen.get_mut(usize::from(*row)) {
            Some(seen) if !*seen => *seen = true,
            _ => {
                let why = format!("q_invperm has {row} for input {input}, which is no permutation of {}", rows.len());
                return Err(AnamnesisError::parse(why));
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(groups: &[(u16, u16)]) -> Vec<u8> {
        groups.iter().flat_map(|(bits, first)| [bits.to_le_bytes(), first.to_le_bytes()].concat()).collect()
    }

    #[test]
    fn groups_out_of_order_or_of_another_size_are_refused() {
        let found = runs(&stored(&[(5, 0), (5, 10), (3, 15)]), 128, 18).unwrap();
        assert_eq!(found.len(), 4);
        assert_eq!(found[3], Run { first_word: 15, group: 2, bits: 3 });
        for (groups, inputs, words, why) in [
            (&[(5, 0), (6, 5)][..], 64, 11, "falling"),
            (&[(7, 0)], 32, 7, "7 bits"),
            (&[(5, 5), (5, 10)], 64, 15, "begins"),
            (&[(5, 0), (5, 0)], 64, 10, "the words"),
            (&[(5, 0), (5, 12)], 64, 10, "the words"),
            (&[(5, 0)], 32, 6, "whole runs"),
            (&[(5, 0)], 64, 5, "32 rows"),
            (&[], 32, 5, "0 rows"),
        ] {
            let error = runs(&stored(groups), inputs, words).unwrap_err().to_string();
            assert!(error.contains(why), "{groups:?}: {error}");
        }
    }

    #[test]
    fn an_order_must_be_a_permutation() {
        let words = |rows: &[u32]| rows.iter().flat_map(|row| row.to_le_bytes()).collect::<Vec<_>>();
        assert_eq!(order(&words(&[2, 0, 1])).unwrap(), [2, 0, 1]);
        assert!(order(&words(&[0, 0])).is_err() && order(&words(&[0, 2])).is_err());
    }
}
