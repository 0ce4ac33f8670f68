//! What somebody may have meant: known names that are close to the one typed.

/// The known names that are close to `typed`, the closest first.
pub(crate) fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    ranked(typed, known, most, distance)
}

/// The same for names with dots, whose last part may be right where the rest is not: tensors and metadata keys.
pub(crate) fn closest_dotted<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    ranked(typed, known, most, dotted_distance)
}

/// The same for file names, whose ending may be wrong where the rest is right.
pub(crate) fn closest_file<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    ranked(typed, known, most, |typed, name| {
        // Endings are long and few: they must not make the rest look close.
        let ((stem, ending), (known_stem, known_ending)) = (parted(typed), parted(name));
        let edits = distance(stem, known_stem)?;
        match ending == known_ending {
            true => Some(edits),
            false => (edits == 0).then_some(1),
        }
    })
}

/// A file name and its ending.
fn parted(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}

/// A question to put behind a message.
pub(crate) fn did_you_mean(names: &[&str]) -> Option<String> {
    let (last, others) = names.split_last()?;
    let others = others.join(", ");
    Some(if others.is_empty() { format!("did you mean {last}?") } else { format!("did you mean {others} or {last}?") })
}

fn ranked<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
    most: usize,
    distance: impl Fn(&str, &str) -> Option<usize>,
) -> Vec<&'a str> {
    // Names come from files, and comparing takes their lengths multiplied.
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

/// Longest name that is compared, in bytes.
const MAX_COMPARED_BYTES: usize = 256;
/// Shortest piece of a name that stands for it, in characters.
const MIN_PIECE_CHARS: usize = 3;

/// How far a name is from what was typed; `None` where it is something else.
fn distance(typed: &str, name: &str) -> Option<usize> {
    let (typed, name) = (typed.to_lowercase(), name.to_lowercase());
    let length = typed.chars().count();
    if length >= MIN_PIECE_CHARS && name.contains(&typed) {
        return Some(0);
    }
    Some(edits(&typed, &name)).filter(|&edits| edits <= length.div_ceil(4))
}

fn dotted_distance(typed: &str, name: &str) -> Option<usize> {
    let last = |text: &str| text.rsplit('.').next().unwrap_or_default().to_owned();
    let whole = distance(typed, name);
    let end = || distance(&last(typed), &last(name)).map(|edits| edits + 1);
    whole.or_else(|| if typed.contains('.') { end() } else { None })
}

/// Characters to add, take out or replace to make one text the other.
fn edits(from: &str, to: &str) -> usize {
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
    fn edits_are_counted() {
        for (from, to, count) in [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("größe", "grosse", 3)] {
            assert_eq!((edits(from, to), edits(to, from)), (count, count), "{from} {to}");
        }
    }

    #[test]
    fn close_names_are_found_and_others_are_not() {
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
    fn a_file_is_not_close_for_its_ending_alone() {
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
