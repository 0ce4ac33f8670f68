//! `--limit NAME=VALUE`: what a file may ask for before it is refused.

use anamnesis::ParseLimits;

use crate::ui::size;

/// A limit by the name it has here, its name in errors, and how it is set. Sizes are written as such, other values as numbers.
struct Kind {
    name: &'static str,
    tag: &'static str,
    is_size: bool,
    set: fn(ParseLimits, u64) -> ParseLimits,
}

const KINDS: [Kind; 4] = [
    Kind { name: "memory", tag: "max_total_bytes", is_size: true, set: ParseLimits::with_max_total_bytes },
    Kind { name: "buffer", tag: "max_single_alloc_bytes", is_size: true, set: ParseLimits::with_max_single_alloc },
    Kind { name: "items", tag: "max_item_count", is_size: false, set: ParseLimits::with_max_item_count },
    Kind {
        name: "ratio",
        tag: "max_decompression_ratio",
        is_size: false,
        set: ParseLimits::with_max_decompression_ratio,
    },
];

/// Bytes that a file may make the program hold where nobody says: far more than the headers of any model take, and what a laptop
/// survives.
const DEFAULT_MEMORY: u64 = 2 << 30;

/// `--limit`, as often as wanted.
#[derive(Debug, clap::Args)]
pub(crate) struct LimitArgs {
    /// Refuse a file that asks for more than this: memory=SIZE altogether (2 GiB where
    /// nothing is said), buffer=SIZE at once, items=N of a kind, ratio=N for each
    /// compressed byte
    #[arg(long, value_name = "NAME=VALUE", help_heading = super::READING, value_parser = Limit::parse)]
    limit: Vec<Limit>,
}

impl LimitArgs {
    /// All of them together.
    pub(crate) fn all(&self) -> ParseLimits {
        Limit::all(&self.limit)
    }
}

/// One limit, as typed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    set: fn(ParseLimits, u64) -> ParseLimits,
    value: u64,
}

impl Limit {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let names = || KINDS.map(|kind| format!("{}=…", kind.name)).join(", ");
        let (name, value) = text.split_once('=').ok_or_else(|| format!("write {}", names()))?;
        let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| format!("there are {}", names()))?;
        let value = match kind.is_size {
            true => size::parse(value)?,
            false => value.parse().map_err(|_| format!("{name} is a whole number, like {name}=1000"))?,
        };
        Ok(Self { set: kind.set, value })
    }

    /// All of them together; of two of a kind the last counts.
    fn all(limits: &[Self]) -> ParseLimits {
        let unsaid = ParseLimits::unbounded().with_max_total_bytes(DEFAULT_MEMORY);
        limits.iter().fold(unsaid, |all, limit| (limit.set)(all, limit.value))
    }

    /// What the limit is called here that errors call `tag`; `None` where it is not the user's to set.
    pub(crate) fn name_of(tag: &str) -> Option<&'static str> {
        KINDS.iter().find(|kind| kind.tag == tag).map(|kind| kind.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_name() {
        let limits =
            ["memory=1GB", "buffer=64MiB", "items=10", "ratio=3", "items=20"].map(|text| Limit::parse(text).unwrap());
        let wanted = ParseLimits::unbounded().with_max_total_bytes(1_000_000_000).with_max_single_alloc(64 << 20);
        assert_eq!(Limit::all(&limits), wanted.with_max_item_count(20).with_max_decompression_ratio(3));
        assert_eq!(Limit::all(&[]).max_total_bytes(), DEFAULT_MEMORY);
        for text in ["", "memory", "memory=", "memory=many", "items=1k", "items=-1", "time=3", "=1"] {
            assert!(Limit::parse(text).is_err(), "{text}");
        }
    }
}
