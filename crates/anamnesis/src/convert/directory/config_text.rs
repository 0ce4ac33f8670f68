//! Editing the text of a `config.json` after its weights changed: only the members concerned are touched, every
//! other byte stays.
//!
//! Serialising the parsed document again would lose the order of keys, the spelling of numbers and the indentation. So
//! the text is scanned once, the ranges to change are recorded, and the rest is copied:
//!
//! | member | where | becomes |
//! |---|---|---|
//! | `quantization_config`, `compression_config` | in any object | removed, with its comma and white space |
//! | `quantization`, where it is an object | in any object | removed |
//! | `torch_dtype`, `dtype`, where it names a float type | in any object | the new type of the weights |
//! | `torch_dtype` | the document, if it has neither member | added at its end |
//!
//! A duplicate key is edited at every occurrence, since JSON parsers differ in which one they use.

use std::ops::Range;

use serde_json::Value;

use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result, printable};
use crate::json;
use crate::quant_config::is_quantisation;

/// Maximum nesting depth, the same as in the validation before the scan.
const MAX_DEPTH: usize = 128;
/// Longest key path in a report, in characters.
const MAX_PATH_CHARS: usize = 200;

/// An edited text, and the dotted key paths of removed and changed members.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigEdit {
    pub(crate) text: Vec<u8>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
}

/// The text of a `config.json` without its quantisation, for weights of type `target`; `None` leaves
/// the dtype as it is.
///
/// # Errors
/// `Parse` if the text is not a JSON object.
pub(crate) fn without_quantisation(text: &[u8], target: Option<TargetDtype>) -> Result<ConfigEdit> {
    match json::from_slice(text) {
        Ok(Value::Object(_)) => {}
        Ok(_) => return Err(AnamnesisError::parse("config.json is not a JSON object")),
        Err(error) => return Err(AnamnesisError::parse(format!("config.json is not valid JSON: {error}"))),
    }
    let mut scan = Scan {
        text,
        at: 0,
        dtype: target.map(dtype_name),
        path: Vec::new(),
        inside_removed: 0,
        edits: Vec::new(),
        removed: Vec::new(),
        changed: Vec::new(),
    };
    // The text was validated before, so a scan that stops early is a bug of the scanner; its result
    // must not be written.
    scan.white_space();
    scan.value().ok_or_else(|| AnamnesisError::parse(format!("config.json cannot be edited at byte {}", scan.at)))?;
    Ok(ConfigEdit { text: apply(text, scan.edits), removed: scan.removed, changed: scan.changed })
}

/// The text of a `config.json` whose quantisation is replaced by `members`, appended at its end.
///
/// # Errors
/// As [`without_quantisation`].
pub(crate) fn with_quantisation(
    text: &[u8],
    target: Option<TargetDtype>,
    members: &[(&str, Value)],
) -> Result<ConfigEdit> {
    let mut edit = without_quantisation(text, target)?;
    let is_lined = edit.text.contains(&b'\n');
    for (name, value) in members {
        let member = if is_lined { format!("{value:#}").replace('\n', "\n  ") } else { value.to_string() };
        let close = edit.text.iter().rposition(|&byte| byte == b'}');
        let close = close.ok_or_else(|| AnamnesisError::parse("config.json is not a JSON object"))?;
        let last = edit.text[..close].iter().rposition(|byte| !byte.is_ascii_whitespace());
        let comma = if last.is_some_and(|last| edit.text[last] != b'{') { "," } else { "" };
        let (before, after) = if is_lined { ("\n  ", "\n") } else { (if comma.is_empty() { "" } else { " " }, "") };
        let insertion = format!("{comma}{before}\"{name}\": {member}{after}");
        edit.text.splice(last.map_or(0, |last| last + 1)..close, insertion.into_bytes());
        edit.changed.push((*name).to_owned());
        edit.removed.retain(|path| path != name);
    }
    Ok(edit)
}

