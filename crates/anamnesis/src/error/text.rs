//! Escaping of untrusted text for display.

/// Maximum characters of an error text.
pub(super) const MAX_TEXT_CHARS: usize = 2048;
/// Maximum characters of a name in an error text.
pub(super) const MAX_NAME_CHARS: usize = 160;

/// An untrusted name in quotes, escaped and truncated.
#[cold]
#[inline(never)]
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", printable(name, MAX_NAME_CHARS))
}

/// `text` without anything a terminal would act on: control characters and the Unicode characters that reorder or hide
/// text are written as escapes; text longer than `max_chars` is truncated.
pub fn printable(text: &str, max_chars: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max_chars));
    for (count, c) in text.chars().enumerate() {
        if count == max_chars {
            out.push('…');
            break;
        }
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Bidirectional controls, zero-width characters, line separators, the byte order mark and tag characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_text_cannot_steer_a_terminal() {
        assert_eq!(quoted("a\u{1b}[2Jb\nc"), "\"a\\u{1b}[2Jb\\u{a}c\"");
        assert_eq!(quoted("evil\u{202e}gnp"), "\"evil\\u{202e}gnp\"");
        assert_eq!(quoted("größe"), "\"größe\"");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(quoted(&"x".repeat(10_000_000)).chars().count(), MAX_NAME_CHARS + 3);
    }
}
