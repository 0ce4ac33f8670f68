//! The table of all `unsafe` in this workspace, `docs/unsafe.md`: each with its function and the reason that its
//! `SAFETY` comment gives. A test fails if one has no such comment, or if the table is out of date.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The committed table.
const TABLE: &str = "docs/unsafe.md";
/// The folders with code.
const FOLDERS: [&str; 5] = ["crates", "bench", "fuzz", "examples", "xtask"];
/// Lines between a comment and its `unsafe`: attributes, and the beginning of the statement.
const MOST_LINES_BETWEEN: usize = 4;

/// Writes the table.
pub(crate) fn run() -> Result<(), String> {
    let text = table(Path::new("."))?;
    fs::write(TABLE, text).map_err(|error| format!("{TABLE}: {error}"))?;
    println!("{TABLE}");
    Ok(())
}

/// One `unsafe`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unsafe {
    function: String,
    kind: &'static str,
    reason: String,
}

/// The table of the workspace in a folder.
fn table(root: &Path) -> Result<String, String> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let found = find(&text).map_err(|error| format!("{name}: {error}"))?;
        let use_of = if name.contains("/src/") && name.starts_with("crates/") { SHIPPED } else { TESTS };
        *counts.entry(use_of).or_default() += found.len();
        let mut rows: BTreeMap<&Unsafe, usize> = BTreeMap::new();
        for one in &found {
            *rows.entry(one).or_default() += 1;
        }
        for (one, count) in rows {
            let times = if count == 1 { String::new() } else { format!(" × {count}") };
            let row = format!("| `{name}` | `{}` | {}{times} | {} |\n", one.function, one.kind, one.reason);
            sections.entry(use_of).or_default().push_str(&row);
        }
    }
    let mut text = String::from(
        "# `unsafe` in this workspace\n\nWritten by `cargo xtask unsafe`. The tests fail if an `unsafe` has no `SAFETY` \
         comment, or is missing here.\n",
    );
    for (use_of, rows) in sections {
        let count = counts.get(use_of).copied().unwrap_or_default();
        text.push_str(&format!(
            "\n## {use_of}: {count}\n\n| file | function | | why it is sound |\n|---|---|---|---|\n"
        ));
        text.push_str(&rows);
    }
    Ok(text)
}

const SHIPPED: &str = "In the crates";
const TESTS: &str = "Only in tests, benchmarks and tasks";

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target" && name != "fixtures") {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Every `unsafe` of a file.
fn find(text: &str) -> Result<Vec<Unsafe>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let tokens = tokens(text);
    let mut found = Vec::new();
    for (index, (token, line)) in tokens.iter().enumerate() {
        if token != "unsafe" {
            continue;
        }
        let after = tokens.get(index + 1).map_or("", |(token, _)| token.as_str());
        let kind = match after {
            "{" => "block",
            "impl" => "impl",
            // Functions and types of function pointers: whatever is unsafe in their bodies is in blocks.
            _ => continue,
        };
        let reason = reason(&lines, *line)
            .ok_or_else(|| format!("line {}: this unsafe {kind} has no SAFETY comment", line + 1))?;
        let named = |pair: &[(String, usize)]| matches!(pair, [(word, _), (name, _)] if word == "fn" && is_name(name));
        let mut names = tokens.windows(2).take(index + 3);
        let function = match kind {
            "impl" => tokens[index..]
                .iter()
                .take_while(|(token, _)| token != "{")
                .map(|(token, _)| token.as_str())
                .fold(String::new(), |mut text, token| {
                    text.push_str(if !text.is_empty() && is_name(token) { " " } else { "" });
                    text.push_str(token);
                    text
                }),
            _ => names.rfind(|pair| named(pair)).map_or_else(String::new, |pair| pair[1].0.clone()),
        };
        found.push(Unsafe { function, kind, reason });
    }
    Ok(found)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The text behind `SAFETY:` in the comment above a line.
