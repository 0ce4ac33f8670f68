//! A parser of the regular expressions in tokenizers: alternatives, classes, repetitions, look-ahead and look-behind.

use std::iter::Peekable;
use std::str::Chars;

use super::category::Class;

/// Longest expression, in characters.
const MAX_CHARS: usize = 8192;
/// Nesting of groups.
const MAX_DEPTH: usize = 32;
/// Largest repetition count.
const MAX_TIMES: u32 = 1000;

/// A part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    One(Set),
    Start,
    End,
    Sequence(Vec<Node>),
    Either(Vec<Node>),
    Repeat {
        node: Box<Node>,
        least: u32,
        most: u32,
        how: How,
    },
    /// An atomic group.
    Atomic(Box<Node>),
    Look {
        node: Box<Node>,
        ahead: bool,
        found: bool,
    },
}

/// Greedy, lazy or possessive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Greedy,
    Lazy,
    Possessive,
}

/// A set of characters.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Set {
    pub(super) negated: bool,
    /// Case-insensitive.
    pub(super) folded: bool,
    pub(super) items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Range(char, char),
    Class { class: Class, negated: bool },
    Set(Set),
}

impl Set {
    fn one(character: char, folded: bool) -> Self {
        Self { negated: false, folded, items: vec![Item::Range(character, character)] }
    }

    /// Whether a character matches; `None` for characters without data.
    pub(super) fn has(&self, character: char) -> Option<bool> {
        let mut found = self.has_exactly(character)?;
        if self.folded && !found {
            for other in character.to_lowercase().chain(character.to_uppercase()) {
                found |= self.has_exactly(other)?;
            }
        }
        Some(found != self.negated)
    }

