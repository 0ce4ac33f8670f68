//! The front matter of a model card, `README.md`: the part of YAML that cards are written in.
//!
//! Keys without indentation whose values are text, a list or a few keys. Anything else, such as tables of results, is
//! skipped.

/// A value of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Nothing,
    Text(String),
    List(Vec<Entry>),
    Map(Vec<(String, Entry)>),
}

impl Entry {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items of a list; a text is a list of one.
    pub(super) fn items(&self) -> Vec<&Self> {
        match self {
            Self::List(items) => items.iter().collect(),
            Self::Text(_) => vec![self],
            Self::Nothing | Self::Map(_) => Vec::new(),
        }
    }
}

/// The keys of a card with their values.
#[derive(Debug, Default)]
pub(super) struct Card(Vec<(String, Entry)>);

impl Card {
    /// The card of a file; empty where it has no front matter or is no text.
    pub(super) fn read(text: Option<&[u8]>) -> Self {
        let Some(text) = text.and_then(|text| std::str::from_utf8(text).ok()) else { return Self::default() };
        let mut lines = text.lines();
        if lines.next() != Some("---") {
            return Self::default();
        }
        let lines: Vec<String> = lines.take_while(|line| *line != "---").map(|line| line.replace('\t', "  ")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !is_empty(line)).collect();
        Self(map(&lines, 0))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, entry)| entry)
    }

    /// The first text that one of these names has.
    pub(super) fn text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.get(name)?.as_text().map(str::to_owned))
    }

    /// The texts of a name.
    pub(super) fn list(&self, name: &str) -> Option<Vec<String>> {
        let items = self.get(name)?.items();
        Some(items.into_iter().filter_map(|item| item.as_text().map(str::to_owned)).collect())
    }
}

fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The keys of lines with this indentation.
fn map(lines: &[&str], margin: usize) -> Vec<(String, Entry)> {
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let Some((key, rest)) = key_of(line).filter(|_| indent(line) == margin) else { continue };
        let inner = lines.get(at..).unwrap_or_default();
        // A list may have the indentation of its key.
        let belongs = |line: &&&str| indent(line) > margin || indent(line) == margin && is_item(line);
        let inner = inner.get(..inner.iter().take_while(belongs).count()).unwrap_or_default();
        at += inner.len();
        entries.push((key, value(rest, inner)));
    }
    entries
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    line == "-" || line.starts_with("- ")
}

/// The key of a line and the rest of the line.
fn key_of(line: &str) -> Option<(String, &str)> {
    let line = line.trim_start();
    if is_item(line) {
        return None;
    }
    let (key, rest) = match line.split_once(": ") {
        Some(both) => both,
        None => (line.trim_end().strip_suffix(':')?, ""),
    };
    Some((unquoted(key.trim()).unwrap_or_else(|| key.trim().to_owned()), rest.trim()))
}

/// A value from the rest of its key's line and the lines below it.
fn value(rest: &str, inner: &[&str]) -> Entry {
    let rest = without_comment(rest);
    match rest.chars().next() {
        None => match inner.first() {
            None => Entry::Nothing,
            Some(first) if is_item(first) => Entry::List(list(inner, indent(first))),
            Some(first) if key_of(first).is_some() => Entry::Map(map(inner, indent(first))),
            Some(_) => Entry::Text(folded(inner, " ")),
        },
        Some('|') => Entry::Text(format!("{}\n", folded(inner, "\n"))),
        Some('>') => Entry::Text(format!("{}\n", folded(inner, " "))),
        Some('[') => {
            let all = format!("{rest} {}", folded(inner, " "));
            let items = all.trim().trim_start_matches('[').trim_end().trim_end_matches(']');
            Entry::List(items.split(',').map(str::trim).filter(|item| !item.is_empty()).map(scalar).collect())
        }
        Some('{') => Entry::Nothing,
        Some(_) if inner.is_empty() => scalar(rest),
        Some(_) => scalar(&format!("{rest} {}", folded(inner, " "))),
    }
}