fn dtype_name(target: TargetDtype) -> &'static str {
    match target {
        TargetDtype::BF16 => "bfloat16",
        TargetDtype::F16 => "float16",
        TargetDtype::F32 => "float32",
    }
}

/// Whether the text of a configuration has a member for the dtype of the weights.
fn names_dtype(text: &str) -> bool {
    let name = text.strip_prefix("torch.").unwrap_or(text);
    matches!(name, "bfloat16" | "float16" | "float32" | "auto") || name.starts_with("float8_")
}

/// Replaces each range of the text. The ranges must not overlap.
fn apply(text: &[u8], mut edits: Vec<(Range<usize>, String)>) -> Vec<u8> {
    // At the same position an insertion comes before a removal.
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut kept = 0;
    for (range, replacement) in edits {
        out.extend_from_slice(text.get(kept..range.start).unwrap_or_default());
        out.extend_from_slice(replacement.as_bytes());
        kept = range.end;
    }
    out.extend_from_slice(text.get(kept..).unwrap_or_default());
    out
}

/// One pass over a validated document. Methods return `None` if the document is invalid after all.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    /// The new dtype of the weights; `None` if it did not change.
    dtype: Option<&'static str>,
    /// The keys and array indices that lead to the current value.
    path: Vec<String>,
    /// Number of enclosing objects that are removed; nothing inside them is edited.
    inside_removed: usize,
    edits: Vec<(Range<usize>, String)>,
    removed: Vec<String>,
    changed: Vec<String>,
}

/// One member of an object, as ranges of the text.
struct Member {
    key: Range<usize>,
    value: Range<usize>,
    removed: bool,
}

