//! The page: one file without any reference to another.
//!
//! Texts from the model reach the page escaped, in two ways: as text in the overview, and as data, which a script puts
//! into the page as text. The content security policy allows exactly the script and the style of the page, by their
//! hashes, and no request.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const HTML: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The texts of a page.
pub(super) struct Page {
    /// The name of the model.
    pub(super) name: String,
    /// A sentence under it.
    pub(super) lead: String,
    /// Labels and values of the overview.
    pub(super) facts: Vec<(String, String)>,
    pub(super) notes: Vec<String>,
    /// The data of the charts and of the table.
    pub(super) meta: Value,
    /// The columns of the table.
    pub(super) columns: Vec<u8>,
}

impl Page {
    pub(super) fn render(&self) -> String {
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        let fact = |(label, value): &(String, String)| {
            format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escaped(label), escaped(value))
        };
        let facts: Vec<String> = self.facts.iter().map(fact).collect();
        let notes: Vec<String> = self.notes.iter().map(|note| format!("<li>{}</li>", escaped(note))).collect();
        let notes =
            if notes.is_empty() { String::new() } else { format!("<ul class=\"notes\">{}</ul>", notes.concat()) };
        let data = json!({ "meta": packed(self.meta.to_string().as_bytes()), "columns": packed(&self.columns) });
        let parts = [
            ("policy", policy),
            ("title", escaped(&format!("{} – anamnesis", self.name))),
            ("style", STYLE.to_owned()),
            ("name", escaped(&self.name)),
            ("lead", escaped(&self.lead)),
            ("facts", facts.join("\n")),
            ("notes", notes),
            ("version", escaped(env!("CARGO_PKG_VERSION"))),
            ("data", data.to_string().replace('<', "\\u003c")),
            ("script", SCRIPT.to_owned()),
        ];
        filled(HTML, &parts)
    }
}

/// A template with its marks replaced, each once and from front to back, so that no text is taken for a mark.
fn filled(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::with_capacity(template.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { break };
        page += before;
        page += parts.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        rest = after;
    }
    page + rest
}

/// Text for the content of an element or a quoted attribute. Control characters are shown, not sent.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            control if control.is_control() => escaped += &control.escape_unicode().to_string(),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Deflated, in Base64.
fn packed(bytes: &[u8]) -> String {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    // Writing into memory does not fail.
    let deflated = encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default();
    base64(&deflated)
}

/// A source expression of a content security policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text.as_bytes())))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(padded);
        for place in 0..4 {
            let sextet = (word >> (18 - 6 * place)) & 63;
            text.push(if place <= group.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
    }

    #[test]
    fn script_and_style_cannot_end_their_elements_early() {
        assert!(!SCRIPT.to_lowercase().contains("</script") && !SCRIPT.contains("<!--"));
        assert!(!STYLE.to_lowercase().contains("</style"));
        for source in [HTML, STYLE, SCRIPT] {
            let addresses = source.replace("http://www.w3.org/2000/svg", "");
            assert!(!addresses.contains("://") && !addresses.contains("url("), "a page loads nothing");
        }
    }

    #[test]
    fn texts_of_a_model_stay_texts() {
        let hostile = "</script><script>alert(1)</script>\" onload=\"x {{script}}\u{1b}";
        let page = Page {
            name: hostile.to_owned(),
            lead: hostile.to_owned(),
            facts: vec![(hostile.to_owned(), hostile.to_owned())],
            notes: vec![hostile.to_owned()],
            meta: json!({ "templates": [hostile] }),
            columns: Vec::new(),
        };
        let text = page.render();
        assert_eq!(text.matches("<script").count(), 2);
        assert_eq!(text.matches("</script").count(), 2);
        assert!(!text.contains("alert(1)</script>") && !text.contains('\u{1b}'));
        assert!(text.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&quot;x {{script}}"));
        assert!(!text.contains("{{policy}}") && text.contains("default-src &#39;none&#39;") == text.contains("x&#39;"));
    }
}
