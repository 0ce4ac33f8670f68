//! What a declared normaliser makes of the fixed text.

use serde_json::Value;

/// Normalisers inside normalisers.
const MAX_DEPTH: usize = 8;

/// The normalised text; `None` where a normaliser is not known.
pub(super) fn normalised(normalizer: &Value, text: &str) -> Option<String> {
    step(normalizer, text.to_owned(), 0)
}

fn step(normalizer: &Value, text: String, depth: usize) -> Option<String> {
    if normalizer.is_null() {
        return Some(text);
    }
    match normalizer.get("type")?.as_str()? {
        "Sequence" if depth < MAX_DEPTH => {
            let steps = normalizer.get("normalizers")?.as_array()?;
            steps.iter().try_fold(text, |text, inner| step(inner, text, depth + 1))
        }
        // The text has nothing that can be composed or taken apart.
        "NFC" | "NFD" => Some(text),
        // And one character that is another's twin.
        "NFKC" | "NFKD" => Some(text.replace('\u{ff5e}', "~")),
        "Replace" => {
            let pattern = normalizer.get("pattern")?.get("String")?.as_str()?;
            Some(text.replace(pattern, normalizer.get("content")?.as_str()?))
        }
        "Prepend" if text.is_empty() => Some(text),
        "Prepend" => Some(format!("{}{text}", normalizer.get("prepend")?.as_str()?)),
        "Lowercase" => Some(text.to_lowercase()),
        _ => None,
    }
}
