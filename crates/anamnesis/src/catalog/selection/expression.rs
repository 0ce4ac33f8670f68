//! Regular expressions of the caller: matched in linear time, with bounded compiled size.

use regex_lite::{Regex, RegexBuilder};

/// Maximum characters of an expression.
const MAX_CHARS: usize = 1000;
/// Maximum size of a compiled expression in bytes.
const MAX_COMPILED_BYTES: usize = 64 << 10;
/// Maximum nesting of groups.
const MAX_DEPTH: u32 = 32;

/// Compiles an expression; the error is a predicate such as `is too long`.
pub(crate) fn expression(text: &str, ignores_case: bool) -> Result<Regex, String> {
    if text.chars().nth(MAX_CHARS).is_some() {
        return Err("is too long".to_owned());
    }
    let mut builder = RegexBuilder::new(text);
    let builder = builder.size_limit(MAX_COMPILED_BYTES).nest_limit(MAX_DEPTH).case_insensitive(ignores_case);
    builder.build().map_err(|error| format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn invalid_and_large_expressions_are_refused() {
        let nested = format!("{}a{}", "(".repeat(400), ")".repeat(400));
        let long = "a".repeat(MAX_CHARS + 1);
        for text in ["(", "*a", "(?!a)b", r"(a)\1", "(a{1000}){1000}", &nested, &long] {
            assert!(expression(text, false).is_err(), "{text}");
        }
        assert!(expression(&long[1..], true).is_ok());
    }

    #[test]
    fn hostile_expressions_stay_fast() {
        let name = "a".repeat(10_000);
        let start = Instant::now();
        for text in ["(a*)*(a*)*(a*)*b", "(a|aa)+$b", "a.*a.*a.*a.*b", "(a?){40}b"] {
            assert!(!expression(text, true).unwrap().is_match(&name), "{text}");
        }
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