impl Scan<'_> {
    fn value(&mut self) -> Option<()> {
        if self.path.len() >= MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.string().map(drop),
            _ => {
                // A number, true, false or null.
                while self.peek().is_some_and(|byte| !b",]} \t\r\n".contains(&byte)) {
                    self.at += 1;
                }
                Some(())
            }
        }
    }

    fn array(&mut self) -> Option<()> {
        self.byte(b'[')?;
        self.white_space();
        if self.peek()? == b']' {
            return self.byte(b']');
        }
        for position in 0_usize.. {
            self.white_space();
            self.path.push(format!("[{position}]"));
            self.value()?;
            self.path.pop();
            self.white_space();
            if self.peek()? == b']' {
                break;
            }
            self.byte(b',')?;
        }
        self.byte(b']')
    }

    fn object(&mut self) -> Option<()> {
        let open = self.at;
        self.byte(b'{')?;
        self.white_space();
        let mut members = Vec::new();
        let mut has_dtype = false;
        while self.peek()? != b'}' {
            if !members.is_empty() {
                self.byte(b',')?;
                self.white_space();
            }
            let key = self.string()?;
            let name = self.decoded(&key)?;
            self.white_space();
            self.byte(b':')?;
            self.white_space();
            has_dtype |= matches!(name.as_str(), "torch_dtype" | "dtype");
            members.push(self.member(key, name)?);
            self.white_space();
        }
        let inside = open + 1..self.at;
        self.byte(b'}')?;
        if self.inside_removed == 0 {
            let is_document = self.path.is_empty();
            let missing = self.dtype.filter(|_| is_document && !has_dtype);
            self.remove(&members, &inside, missing);
        }
        Some(())
    }

    /// Scans a member, starting at its value.
    fn member(&mut self, key: Range<usize>, name: String) -> Option<Member> {
        let start = self.at;
        let is_object = self.peek()? == b'{';
        // Everything inside a removed member has been scanned by now.
        let removed = is_quantisation(&name, is_object);
        let is_dtype = matches!(name.as_str(), "torch_dtype" | "dtype");
        self.path.push(name);
        self.inside_removed += usize::from(removed);
        self.value()?;
        self.inside_removed -= usize::from(removed);
        let value = start..self.at;
        if self.inside_removed == 0 {
            if removed {
                self.removed.push(self.path_text());
            } else if let Some(dtype) = self.dtype.filter(|_| is_dtype && self.text.get(start) == Some(&b'"')) {
                let stored = self.decoded(&value)?;
                if names_dtype(&stored) && stored != dtype {
                    self.edits.push((value.clone(), format!("\"{dtype}\"")));
                    self.changed.push(self.path_text());
                }
            }
        }
        self.path.pop();
        Some(Member { key, value, removed })
    }

    /// Records the removal of members of an object, each with the comma before it; members before the first remaining
    /// one are removed with the comma after them. `missing` is the `torch_dtype` that the object needs at its end.
    fn remove(&mut self, members: &[Member], inside: &Range<usize>, missing: Option<&str>) {
        let Some(first_kept) = members.iter().position(|member| !member.removed) else {
            let all = match (members.first(), members.last()) {
                // If all members are removed and one is added, it takes over the white space around them.
                (Some(first), Some(last)) if missing.is_some() => first.key.start..last.value.end,
                (Some(_), _) => inside.clone(),
                _ if missing.is_some() => inside.clone(),
                _ => return,
            };
            let successor = missing.map_or_else(String::new, |dtype| self.dtype_member(members, dtype));
            self.edits.push((all, successor));
            return;
        };
        for (place, pair) in members.windows(2).enumerate() {
            let [left, right] = pair else { continue };
            if place < first_kept {
                self.edits.push((left.key.start..right.key.start, String::new()));
            } else if right.removed {
                self.edits.push((left.value.end..right.value.end, String::new()));
            }
        }
        if let Some(dtype) = missing
            && let Some(last_kept) = members.iter().rfind(|member| !member.removed)
        {
            let end = last_kept.value.end;
            let text = format!("{}{}", self.separator(members, inside), self.dtype_member(members, dtype));
            self.edits.push((end..end, text));
        }
    }

    /// The member `"torch_dtype": "bfloat16"`, with the white space that the document has around its colons.
    fn dtype_member(&mut self, members: &[Member], dtype: &str) -> String {
        self.changed.push("torch_dtype".to_owned());
        let colon = members.first().map_or(": ".into(), |member| self.slice(member.key.end..member.value.start));
        format!("\"torch_dtype\"{colon}\"{dtype}\"")
    }

    /// The separator that the document has between two members: comma and white space.
    fn separator(&self, members: &[Member], inside: &Range<usize>) -> String {
        match members {
            [.., before, last] => self.slice(before.value.end..last.key.start),
            [only] => {
                let lead = self.slice(inside.start..only.key.start);
                let is_compact = only.key.end + 1 == only.value.start;
                let space = if lead.contains('\n') || is_compact { &lead } else { " " };
                format!(",{space}")
            }
            [] => String::new(),
        }
    }

    fn slice(&self, range: Range<usize>) -> String {
        String::from_utf8_lossy(self.text.get(range).unwrap_or_default()).into_owned()
    }

    fn path_text(&self) -> String {
        let mut text = String::new();
        for part in &self.path {
            let is_position = part.starts_with('[');
            if !text.is_empty() && !is_position {
                text.push('.');
            }
            text.extend(part.chars().take(MAX_PATH_CHARS));
            if text.len() > 4 * MAX_PATH_CHARS {
                break;
            }
        }
        printable(&text, MAX_PATH_CHARS)
    }

    /// The decoded text of a JSON string in the document.
    fn decoded(&self, string: &Range<usize>) -> Option<String> {
        serde_json::from_slice(self.text.get(string.clone())?).ok()
    }

    /// Scans a string including its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        self.byte(b'"')?;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.byte(b'"')?;
        Some(start..self.at)
    }

    fn white_space(&mut self) {
        while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn byte(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }
}

#[cfg(test)]
mod tests;