fn list(lines: &[&str], margin: usize) -> Vec<Entry> {
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let Some(rest) = line.trim_start().strip_prefix('-').filter(|_| indent(line) == margin) else { continue };
        let inner = lines.get(at..).unwrap_or_default();
        let inner = inner.get(..inner.iter().take_while(|line| indent(line) > margin).count()).unwrap_or_default();
        at += inner.len();
        let first = rest.trim();
        match key_of(first).filter(|_| unquoted(first).is_none()) {
            Some(_) => {
                // The first key follows the hyphen, the others are below it.
                let place = margin + 1 + (rest.len() - rest.trim_start().len());
                let first = format!("{}{first}", " ".repeat(place));
                let lines: Vec<&str> = std::iter::once(first.as_str()).chain(inner.iter().copied()).collect();
                items.push(Entry::Map(map(&lines, place)));
            }
            None => items.push(value(first, inner)),
        }
    }
    items
}

fn folded(lines: &[&str], between: &str) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(between)
}

fn without_comment(text: &str) -> &str {
    if text.starts_with(['"', '\'']) {
        return text;
    }
    text.split_once(" #").map_or(text, |(text, _)| text).trim_end()
}

fn scalar(text: &str) -> Entry {
    match unquoted(text) {
        Some(text) => Entry::Text(text),
        None if matches!(text, "" | "~" | "null" | "Null" | "NULL") => Entry::Nothing,
        None => Entry::Text(text.to_owned()),
    }
}

/// The text between quotes, where there are some.
fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let end = text.rfind(quote).filter(|end| *end > 0)?;
    let inside = text.get(1..end)?;
    Some(match quote {
        '\'' => inside.replace("''", "'"),
        _ => inside.replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "---\nlicense: apache-2.0  # free\nbase_model:\n- Qwen/Qwen2.5-0.5B\n- 'b/c'\nlanguage:\n  - en\n  - no\n\
        tags: [chat, \"a b\",\n  c]\nmodel-index:\n- name: x\n  results:\n  - task: y\n    license: other\ndatasets:\n\
        \x20 - name: d\n    repo_url: https://x.y/z\ndescription: >\n  one\n  two\nempty:\nurl: \"https://a.b/c\"\n---\nlicense: mit\n";

    #[test]
    fn cards_are_read_as_far_as_they_are_asked_for() {
        let card = Card::read(Some(CARD.as_bytes()));
        assert_eq!(card.text(&["license"]).unwrap(), "apache-2.0");
        assert_eq!(card.list("base_model").unwrap(), ["Qwen/Qwen2.5-0.5B", "b/c"]);
        assert_eq!(card.list("language").unwrap(), ["en", "no"]);
        assert_eq!(card.list("tags").unwrap(), ["chat", "a b", "c"]);
        assert_eq!(card.text(&["absent", "url"]).unwrap(), "https://a.b/c");
        assert_eq!(card.text(&["description"]).unwrap(), "one two\n");
        assert_eq!(card.get("empty"), Some(&Entry::Nothing));
        let entry = |key: &str, text: &str| (key.to_owned(), Entry::Text(text.to_owned()));
        let dataset = Entry::Map(vec![entry("name", "d"), entry("repo_url", "https://x.y/z")]);
        assert_eq!(card.get("datasets"), Some(&Entry::List(vec![dataset])));
    }

    #[test]
    fn a_file_without_front_matter_says_nothing() {
        for text in [&b""[..], b"# x\n---\na: b\n", b"--- \na: b\n", b"---\n\xff: b\n"] {
            assert_eq!(Card::read(Some(text)).get("a"), None);
        }
        assert!(Card::read(None).0.is_empty());
    }

    #[test]
    fn what_is_no_card_ends_all_the_same() {
        for text in [
            "---\n- - - -\n",
            "---\n: :\n - a:\n   - b: [\n",
            "---\nx: {a: b}\n",
            "---\n'\n\"\n-\n",
            "---\na: '\nb: \"\n",
        ] {
            Card::read(Some(text.as_bytes()));
        }
    }
}
