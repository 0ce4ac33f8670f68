//! Applies a declared normalizer to the fixed text.

use serde_json::Value;

/// Nesting of sequences.
const MAX_DEPTH: usize = 8;
/// Steps of a sequence; known vocabularies have only a few.
const MAX_STEPS: usize = 64;
/// Longest normalised text, in bytes: several times the fixed one.
const MAX_TEXT_BYTES: usize = 1 << 16;

/// The normalised text; `None` if a step is unknown.
pub(super) fn normalise(normalizer: &Value, text: &str) -> Option<String> {
    step(normalizer, text.to_owned(), 0)
}

fn step(normalizer: &Value, text: String, depth: usize) -> Option<String> {
    if normalizer.is_null() {
        return Some(text);
    }
    match normalizer.get("type")?.as_str()? {
        "Sequence" if depth < MAX_DEPTH => {
            let steps = normalizer.get("normalizers")?.as_array().filter(|steps| steps.len() <= MAX_STEPS)?;
            steps.iter().try_fold(text, |text, inner| step(inner, text, depth + 1))
        }
        // The text has no characters that these change.
        "NFC" | "NFD" => Some(text),
        // It has one compatibility character.
        "NFKC" | "NFKD" => Some(text.replace('\u{ff5e}', "~")),
        "Replace" => {
            let pattern = normalizer.get("pattern")?.get("String")?.as_str()?;
            let content = normalizer.get("content")?.as_str()?;
            let longer = text.matches(pattern).count().checked_mul(content.len())?.checked_add(text.len())?;
            (longer <= MAX_TEXT_BYTES).then(|| text.replace(pattern, content))
        }
        "Prepend" if text.is_empty() => Some(text),
        "Prepend" => {
            let before = normalizer.get("prepend")?.as_str()?;
            (before.len() + text.len() <= MAX_TEXT_BYTES).then(|| format!("{before}{text}"))
        }
        "Lowercase" => Some(text.to_lowercase()),
        _ => None,
    }
}

/// The name of a normalizer that llama.cpp would not apply, if there is one. Names of pre-tokenizers select only how
/// text is split; NFC is left to the caller.
pub(super) fn unsupported(normalizer: &Value) -> Option<String> {
    other_than(normalizer, |_, _| false)
}

/// The same for SentencePiece vocabularies, in which replacing spaces by U+2581 is built in.
pub(in crate::architecture::tokenizer) fn unsupported_for_sentencepiece(normalizer: &Value) -> Option<String> {
    let is_space = |value: Option<&Value>| value.and_then(Value::as_str) == Some("\u{2581}");
    other_than(normalizer, |kind, normalizer| match kind {
        "Prepend" => is_space(normalizer.get("prepend")),
        "Replace" => {
            let pattern = normalizer.get("pattern").and_then(|pattern| pattern.get("String"));
            pattern.and_then(Value::as_str) == Some(" ") && is_space(normalizer.get("content"))
        }
        _ => false,
    })
}

/// The name of the first normalizer other than NFC that is not known.
fn other_than(normalizer: &Value, is_known: impl Fn(&str, &Value) -> bool) -> Option<String> {
    let mut open = vec![normalizer];
    while let Some(normalizer) = open.pop() {
        match normalizer.get("type").and_then(Value::as_str) {
            Some("NFC") => {}
            Some("Sequence") => {
                open.extend(normalizer.get("normalizers").and_then(Value::as_array).into_iter().flatten());
            }
            Some(kind) if is_known(kind, normalizer) => {}
            Some(kind) => return Some(kind.to_owned()),
            None if normalizer.is_null() => {}
            None => return Some("without a type".to_owned()),
        }
    }
    None
}
