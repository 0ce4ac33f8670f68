//! The names that schemes give to the stored parts of a weight, so that a part is known by its name where it is alone.

/// How words begin that may be longer than a scheme calls its parts.
const LONGER: &str = "weight_";

/// How surely a name is that of a part of a quantised weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Confidence {
    /// Models use the name for data of their own: another part of the same weight must be there.
    Weak,
    /// A part, if its type is one of packed values.
    IfPacked,
    /// A part, if the checkpoint has a quantised weight.
    IfQuantised,
    /// A part, if anything says that the checkpoint is quantised.
    IfConfigured,
    /// A part: nothing else is called so.
    Certain,
}

/// How the name of a part ends, and how that of the codes ends instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartName {
    pub end: &'static str,
    pub codes: &'static str,
    pub says: Confidence,
    ending: Ending,
}

/// The last eight bytes of a name in lower case, the last of them lowest: most names are told apart by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scheme) struct Tail(u64);

/// The tail of a name's end without its dot, and which bytes of a whole name's tail are compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::scheme) struct Ending {
    tail: Tail,
    mask: u64,
}

impl Tail {
    pub(in crate::scheme) const fn of(name: &[u8]) -> Self {
        if let Some(last) = name.last_chunk() {
            return Self(lower_case(u64::from_be_bytes(*last)));
        }
        let (mut tail, mut at) = (0, 0);
        while at < name.len() {
            tail = tail << 8 | name[at] as u64;
            at += 1;
        }
        Self(lower_case(tail))
    }
}

/// Eight bytes with the capital letters of ASCII made small: of each byte, the top bit of a sum says on which side of a letter
/// it is.
const fn lower_case(bytes: u64) -> u64 {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    let low = bytes & (0x7f * EACH);
    let (from_a, past_z) = (low + (0x80 - b'A' as u64) * EACH, low + (0x7f - b'Z' as u64) * EACH);
    let capitals = from_a & !past_z & !bytes & (0x80 * EACH);
    bytes | capitals >> 2
}

impl Ending {
    pub(in crate::scheme) const fn of(end: &str) -> Self {
        let word = match end.as_bytes() {
            [b'.', word @ ..] | word => word,
        };
        let mask = if word.len() < 8 { (1 << (8 * word.len())) - 1 } else { u64::MAX };
        Self { tail: Tail::of(word), mask }
    }

    /// Whether a name with this tail may end so; most do not.
    pub(in crate::scheme) const fn may_end(self, name: Tail) -> bool {
        name.0 & self.mask == self.tail.0
    }
}

impl PartName {
    pub(crate) const fn new(end: &'static str, codes: &'static str, says: Confidence) -> Self {
        Self { end, codes, says, ending: Ending::of(end) }
    }

    /// Whether a name with this tail may end as the part's does.
    pub(in crate::scheme) const fn may_end(&self, name: Tail) -> bool {
        self.ending.may_end(name)
    }

    /// Whether `name` has a component that may be a [longer](Self::base_of_longer) name of a part.
    pub(in crate::scheme) fn has_longer(name: &str) -> bool {
        name.match_indices('_').any(|(at, _)| name[..=at].ends_with(LONGER))
    }

