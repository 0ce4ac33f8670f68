//! Rename commands: `s/EXPRESSION/REPLACEMENT/` with an optional `g`, as in sed.

use regex_lite::Regex;

use super::expression;
use crate::error::{AnamnesisError, Request, Result};

/// Maximum characters of a command.
const MAX_COMMAND_CHARS: usize = 1000;

/// A compiled command.
#[derive(Debug, Clone)]
pub(crate) struct Rename {
    expression: Regex,
    replacement: String,
    /// Whether all matches are replaced, not only the first.
    is_global: bool,
}

impl Rename {
    /// Parses a command. The character after `s` is the delimiter; `\1` to `\9` and `&` in the replacement are groups
    /// and the match.
    ///
    /// # Errors
    /// `Request` if the command or its expression is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let refuse = |why: &str| -> AnamnesisError {
            Request::Malformed { what: "renaming", text: text.to_owned(), why: why.to_owned() }.into()
        };
        if text.chars().nth(MAX_COMMAND_CHARS).is_some() {
            return Err(refuse("is too long"));
        }
        let malformed = || refuse("is neither s/EXPRESSION/REPLACEMENT/ nor s/EXPRESSION/REPLACEMENT/g");
        let mut rest = text.strip_prefix('s').ok_or_else(malformed)?.chars();
        let separator = rest.next().filter(|separator| !separator.is_alphanumeric() && *separator != '\\');
        let separator = separator.ok_or_else(malformed)?;
        let mut parts = vec![String::new()];
        while let Some(character) = rest.next() {
            if character == separator {
                parts.push(String::new());
                continue;
            }
            if let Some(part) = parts.last_mut() {
                match (character, rest.clone().next()) {
                    ('\\', Some(next)) => {
                        rest.next();
                        if next != separator {
                            part.push('\\');
                        }
                        part.push(next);
                    }
                    _ => part.push(character),
                }
            }
        }
        let [expression, replacement, flags] = &parts[..] else { return Err(malformed()) };
        if expression.is_empty() || !matches!(flags.as_str(), "" | "g") {
            return Err(malformed());
        }
        let expression = self::expression(expression, false).map_err(|why| refuse(&why))?;
        Ok(Self { expression, replacement: replacement_of(replacement), is_global: flags == "g" })
    }

    pub(crate) fn apply(&self, name: &str) -> String {
        let limit = if self.is_global { 0 } else { 1 };
        self.expression.replacen(name, limit, self.replacement.as_str()).into_owned()
    }
}

/// Translates the replacement to the syntax of `regex`: `$` is literal in sed, `\1` and `&` are not.
fn replacement_of(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '$' => out.push_str("$$"),
            '&' => out.push_str("${0}"),
            '\\' => match rest.next() {
                Some(digit) if digit.is_ascii_digit() => out.push_str(&format!("${{{digit}}}")),
                Some('$') => out.push_str("$$"),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_rewritten_as_in_sed() {
        let cases = [
            ("s/model/net/", "model.model.w", "net.model.w"),
            ("s/model/net/g", "model.model.w", "net.net.w"),
            (r"s/^blk\.(\d+)\./model.layers.\1./", "blk.12.ffn", "model.layers.12.ffn"),
            ("s|a/b|c|", "a/b", "c"),
            (r"s/a\/b/c/", "a/b", "c"),
            ("s/w$/[&]/", "x.w", "x.[w]"),
            (r"s/w/$1\&/", "w", "$1&"),
            ("s/missing/x/", "w", "w"),
        ];
        for (command, name, wanted) in cases {
            assert_eq!(Rename::parse(command).unwrap().apply(name), wanted, "{command}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for command in ["", "s", "s/", "s/a", "s/a/b", "s//b/", "s/a/b/x", "s/a/b/c/d", "t/a/b/", "sabac", "s/(/x/"] {
            assert!(Rename::parse(command).is_err(), "{command}");
        }
    }
}
