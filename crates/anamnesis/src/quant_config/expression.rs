//! Regular expressions of configurations, compiled to automata that take one step for each byte of a name.
//!
//! A configuration comes from elsewhere, and its expressions are tried on every module: their cost is decided when they are
//! read. An automaton that would grow past its bound is refused, and no text makes an accepted one slower.
//!
//! Classes (`\w`, `\d`) are those of ASCII, as names of modules are Python's identifiers.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

/// Largest automaton, in bytes; those of models take a few thousand.
pub(super) const MAX_AUTOMATON_BYTES: usize = 128 << 10;
/// Memory to build one with, in bytes.
const MAX_BUILDING_BYTES: usize = 512 << 10;
/// Largest compiled form that it is built from, in bytes.
const MAX_COMPILED_BYTES: usize = 256 << 10;
/// Deepest nesting.
const MAX_DEPTH: u32 = 32;

/// What a character outside of ASCII is matched as: `.` and the opposites of classes mean it, nothing else does.
const OTHER: u8 = 0xff;

/// A compiled expression.
#[derive(Clone)]
pub(super) struct Expression {
    automaton: dense::DFA<Vec<u32>>,
    anchored: Anchored,
}

impl Expression {
    /// An expression that matches from the start of a name, followed by `boundary`. The error says why it cannot be used.
    pub(super) fn from_start(expression: &str, boundary: &str) -> Result<Self, String> {
        // Alone first: `a)(b` is no expression, yet would be one between the parentheses added here.
        syntax::parse_with(expression, &syntax()).map_err(|error| error.to_string())?;
        Self::build(&format!("(?:{expression}){boundary}"), Anchored::Yes)
    }

    /// An expression that matches anywhere in a name.
    pub(super) fn anywhere(expression: &str) -> Result<Self, String> {
        Self::build(expression, Anchored::No)
    }

    /// A pattern for whole names, of which `*` is any run of characters and `?` one of them.
    pub(super) fn wildcard(pattern: &str) -> Result<Self, String> {
        let mut expression = String::from("(?s)");
        for c in pattern.chars() {
            match c {
                '*' => expression.push_str(".*"),
                '?' => expression.push('.'),
                c if c.is_ascii_alphanumeric() || c == '_' => expression.push(c),
                c if c.is_ascii() => expression.push_str(&format!("\\x{:02x}", u32::from(c))),
                _ => return Err("it has a character that no module has".to_owned()),
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
        // It can be read, so that its size is what stops it.
        let automaton = built.map_err(|_| "it is too complex to be tried on every module".to_owned())?;
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
    fn expressions_match_as_those_of_python_do() {
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
    fn expressions_that_cannot_be_run_say_why() {
        let refused = |expression: &str| Expression::from_start(expression, "").unwrap_err();
        for expression in ["(", "a)(b", "*a", "(?!a)", r"(a)\1", "[z-a]"] {
            assert!(!refused(expression).is_empty(), "{expression}");
        }
        // A million states: which of the last twenty letters were an a.
        for expression in [".*a.{20}b", "(?:a{1000}){1000}", "((a{100}){100}){100}", r"(\w{900}|x){9}"] {
            assert!(refused(expression).contains("too complex"), "{expression}: {}", refused(expression));
        }
    }

    #[test]
    fn wildcards_stand_for_whole_names() {
        let matches = |pattern: &str, text: &str| Expression::wildcard(pattern).unwrap().is_match(text);
        assert!(matches("a?c*", "a.cd\n") && matches("*a*", "bab") && matches("[a]+", "[a]+") && matches("?", "ü"));
        assert!(!matches("a?c", "ac") && !matches("a*", "ba") && !matches("[a]", "a") && !matches("a", "a\n"));
    }
}