    fn has_exactly(&self, character: char) -> Option<bool> {
        for item in &self.items {
            let found = match item {
                Item::Range(first, last) => (*first..=*last).contains(&character),
                Item::Class { class, negated } => class.has(character)? != *negated,
                Item::Set(set) => set.has(character)?,
            };
            if found {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// Parses an expression; `None` if it has unsupported syntax.
pub(super) fn parse(text: &str) -> Option<Node> {
    if text.chars().count() > MAX_CHARS {
        return None;
    }
    let mut parser = Parser { rest: text.chars().peekable(), folded: false, depth: 0 };
    let node = parser.either()?;
    parser.rest.next().is_none().then_some(node)
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    folded: bool,
    depth: usize,
}

impl Parser<'_> {
    fn takes(&mut self, character: char) -> bool {
        self.rest.next_if_eq(&character).is_some()
    }

    fn either(&mut self) -> Option<Node> {
        let mut choices = vec![self.sequence()?];
        while self.takes('|') {
            choices.push(self.sequence()?);
        }
        Some(match choices.len() {
            1 => choices.pop()?,
            _ => Node::Either(choices),
        })
    }

    fn sequence(&mut self) -> Option<Node> {
        let mut nodes = Vec::new();
        while self.rest.peek().is_some_and(|next| !matches!(next, '|' | ')')) {
            let node = self.one()?;
            nodes.push(self.repeated(node)?);
        }
        Some(Node::Sequence(nodes))
    }

    fn one(&mut self) -> Option<Node> {
        match self.rest.next()? {
            '(' => self.group(),
            '[' => Some(Node::One(self.set()?)),
            '^' => Some(Node::Start),
            '$' => Some(Node::End),
            '.' => Some(Node::One(Set {
                items: vec![Item::Class { class: Class::Any, negated: false }],
                ..Set::default()
            })),
            '\\' => Some(Node::One(Set { items: vec![self.escape()?], folded: self.folded, negated: false })),
            '*' | '+' | '?' | '{' => None,
            character => Some(Node::One(Set::one(character, self.folded))),
        }
    }

    fn repeated(&mut self, node: Node) -> Option<Node> {
        let (least, most) = match self.rest.peek() {
            Some('*') => (0, u32::MAX),
            Some('+') => (1, u32::MAX),
            Some('?') => (0, 1),
            Some('{') => return self.counted(node),
            _ => return Some(node),
        };
        self.rest.next();
        self.how(node, least, most)
    }

    fn counted(&mut self, node: Node) -> Option<Node> {
        self.rest.next();
        let least = self.number()?;
        let most = match self.takes(',') {
            false => least?,
            true => self.number()?.unwrap_or(u32::MAX),
        };
        self.takes('}').then_some(())?;
        self.how(node, least.unwrap_or(0), most)
    }

    /// A number; `None` inside if there are no digits.
    fn number(&mut self) -> Option<Option<u32>> {
        let mut number = None;
        while let Some(digit) = self.rest.peek().and_then(|next| next.to_digit(10)) {
            self.rest.next();
            number = Some(number.unwrap_or(0) * 10 + digit);
            number.filter(|number| *number <= MAX_TIMES)?;
        }
        Some(number)
    }

    fn how(&mut self, node: Node, least: u32, most: u32) -> Option<Node> {
        let how = match self.rest.peek() {
            Some('+') => How::Possessive,
            Some('?') => How::Lazy,
            Some('*') => return None,
            _ => How::Greedy,
        };
        if how != How::Greedy {
            self.rest.next();
        }
        Some(Node::Repeat { node: Box::new(node), least, most, how })
    }

    fn group(&mut self) -> Option<Node> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())?;
        let folded = self.folded;
        let mut kind = None;
        if self.takes('?') {
            kind = Some(match self.rest.next()? {
                ':' => ':',
                '>' => '>',
                '=' => '=',
                '!' => '!',
                '<' if self.takes('=') => 'b',
                '<' if self.takes('!') => 'n',
                'i' => {
                    self.folded = true;
                    match self.rest.next()? {
                        ':' => ':',
                        // Flags apply to the rest of the enclosing group.
                        ')' => {
                            self.depth -= 1;
                            return Some(Node::Sequence(Vec::new()));
                        }
                        _ => return None,
                    }
                }
                _ => return None,
            });
        }
        let node = Box::new(self.either()?);
        self.takes(')').then_some(())?;
        self.folded = folded;
        self.depth -= 1;
        Some(match kind {
            Some('>') => Node::Atomic(node),
            Some('=') => Node::Look { node, ahead: true, found: true },
            Some('!') => Node::Look { node, ahead: true, found: false },
            Some('b') => Node::Look { node, ahead: false, found: true },
            Some('n') => Node::Look { node, ahead: false, found: false },
            _ => *node,
        })
    }

    /// Parses a set after its opening bracket.
    fn set(&mut self) -> Option<Set> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())?;
        let mut set = Set { negated: self.takes('^'), folded: self.folded, items: Vec::new() };
        loop {
            let item = match self.rest.next()? {
                ']' if !set.items.is_empty() => break,
                '[' if self.rest.peek() == Some(&':') => return None,
                '[' => Item::Set(self.set()?),
                '&' if self.rest.peek() == Some(&'&') => return None,
                '\\' => self.escape()?,
                character => Item::Range(character, character),
            };
            set.items.push(self.ranged(item)?);
        }
        self.depth -= 1;
        Some(set)
    }

    /// Parses an item, or a range that begins with it.
    fn ranged(&mut self, item: Item) -> Option<Item> {
        let Item::Range(first, _) = item else { return Some(item) };
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || matches!(ahead.peek(), None | Some(']')) {
            return Some(item);
        }
        self.rest = ahead;
        let last = match self.rest.next()? {
            '\\' => self.escape()?,
            '[' => return None,
            character => Item::Range(character, character),
        };
        match last {
            Item::Range(last, _) if first <= last => Some(Item::Range(first, last)),
            _ => None,
        }
    }

    /// Parses the escape after a backslash.
    fn escape(&mut self) -> Option<Item> {
        let class = |class, negated| Some(Item::Class { class, negated });
        match self.rest.next()? {
            's' => class(Class::Space, false),
            'S' => class(Class::Space, true),
            'd' => class(Class::Digit, false),
            'D' => class(Class::Digit, true),
            'w' => class(Class::Word, false),
            'W' => class(Class::Word, true),
            'p' => self.property(false),
            'P' => self.property(true),
            'n' => Some(Item::Range('\n', '\n')),
            'r' => Some(Item::Range('\r', '\r')),
            't' => Some(Item::Range('\t', '\t')),
            'f' => Some(Item::Range('\u{c}', '\u{c}')),
            'v' => Some(Item::Range('\u{b}', '\u{b}')),
            'x' => self.code(2),
            'u' => self.code(4),
            character if character.is_ascii_alphanumeric() => None,
            character => Some(Item::Range(character, character)),
        }
    }

    fn property(&mut self, negated: bool) -> Option<Item> {
        let mut name = String::new();
        match self.rest.next()? {
            '{' => loop {
                match self.rest.next()? {
                    '}' => break,
                    character => name.push(character),
                }
            },
            letter => name.push(letter),
        }
        let (name, turned) = name.strip_prefix('^').map_or((name.as_str(), false), |name| (name, true));
        Some(Item::Class { class: Class::property(name)?, negated: negated != turned })
    }

    fn code(&mut self, digits: usize) -> Option<Item> {
        let mut text = String::new();
        if self.takes('{') {
            while !self.takes('}') {
                text.push(self.rest.next()?);
            }
        } else {
            for _ in 0..digits {
                text.push(self.rest.next()?);
            }
        }
        let character = char::from_u32(u32::from_str_radix(&text, 16).ok()?)?;
        Some(Item::Range(character, character))
    }
}
