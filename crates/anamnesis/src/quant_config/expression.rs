//! Regular expressions of configurations, compiled to DFAs that take one step per byte of a name.
//!
//! Configurations are untrusted, and their expressions are matched against every module, so their cost is bounded when
//! they are parsed: an automaton beyond the size limit is refused, and no input makes an accepted one slower.
//!
//! Classes (`\w`, `\d`) are ASCII only, since module names are Python identifiers.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

/// Largest automaton, in bytes; published models need a few thousand.
pub(super) const MAX_AUTOMATON_BYTES: usize = 128 << 10;
/// Memory for determinisation, in bytes.
const MAX_BUILDING_BYTES: usize = 512 << 10;
/// Largest NFA, in bytes.
const MAX_COMPILED_BYTES: usize = 256 << 10;
/// Deepest nesting.
const MAX_DEPTH: u32 = 32;

/// The byte that replaces a non-ASCII character: only `.` and negated classes match it.
const OTHER: u8 = 0xff;

/// A compiled expression.
#[derive(Clone)]
pub(super) struct Expression {
    automaton: dense::DFA<Vec<u32>>,
    anchored: Anchored,
}

impl Expression {
    /// An expression anchored at the start of a name and followed by `boundary`. The error explains why it is invalid.
    pub(super) fn from_start(expression: &str, boundary: &str) -> Result<Self, String> {
        // Parsed alone first: `a)(b` is invalid, but would be valid inside the added parentheses.
        syntax::parse_with(expression, &syntax()).map_err(|error| error.to_string())?;
        Self::build(&format!("(?:{expression}){boundary}"), Anchored::Yes)
    }

    /// An expression that matches anywhere in a name.
    pub(super) fn anywhere(expression: &str) -> Result<Self, String> {
        Self::build(expression, Anchored::No)
    }

    /// A wildcard pattern for whole names: `*` matches any characters, `?` one.
    pub(super) fn wildcard(pattern: &str) -> Result<Self, String> {
        let mut expression = String::from("(?s)");
        for c in pattern.chars() {
            match c {
                '*' => expression.push_str(".*"),
                '?' => expression.push('.'),
                c if c.is_ascii_alphanumeric() || c == '_' => expression.push(c),
                c if c.is_ascii() => expression.push_str(&format!("\\x{:02x}", u32::from(c))),
                _ => return Err("it has a non-ASCII character".to_owned()),
            }
        }
        Self::build(&format!("(?:{expression})$"), Anchored::Yes)
    }

    fn build(expression: &str, anchored: Anchored) -> Result<Self, String> {
        syntax::parse_with(expression, &syntax()).map_err(|error| error.to_string())?;
        let is_anchored = anchored == Anchored::Yes;
        let built = dense::Builder::new()
            .syntax(syntax())
            .thompson(
                thompson::Config::new()
                    .utf8(false)
                    .nfa_size_limit(Some(MAX_COMPILED_BYTES))
                    .which_captures(WhichCaptures::None),
            )
            .configure(
                dense::Config::new()
                    .start_kind(if is_anchored { StartKind::Anchored } else { StartKind::Unanchored })
                    .accelerate(false)
                    .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
                    .determinize_size_limit(Some(MAX_BUILDING_BYTES)),
            )
            .build(expression);
        // The syntax is valid, so only the size can fail.
        let automaton = built.map_err(|_| "it is too complex to be expressions on every module".to_owned())?;
        Ok(Self { automaton, anchored })
    }

    /// Whether it matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        if text.is_ascii() {
            return self.is_match_of_bytes(text.as_bytes());
        }
        let bytes: Vec<u8> = text.chars().map(|c| u8::try_from(c).ok().filter(u8::is_ascii).unwrap_or(OTHER)).collect();
        self.is_match_of_bytes(&bytes)
    }

    fn is_match_of_bytes(&self, text: &[u8]) -> bool {
        let input = Input::new(text).anchored(self.anchored).earliest(true);
        matches!(self.automaton.try_search_fwd(&input), Ok(Some(_)))
    }

    /// Bytes of its automaton.
    pub(super) fn bytes(&self) -> usize {
        self.automaton.memory_usage()
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an expression of {} bytes", self.bytes())
    }
}

fn syntax() -> syntax::Config {
    syntax::Config::new().nest_limit(MAX_DEPTH).unicode(false).utf8(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_like_python() {
        let matches = |expression: &str, text: &str| Expression::from_start(expression, "").unwrap().is_match(text);
        assert!(matches(r".*mlp\.gate$", "model.layers.3.mlp.gate") && !matches(r".*mlp\.gate$", "mlp.gate_proj"));
        assert!(matches(r"a.c", "aüc") && matches(r"\w+\.\d", "mlp_2.7") && !matches(r"\d", "x1"));
        assert!(matches(r".*\bgate\b", "mlp.gate.x") && !matches(r".*\bgate\b", "mlp.gates"));
        assert!(matches("(?i)LM_Head", "lm_head") && !matches("LM_Head", "lm_head"));
        assert!(!matches("a..c", "aüc") && matches("a[^b]c", "aüc") && !matches(r"\w", "ü"));
        assert!(matches("", "anything") && matches("^a$|b", "bc") && !matches("^a$|b", "ab"));
        assert!(Expression::anywhere("gate$").unwrap().is_match("mlp.gate"));
    }

    #[test]
    fn unsupported_expressions_are_errors_with_a_reason() {
        let refused = |expression: &str| Expression::from_start(expression, "").unwrap_err();
        for expression in ["(", "a)(b", "*a", "(?!a)", r"(a)\1", "[z-a]"] {
            assert!(!refused(expression).is_empty(), "{expression}");
        }
        // A million states, for the positions of an `a` among the last twenty letters.
        for expression in [".*a.{20}b", "(?:a{1000}){1000}", "((a{100}){100}){100}", r"(\w{900}|x){9}"] {
            assert!(refused(expression).contains("too complex"), "{expression}: {}", refused(expression));
        }
    }

    #[test]
    fn wildcards_match_whole_names() {
        let matches = |pattern: &str, text: &str| Expression::wildcard(pattern).unwrap().is_match(text);
        assert!(matches("a?c*", "a.cd\n") && matches("*a*", "bab") && matches("[a]+", "[a]+") && matches("?", "ü"));
        assert!(!matches("a?c", "ac") && !matches("a*", "ba") && !matches("[a]", "a") && !matches("a", "a\n"));
    }
}
