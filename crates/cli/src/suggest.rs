//! Suggestions: known names that are similar to the given one.

/// The known names that are similar to `typed`, the closest first.
pub(crate) fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    rank(typed, known, most, distance)
}

/// The same for dotted names of tensors and metadata keys, whose last part may match alone.
pub(crate) fn closest_dotted<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    rank(typed, known, most, dotted_distance)
}

/// The same for file names, whose extension may be wrong.
pub(crate) fn closest_file<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    rank(typed, known, most, |typed, name| {
        // Extensions are compared separately, so that equal ones do not make names similar.
        let ((stem, ending), (known_stem, known_ending)) = (split_extension(typed), split_extension(name));
        let edits = distance(stem, known_stem)?;
        match ending == known_ending {
            true => Some(edits),
            false => (edits == 0).then_some(1),
        }
    })
}

/// A file name and its extension.
fn split_extension(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}

/// A question to append to a message.
pub(crate) fn did_you_mean(names: &[&str]) -> Option<String> {
    let (last, others) = names.split_last()?;
    let others = others.join(", ");
    Some(if others.is_empty() { format!("did you mean {last}?") } else { format!("did you mean {others} or {last}?") })
}

fn rank<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
    most: usize,
    distance: impl Fn(&str, &str) -> Option<usize>,
) -> Vec<&'a str> {
    // Comparing takes time proportional to the product of both lengths, and names come from files.
    let is_short = |name: &&str| !name.is_empty() && name.len() <= MAX_COMPARED_BYTES;
    if !is_short(&typed) {
        return Vec::new();
    }
    let known = known.into_iter().filter(is_short);
    let mut near: Vec<_> = known.filter_map(|name| Some((distance(typed, name)?, name))).collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(most);
    near.into_iter().map(|(_, name)| name).collect()
}

/// Maximum bytes of a name to compare.
const MAX_COMPARED_BYTES: usize = 256;
/// Minimum characters of a substring that matches a name.
const MIN_SUBSTRING_CHARS: usize = 3;

/// The distance of a name from the given one; `None` if they are not similar.
fn distance(typed: &str, name: &str) -> Option<usize> {
    let (typed, name) = (typed.to_lowercase(), name.to_lowercase());
    let length = typed.chars().count();
    if length >= MIN_SUBSTRING_CHARS && name.contains(&typed) {
        return Some(0);
    }
    Some(levenshtein(&typed, &name)).filter(|&edits| edits <= length.div_ceil(4))
}

fn dotted_distance(typed: &str, name: &str) -> Option<usize> {
    let last = |text: &str| text.rsplit('.').next().unwrap_or_default().to_owned();
    let whole = distance(typed, name);
    let end = || distance(&last(typed), &last(name)).map(|edits| edits + 1);
    whole.or_else(|| if typed.contains('.') { end() } else { None })
}

/// The Levenshtein distance.
fn levenshtein(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, character) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_edits() {
        for (from, to, count) in [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("größe", "grosse", 3)] {
            assert_eq!((levenshtein(from, to), levenshtein(to, from)), (count, count), "{from} {to}");
        }
    }

    #[test]
    fn similar_names_are_found_and_others_are_not() {
        let known = ["general.architecture", "qwen2.context_length"];
        for typed in ["architecture", "general.architectur", "general.arhcitecture"] {
            assert_eq!(closest_dotted(typed, known, 1), ["general.architecture"], "{typed}");
        }
        assert_eq!(closest_dotted("llama.context_length", known, 1), ["qwen2.context_length"]);
        assert_eq!(closest_dotted("nothing.of.the.kind", known, 5), [""; 0]);
        assert_eq!(closest("bf-16", ["bf16", "f16", "f32"], 1), ["bf16"]);
        assert_eq!(closest("", ["bf16"], 1), [""; 0]);
    }

    #[test]
    fn a_file_is_not_similar_for_its_extension_alone() {
        let known = ["model.safetensors", "other.safetensors", "mode.txt"];
        assert_eq!(closest_file("model.gguf", known, 1), ["model.safetensors"]);
        assert_eq!(closest_file("modle.safetensors", known, 5), ["model.safetensors"]);
        assert_eq!(closest_file("different.safetensors", known, 5), [""; 0]);
    }

    #[test]
    fn the_question_reads_well() {
        assert_eq!(did_you_mean(&[]), None);
        assert_eq!(did_you_mean(&["a"]).as_deref(), Some("did you mean a?"));
        assert_eq!(did_you_mean(&["a", "b", "c"]).as_deref(), Some("did you mean a, b or c?"));
    }
}
