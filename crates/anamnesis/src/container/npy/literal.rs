//! A parser for the subset of Python literals that occurs in array headers.

use std::fmt;

use crate::error::{AnamnesisError, Result};

/// Maximum nesting; NumPy nests records of records at most.
const MAX_DEPTH: usize = 32;

/// A Python literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Literal {
    Text(String),
    Bool(bool),
    /// An unsigned integer, with or without the suffix `L` of Python 2.
    Number(u64),
    /// Any other number: negative, too large, or not an integer.
    OtherNumber(String),
    Tuple(Vec<Literal>),
    List(Vec<Literal>),
    None,
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |items: &[Self]| items.iter().map(Self::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Bool(value) => f.write_str(if *value { "True" } else { "False" }),
            Self::Number(number) => number.fmt(f),
            Self::OtherNumber(text) => f.write_str(text),
            Self::Tuple(items) if items.len() == 1 => write!(f, "({},)", list(items)),
            Self::Tuple(items) => write!(f, "({})", list(items)),
            Self::List(items) => write!(f, "[{}]", list(items)),
            Self::None => f.write_str("None"),
        }
    }
}

/// Parses a dictionary, followed by white space only.
pub(super) fn parse_dictionary(text: &str) -> Result<Vec<(String, Literal)>> {
    let mut parser = Parser { rest: text };
    parser.expect('{')?;
    let mut entries = Vec::new();
    while !parser.accept('}') {
        let Literal::Text(key) = parser.literal(MAX_DEPTH)? else { return Err(parser.unexpected("a key in quotes")) };
        parser.expect(':')?;
        entries.push((key, parser.literal(MAX_DEPTH)?));
        if !parser.accept(',') {
            parser.expect('}')?;
            break;
        }
    }
    parser.skip_whitespace();
    if parser.rest.is_empty() { Ok(entries) } else { Err(parser.unexpected("the end of the header")) }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip_whitespace(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn unexpected(&self, wanted: &str) -> AnamnesisError {
        let found: String = self.rest.chars().take(20).collect();
        AnamnesisError::parse(format!("{wanted} was expected at {found:?}"))
    }

    fn accept(&mut self, wanted: char) -> bool {
        self.skip_whitespace();
        self.rest.strip_prefix(wanted).map(|rest| self.rest = rest).is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        if self.accept(wanted) { Ok(()) } else { Err(self.unexpected(&format!("'{wanted}'"))) }
    }

    fn literal(&mut self, depth: usize) -> Result<Literal> {
        self.skip_whitespace();
        let Some(depth) = depth.checked_sub(1) else { return Err(self.unexpected("less nesting")) };
        match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => self.text(quote),
            Some('u' | 'b') if self.rest[1..].starts_with(['\'', '"']) => {
                self.rest = &self.rest[1..];
                self.literal(depth + 1)
            }
            Some('(') => {
                self.rest = &self.rest[1..];
                let (mut items, has_comma) = self.items(')', depth)?;
                // A single item in parentheses is not a tuple.
                if items.len() == 1 && !has_comma { Ok(items.remove(0)) } else { Ok(Literal::Tuple(items)) }
            }
            Some('[') => {
                self.rest = &self.rest[1..];
                Ok(Literal::List(self.items(']', depth)?.0))
            }
            _ => self.word(),
        }
    }

    /// Items up to `end`, and whether there was a comma.
    fn items(&mut self, end: char, depth: usize) -> Result<(Vec<Literal>, bool)> {
        let (mut items, mut has_comma) = (Vec::new(), false);
        while !self.accept(end) {
            items.push(self.literal(depth)?);
            if self.accept(',') {
                has_comma = true;
            } else {
                self.expect(end)?;
                break;
            }
        }
        Ok((items, has_comma))
    }

    fn text(&mut self, quote: char) -> Result<Literal> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, c)) = characters.next() {
            if c == quote {
                self.rest = &self.rest[at + 1..];
                return Ok(Literal::Text(text));
            }
            text.push(c);
            // Escapes occur only in field names of record types, which are displayed but not used.
            if c == '\\' {
                text.extend(characters.next().map(|(_, escaped)| escaped));
            }
        }
        Err(self.unexpected("a closing quote for the text"))
    }

    fn word(&mut self) -> Result<Literal> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_');
        let (word, rest) = self.rest.split_at(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()));
        let literal = match word {
            "True" => Literal::Bool(true),
            "False" => Literal::Bool(false),
            "None" => Literal::None,
            _ => {
                let digits = word.strip_suffix('L').unwrap_or(word);
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                match digits.parse() {
                    Ok(number) if is_number => Literal::Number(number),
                    _ if word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) => {
                        Literal::OtherNumber(word.to_owned())
                    }
                    _ => return Err(self.unexpected("a value")),
                }
            }
        };
        self.rest = rest;
        Ok(literal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_headers_written_by_numpy() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4), }     \n";
        let entries = parse_dictionary(header).unwrap();
        assert_eq!(entries[0], ("descr".into(), Literal::Text("<f4".into())));
        assert_eq!(entries[1], ("fortran_order".into(), Literal::Bool(false)));
        assert_eq!(entries[2], ("shape".into(), Literal::Tuple(vec![Literal::Number(3), Literal::Number(4)])));
        let records =
            "{\"descr\": [('a\\'b', u'<f4', (2,)), ('', '|V3')], 'x': ((5)), 'y': (-1, 1e3, 99999999999999999999)}";
        let entries = parse_dictionary(records).unwrap();
        assert!(matches!(&entries[0].1, Literal::List(items) if items.len() == 2));
        assert_eq!(entries[1].1, Literal::Number(5));
        assert!(matches!(&entries[2].1, Literal::Tuple(items) if matches!(&items[2], Literal::OtherNumber(_))));
        assert!(parse_dictionary("{}").unwrap().is_empty());
    }

    #[test]
    fn refuses_everything_else() {
        let deep = format!("{{'a': {}1{}}}", "[".repeat(100), "]".repeat(100));
        let cases = [
            "",
            "{",
            "[]",
            "{'a'}",
            "{'a': }",
            "{'a': 1",
            "{'a': 1} x",
            "{'a': open}",
            "{1: 2}",
            "{'a': 'b}",
            "{'a': (1}",
        ];
        for text in cases.into_iter().chain([deep.as_str(), "{'a': 1,, }", "{'a': __import__('os')}", "{'é"]) {
            assert!(parse_dictionary(text).is_err(), "{text}");
        }
    }
}
