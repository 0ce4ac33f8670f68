//! A backtracking matcher.

use super::expression::{How, Node};

/// Most steps per text; expressions that need more are treated as unsupported.
const MAX_STEPS: u32 = 1 << 20;
/// Deepest recursion.
const MAX_DEPTH: u32 = 1500;

/// The character ranges of the matches, from left to right, without overlap.
pub(super) fn matches(node: &Node, text: &[char]) -> Option<Vec<(usize, usize)>> {
    let mut search = Search { text, steps: 0, depth: 0, is_lost: false };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        match search.go(node, at, &Next::Done) {
            Some(end) if end > at => {
                found.push((at, end));
                at = end;
            }
            _ => at += 1,
        }
        if search.is_lost {
            return None;
        }
    }
    Some(found)
}

/// The continuation after a node.
enum Next<'a> {
    Done,
    /// The position that a sub-match must reach.
    At(usize),
    Rest(&'a [Node], &'a Next<'a>),
    Again {
        repeat: Repeat<'a>,
        times: u32,
        from: usize,
        next: &'a Next<'a>,
    },
}

#[derive(Clone, Copy)]
struct Repeat<'a> {
    node: &'a Node,
    least: u32,
    most: u32,
    is_lazy: bool,
}

struct Search<'t> {
    text: &'t [char],
    steps: u32,
    depth: u32,
    /// Set by too many steps, or by a character without data.
    is_lost: bool,
}