    /// What precedes the end in `name`, whatever the case of its letters; the dot in front of an end that says something may
    /// be missing.
    pub(in crate::scheme) fn base<'n>(&self, name: &'n str) -> Option<&'n str> {
        let start = name.len().checked_sub(self.end.len());
        let strip = || {
            let (base, tail) = name.split_at_checked(start?)?;
            tail.eq_ignore_ascii_case(self.end).then_some(base)
        };
        let bare = || {
            let word = self.end.strip_prefix('.')?;
            if name == word {
                return Some("");
            }
            let base = name.strip_suffix(Some(word).filter(|word| !word.starts_with('_'))?)?;
            match self.says {
                Confidence::Certain => Some(base),
                Confidence::IfQuantised | Confidence::IfConfigured => Some(base).filter(|base| !base.ends_with('_')),
                Confidence::Weak | Confidence::IfPacked => None,
            }
        };
        strip().or_else(bare)
    }

    /// The word that the name ends in.
    pub(in crate::scheme) fn word(&self) -> &'static str {
        self.end.trim_start_matches(['.', '_'])
    }

    /// What precedes the first component of `name` that begins with a word of this part that says all, whatever follows.
    pub(in crate::scheme) fn base_of_longer<'n>(&self, name: &'n str) -> Option<&'n str> {
        if self.says != Confidence::Certain || !self.end.trim_start_matches('.').starts_with(LONGER) {
            return None;
        }
        let starts = std::iter::once(0).chain(name.match_indices('.').map(|(dot, _)| dot + 1));
        let mut beginning = starts.filter(|&start| name[start..].starts_with(self.word()));
        beginning.next().map(|start| name[..start].trim_end_matches('.'))
    }

    /// The name of the codes of a weight whose part is called `name`.
    pub(in crate::scheme) fn codes_of(&self, name: &str) -> Option<String> {
        let base = self.base(name).or_else(|| self.base_of_longer(name))?;
        Some(format!("{base}{}", self.codes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_found_in_any_case_and_one_that_says_something_without_its_dot() {
        let zeros = PartName::new(".qzeros", ".qweight", Confidence::Certain);
        for name in ["a.b.qzeros", "a.b.QZEROS", "a.b.Qzeros"] {
            assert_eq!(zeros.codes_of(name).as_deref(), Some("a.b.qweight"), "{name}");
        }
        assert_eq!(zeros.base("a.bqzeros"), Some("a.b"));
        assert_eq!(zeros.base("qzeros"), Some(""));
        let data = PartName::new("._data", "", Confidence::Weak);
        assert_eq!((data.base("_data"), data.base("a_data")), (Some(""), None));
        assert_eq!(zeros.base("a.qzeros.x"), None);
        let scales = PartName::new(".scales", ".qweight", Confidence::IfConfigured);
        assert_eq!((scales.base("a.scales"), scales.base("ascales"), scales.base("é")), (Some("a"), Some("a"), None));
        assert_eq!(scales.base("time_scales"), None);
        let scale = PartName::new(".scale", ".weight", Confidence::IfPacked);
        assert_eq!((scale.base("a.scale"), scale.base("ascale")), (Some("a"), None));
    }

    #[test]
    fn tails_are_in_lower_case() {
        for byte in 0..=u8::MAX {
            let name = [b'A', byte, b'z', b'Z', b'@', b'[', 0xc1, byte, byte.wrapping_add(1)];
            for start in 0..name.len() {
                let lower = name[start..].to_ascii_lowercase();
                assert_eq!(Tail::of(&name[start..]), Tail::of(&lower), "{byte}");
                assert_eq!(Tail::of(&lower).0 & 0xff, u64::from(*lower.last().unwrap()), "{byte}");
            }
        }
    }

    #[test]
    fn no_name_that_ends_in_a_part_is_passed_over() {
        let ends = [".scale", "_scale_inv", ".SCB", "._data", ".B", "", ".weight_packed", "é.qzeros"];
        let befores = ["", "a", "a.b", "a_", "A.é", "layers.0.down_proj", "weight"];
        for end in ends {
            for says in [Confidence::Weak, Confidence::IfQuantised, Confidence::Certain] {
                let part = PartName::new(end, ".weight", says);
                for before in befores {
                    for name in [format!("{before}{end}"), format!("{before}{}", part.word())] {
                        for name in [name.to_ascii_lowercase(), name.to_ascii_uppercase(), name] {
                            let may_end = part.may_end(Tail::of(name.as_bytes()));
                            assert!(may_end || part.base(&name).is_none(), "{name:?} ends in {end:?}");
                        }
                    }
                }
            }
        }
        assert!(!PartName::new(".qweight", "", Confidence::Certain).may_end(Tail::of(b"a.weight")));
    }
}
