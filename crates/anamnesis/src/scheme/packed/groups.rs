//! The group size of a packed matrix, and the check of its group index.

use crate::error::{AnamnesisError, Result};

/// The facts from which the group size of a matrix is derived.
pub(crate) struct InputGroups<'a> {
    pub inputs: u64,
    /// The number of rows of scales.
    pub groups: u64,
    /// The configured group size; -1 means one group.
    pub configured: Option<i64>,
    /// The document that the group size comes from.
    pub file: &'a str,
    /// Whether there is a group index. Then a group size that is not configured need not fit the number of groups.
    pub is_indexed: bool,
}

impl InputGroups<'_> {
    /// The group size: the configured one, or else `by_shape`, which the shapes determine.
    pub(crate) fn run(&self, by_shape: Option<u64>) -> std::result::Result<u64, String> {
        let &Self { inputs, groups, configured, file, is_indexed } = self;
        let run = match configured {
            Some(-1) => inputs,
            Some(size) => u64::try_from(size)
                .ok()
                .filter(|&size| size > 0)
                .ok_or_else(|| format!("{file} says groups of {size}"))?,
            None => {
                by_shape.ok_or_else(|| format!("{inputs} inputs in {groups} groups do not determine the group size"))?
            }
        };
        let found = inputs.div_ceil(run);
        if found == groups || is_indexed && configured.is_none() {
            return Ok(run);
        }
        let source = if configured.is_some() { format!(" ({file})") } else { String::new() };
        Err(format!("{inputs} inputs in groups of {run} are {found} groups, the scales have {groups}{source}"))
    }
}

/// Checks a group index, stored as little-endian I32: indices that are negative or past the last group are refused.
/// Returns whether it describes consecutive groups of `run` inputs. If the size `is_configured`, every group must have
/// that many inputs, in any order; the last has the rest.
pub(crate) fn check_group_index(bytes: &[u8], groups: u64, run: u64, is_configured: bool) -> Result<bool> {
    let (index, run) = (bytes.as_chunks::<4>().0, run.max(1));
    let mut counts = vec![0u64; if is_configured { groups as usize } else { 0 }];
    let mut is_runs = true;
    for (input, bytes) in index.iter().enumerate() {
        let group = i32::from_le_bytes(*bytes);
        if u64::try_from(group).ok().is_none_or(|group| group >= groups) {
            let why = format!("the group index of input {input} is {group}, there are {groups} groups");
            return Err(AnamnesisError::parse(why));
        }
        is_runs &= group as u64 == input as u64 / run;
        if let Some(count) = counts.get_mut(group as usize) {
            *count += 1;
        }
    }
    for (group, &count) in (0..).zip(&counts) {
        let wanted = run.min((index.len() as u64).saturating_sub(run.saturating_mul(group)));
        if count != wanted {
            let why =
                format!("the group index has {count} inputs in group {group}, where groups of {run} have {wanted}");
            return Err(AnamnesisError::parse(why));
        }
    }
    Ok(is_runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_must_have_groups_of_the_configured_size() {
        let bytes = |index: &[i32]| index.iter().flat_map(|group| group.to_le_bytes()).collect::<Vec<_>>();
        let [in_order, mixed, uneven] = [&[0, 0, 1, 1, 2][..], &[1, 0, 2, 1, 0], &[0, 0, 0, 1, 2]].map(bytes);
        assert!(check_group_index(&in_order, 3, 2, true).unwrap());
        assert!(!check_group_index(&mixed, 3, 2, true).unwrap());
        assert!(!check_group_index(&uneven, 3, 2, false).unwrap());
        let why = check_group_index(&uneven, 3, 2, true).unwrap_err().to_string();
        assert!(why.contains("3 inputs in group 0"), "{why}");
        assert!(check_group_index(&in_order, 2, 2, false).is_err());
    }

    #[test]
    fn a_configured_group_size_must_fit_and_a_missing_one_must_follow_from_the_shapes() {
        let groups =
            |configured, is_indexed| InputGroups { inputs: 96, groups: 3, configured, file: "config.json", is_indexed };
        assert_eq!(groups(Some(32), false).run(None), Ok(32));
        assert_eq!(groups(Some(40), false).run(Some(1)), Ok(40), "the last group is short");
        assert_eq!(groups(None, false).run(Some(32)), Ok(32));
        assert_eq!(groups(None, true).run(Some(96)), Ok(96), "the index has the groups");
        for (configured, is_indexed, words) in [
            (Some(-1), false, "are 1 groups, the scales have 3 (config.json)"),
            (Some(24), true, "are 4 groups"),
            (Some(0), false, "says groups of 0"),
            (Some(-2), false, "says groups of -2"),
            (None, false, "do not determine"),
        ] {
            let why = groups(configured, is_indexed).run(None).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