impl Search<'_> {
    /// The end of a match of `node` and its continuation.
    fn go(&mut self, node: &Node, at: usize, next: &Next<'_>) -> Option<usize> {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.depth > MAX_DEPTH || self.is_lost {
            self.is_lost = true;
            return None;
        }
        self.depth += 1;
        let end = self.part(node, at, next);
        self.depth -= 1;
        end
    }

    fn part(&mut self, node: &Node, at: usize, next: &Next<'_>) -> Option<usize> {
        match node {
            Node::One(_) => match self.is_one(node, at) {
                true => self.follow(next, at + 1),
                false => None,
            },
            Node::Start => (at == 0).then(|| self.follow(next, at)).flatten(),
            Node::End => (at == self.text.len()).then(|| self.follow(next, at)).flatten(),
            Node::Sequence(nodes) => self.follow(&Next::Rest(nodes, next), at),
            Node::Either(choices) => choices.iter().find_map(|choice| self.go(choice, at, next)),
            Node::Atomic(node) => {
                let end = self.go(node, at, &Next::Done)?;
                self.follow(next, end)
            }
            Node::Look { node, ahead, found } => {
                let is_there = match ahead {
                    true => self.go(node, at, &Next::Done).is_some(),
                    false => (0..=at).any(|from| self.go(node, from, &Next::At(at)).is_some()),
                };
                (is_there == *found).then(|| self.follow(next, at)).flatten()
            }
            Node::Repeat { node, least, most, how } => match (&**node, how) {
                (Node::One(_), _) => self.run(node, (*least, *most), *how, at, next),
                (_, How::Possessive) => self.possessive(node, (*least, *most), at, next),
                _ => {
                    let repeat = Repeat { node, least: *least, most: *most, is_lazy: *how == How::Lazy };
                    self.again(repeat, 0, at, next)
                }
            },
        }
    }

    fn follow(&mut self, next: &Next<'_>, at: usize) -> Option<usize> {
        match next {
            Next::Done => Some(at),
            Next::At(place) => (*place == at).then_some(at),
            Next::Rest([], next) => self.follow(next, at),
            Next::Rest([first, rest @ ..], next) => self.go(first, at, &Next::Rest(rest, next)),
            // An empty repetition would loop forever.
            Next::Again { from, next, .. } if *from == at => self.follow(next, at),
            Next::Again { repeat, times, next, .. } => self.again(*repeat, *times, at, next),
        }
    }

    fn is_one(&mut self, node: &Node, at: usize) -> bool {
        let (Node::One(set), Some(&character)) = (node, self.text.get(at)) else { return false };
        set.has(character).unwrap_or_else(|| {
            self.is_lost = true;
            false
        })
    }

    /// Repetitions of a single character, which need no backtracking state each.
    fn run(&mut self, node: &Node, (least, most): (u32, u32), how: How, at: usize, next: &Next<'_>) -> Option<usize> {
        let mut times = 0;
        while times < most && self.is_one(node, at + times as usize) {
            times += 1;
        }
        if times < least || self.is_lost {
            return None;
        }
        match how {
            How::Possessive => self.follow(next, at + times as usize),
            How::Greedy => (least..=times).rev().find_map(|times| self.follow(next, at + times as usize)),
            How::Lazy => (least..=times).find_map(|times| self.follow(next, at + times as usize)),
        }
    }

    fn possessive(&mut self, node: &Node, (least, most): (u32, u32), mut at: usize, next: &Next<'_>) -> Option<usize> {
        let mut times = 0;
        while times < most {
            match self.go(node, at, &Next::Done) {
                Some(end) if end > at => at = end,
                _ => break,
            }
            times += 1;
        }
        (times >= least).then(|| self.follow(next, at)).flatten()
    }

    fn again(&mut self, repeat: Repeat<'_>, times: u32, at: usize, next: &Next<'_>) -> Option<usize> {
        let is_enough = times >= repeat.least;
        if repeat.is_lazy
            && is_enough
            && let Some(end) = self.follow(next, at)
        {
            return Some(end);
        }
        if times < repeat.most {
            let more = Next::Again { repeat, times: times + 1, from: at, next };
            if let Some(end) = self.go(repeat.node, at, &more) {
                return Some(end);
            }
        }
        if is_enough && !repeat.is_lazy { self.follow(next, at) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::expression::parse;
    use super::*;

    fn found(expression: &str, text: &str) -> Option<Vec<String>> {
        let text: Vec<char> = text.chars().collect();
        let ranges = matches(&parse(expression)?, &text)?;
        Some(ranges.into_iter().map(|(from, to)| text[from..to].iter().collect()).collect())
    }

    #[test]
    fn expressions_match_like_the_reference() {
        for (expression, text, wanted) in [
            (r"\p{N}{1,3}", "12345 6", &["123", "45", "6"][..]),
            (r"\s+(?!\S)|\s+|\S+", "a   b ", &["a", "  ", " ", "b", " "]),
            ("(?i:'s|'t)|.", "'S't'", &["'S", "'t", "'"]),
            (r"[^\r\n\p{L}\p{N}]?\p{L}+", "(ab) cd", &["(ab", " cd"]),
            ("(?:ab)+c|a", "ababca", &["ababc", "a"]),
            ("(?:ab)++b|a", "abab", &["a", "a"]),
            ("(?>a+)ab|b", "aab", &["b"]),
            ("a{2}|a", "aaa", &["aa", "a"]),
            ("(?<=x)a", "axa", &["a"]),
            ("(?<!x)a", "axa", &["a"]),
            (r"[\-\]a-c]+", "-b]d", &["-b]"]),
            (r"\s+$", " a  ", &["  "]),
            ("x*?y", "xxy", &["xxy"]),
        ] {
            assert_eq!(
                found(expression, text).as_deref(),
                Some(wanted.iter().map(|&s| s.to_owned()).collect::<Vec<_>>()).as_deref(),
                "{expression}"
            );
        }
    }

    #[test]
    fn unsupported_expressions_are_not_guessed() {
        for expression in
            [r"\p{Klingon}", "(?<name>a)", "[[:alpha:]]", "a**", "(", "[a", "a)", r"\b", "[a&&b]", "{2}", "a{5000}"]
        {
            assert_eq!(found(expression, "a"), None, "{expression}");
        }
        assert_eq!(found(r"\p{L}+", "\u{120}"), None);
        assert_eq!(found("(?:(?:a|a)+)+b", &"a".repeat(60)), None);
        assert_eq!(found(&"(".repeat(100_000), "a"), None);
    }
}
