//! `--limit NAME=VALUE`: limits on the resources that parsing may use.

use anamnesis::ParseLimits;

use crate::ui::size;

/// A limit: its name, its name in errors, whether it is a size, and its setter.
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

/// Default memory limit: far more than the headers of any model need.
const DEFAULT_MEMORY: u64 = 2 << 30;

/// `--limit`, repeatable.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LimitArgs {
    /// Refuse a file that needs more than this: memory=SIZE in total [default: 2GiB], buffer=SIZE for one buffer,
    /// items=N of a kind, ratio=N per compressed byte
    #[arg(long, value_name = "NAME=VALUE", help_heading = super::READING, value_parser = Limit::parse)]
    limit: Vec<Limit>,
}

impl LimitArgs {
    /// The combined limits.
    pub(crate) fn all(&self) -> ParseLimits {
        Limit::all(&self.limit)
    }
}

/// A limit.
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

    /// The combined limits; the last one of a kind counts.
    fn all(limits: &[Self]) -> ParseLimits {
        let unsaid = ParseLimits::unbounded().with_max_total_bytes(DEFAULT_MEMORY);
        limits.iter().fold(unsaid, |all, limit| (limit.set)(all, limit.value))
    }

    /// The name of the limit that errors call `tag`; `None` for permanent caps.
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