fn reason(lines: &[&str], line: usize) -> Option<String> {
    let comment = |line: &str| {
        let text = line.trim_start();
        text.starts_with("//").then(|| text.trim_start_matches('/').trim_start_matches('!').trim().to_owned())
    };
    let near = (line.saturating_sub(MOST_LINES_BETWEEN)..line).rev();
    let mut last =
        near.into_iter().take_while(|&at| !lines[at].trim().is_empty()).find(|&at| comment(lines[at]).is_some())?;
    let mut words = Vec::new();
    while let Some(text) = comment(lines[last]) {
        if let Some((_, rest)) = text.split_once("SAFETY:") {
            words.push(rest.trim().to_owned());
            words.reverse();
            return Some(words.join(" ").replace('|', "\\|"));
        }
        words.push(text);
        last = last.checked_sub(1)?;
    }
    None
}

/// The words and signs of a text with their lines, without comments and literals.
fn tokens(text: &str) -> Vec<(String, usize)> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 0);
    let is_word = |at: usize| chars.get(at).is_some_and(|char| char.is_alphanumeric() || *char == '_');
    while let Some(&char) = chars.get(at) {
        let start = at;
        match (char, chars.get(at + 1)) {
            ('/', Some('/')) => at += chars[at..].iter().take_while(|char| **char != '\n').count(),
            ('/', Some('*')) => {
                at += 2;
                while at < chars.len() && !(chars[at] == '*' && chars.get(at + 1) == Some(&'/')) {
                    at += 1;
                }
                at += 2;
            }
            ('r', Some('"' | '#')) if !start.checked_sub(1).is_some_and(is_word) || chars[at - 1] == 'b' => {
                let hashes = chars[at + 1..].iter().take_while(|char| **char == '#').count();
                if chars.get(at + 1 + hashes) == Some(&'"') {
                    at += hashes + 2;
                    let ends = |at: usize| {
                        chars[at] == '"' && chars[at + 1..].iter().take_while(|char| **char == '#').count() >= hashes
                    };
                    while at < chars.len() && !ends(at) {
                        at += 1;
                    }
                    at += hashes + 1;
                } else {
                    // A raw identifier.
                    at += 1;
                }
            }
            ('"', _) => {
                at += 1;
                while at < chars.len() && chars[at] != '"' {
                    at += if chars[at] == '\\' { 2 } else { 1 };
                }
                at += 1;
            }
            ('\'', Some('\\')) => {
                at += 3;
                at += chars[at.min(chars.len())..].iter().take_while(|char| **char != '\'').count() + 1;
            }
            ('\'', _) if chars.get(at + 2) == Some(&'\'') => at += 3,
            _ if is_word(at) => {
                while is_word(at) {
                    at += 1;
                }
                tokens.push((chars[start..at].iter().collect(), line));
            }
            _ => {
                if !char.is_whitespace() {
                    tokens.push((char.to_string(), line));
                }
                at += 1;
            }
        }
        line += chars[start..at.min(chars.len())].iter().filter(|char| **char == '\n').count();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_up_to_date_and_every_unsafe_has_a_reason() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = table(&root).unwrap_or_else(|error| error);
        let committed = fs::read_to_string(root.join(TABLE)).unwrap_or_default();
        assert!(text == committed, "cargo xtask unsafe writes {TABLE}:\n{text}");
    }

    #[test]
    fn a_reason_is_required() {
        assert!(find("fn f() {\n    unsafe { g() }\n}\n").is_err());
        assert!(find("fn f() {\n    // Something else.\n    unsafe { g() }\n}\n").is_err());
        assert!(find("// SAFETY: of another.\n\nfn f() {\n    unsafe { g() }\n}\n").is_err());
        let found = find("fn f() {\n    // SAFETY: g is\n    // harmless.\n    let x = unsafe { g() };\n}\n");
        let wanted = Unsafe { function: "f".into(), kind: "block", reason: "g is harmless.".into() };
        assert_eq!(found, Ok(vec![wanted]));
    }

    #[test]
    fn words_in_texts_comments_and_types_are_no_unsafe() {
        let text = "// unsafe { }\nconst A: &str = \"unsafe {\"; const B: &str = r#\"unsafe {\"#; const C: char = '\"';\n\
                    type F = Option<unsafe extern \"C\" fn()>;\n/* unsafe { */\n";
        assert_eq!(find(text), Ok(vec![]));
        let text = "// SAFETY: no data.\nunsafe impl Send for A {}\n";
        assert_eq!(find(text).map(|found| found[0].function.clone()), Ok("unsafe impl Send for A".to_owned()));
    }
}
