//! Glob patterns over tensor names: `*` matches any characters, `?` one, `[abc]`, `[a-z]` and `[!a-z]` one of a set.

use crate::error::{AnamnesisError, Request, Result};

/// Maximum characters of a pattern.
const MAX_PATTERN_CHARS: usize = 1000;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Any,
    One,
    Literal(char),
    Set { ranges: Vec<(char, char)>, is_negated: bool },
}

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// `Request` if it is too long or a set is not closed.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let refuse = |why: &str| -> AnamnesisError {
            Request::Malformed { what: "pattern", text: text.to_owned(), why: why.to_owned() }.into()
        };
        if text.is_empty() || text.chars().nth(MAX_PATTERN_CHARS).is_some() {
            return Err(refuse(&format!("must have 1 to {MAX_PATTERN_CHARS} characters")));
        }
        let mut pieces = Vec::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            pieces.push(match character {
                '*' => Piece::Any,
                '?' => Piece::One,
                '[' => {
                    let is_negated = rest.next_if(|next| matches!(next, '!' | '^')).is_some();
                    let mut ranges = Vec::new();
                    loop {
                        let start = rest.next().ok_or_else(|| refuse("has a [ without its ]"))?;
                        // A leading `]` is part of the set.
                        if start == ']' && !ranges.is_empty() {
                            break;
                        }
                        let mut ahead = rest.clone();
                        match (ahead.next(), ahead.next()) {
                            (Some('-'), Some(end)) if end != ']' => {
                                rest = ahead;
                                ranges.push((start, end));
                            }
                            _ => ranges.push((start, start)),
                        }
                    }
                    Piece::Set { ranges, is_negated }
                }
                other => Piece::Literal(other),
            });
        }
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// A pattern that matches exactly one name.
    pub(crate) fn literal(name: &str) -> Self {
        Self { text: name.to_owned(), pieces: name.chars().map(Piece::Literal).collect() }
    }

    /// The pattern as given.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The only name that matches, if the pattern has no wildcards.
    pub(crate) fn only_name(&self) -> Option<&str> {
        let is_exact = self.pieces.iter().all(|piece| matches!(piece, Piece::Literal(_)));
        is_exact.then_some(self.text.as_str())
    }

    /// Whether the whole name matches, in time proportional to the product of both lengths.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut piece, mut at) = (0, 0);
        // Position of the last `*`, and the characters it has consumed.
        let mut star: Option<(usize, usize)> = None;
        while at < name.len() {
            match self.pieces.get(piece) {
                Some(Piece::Any) => {
                    star = Some((piece, at));
                    piece += 1;
                }
                Some(other) if other.matches_char(name[at]) => {
                    piece += 1;
                    at += 1;
                }
                _ => match star {
                    Some((place, taken)) => {
                        star = Some((place, taken + 1));
                        (piece, at) = (place + 1, taken + 1);
                    }
                    None => return false,
                },
            }
        }
        self.pieces[piece..].iter().all(|piece| *piece == Piece::Any)
    }
}

impl Piece {
    fn matches_char(&self, character: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Literal(literal) => *literal == character,
            Self::Set { ranges, is_negated } => {
                ranges.iter().any(|&(start, end)| (start..=end).contains(&character)) != *is_negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        let cases = [
            ("*", "", true),
            ("*", "model.norm.weight", true),
            ("model.*.weight", "model.layers.0.mlp.weight", true),
            ("model.*.weight", "model.layers.0.mlp.bias", false),
            ("*.layers.[0-3].*", "model.layers.3.x", true),
            ("*.layers.[0-3].*", "model.layers.4.x", false),
            ("*.layers.[!0-3].*", "model.layers.4.x", true),
            ("layers.?.w", "layers.1.w", true),
            ("layers.?.w", "layers.10.w", false),
            ("a[]]b", "a]b", true),
            ("a[-x]b", "a-b", true),
            ("größe*", "größe.1", true),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("weight", "x.weight", false),
        ];
        for (pattern, name, wanted) in cases {
            assert_eq!(Glob::parse(pattern).unwrap().matches(name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in ["", "a[bc", "[", &"x".repeat(1001)] {
            assert!(Glob::parse(pattern).is_err(), "{pattern}");
        }
    }
}
