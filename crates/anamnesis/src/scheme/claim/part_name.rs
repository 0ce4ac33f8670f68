//! The names that schemes give to the stored parts of a weight, so that a part whose weight is missing is recognised by
//! its name.

/// The prefix of name components that may extend a scheme's name of a part, such as `weight_scale_inv_2`.
const WEIGHT_PREFIX: &str = "weight_";

/// How surely a tensor of some name is a part of a quantised weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Confidence {
    /// Unquantised models use the name too: another part of the same weight must be present.
    Weak,
    /// A part, if its type is one that packed values are stored in.
    IfPacked,
    /// A part, if the checkpoint has a quantised weight.
    IfQuantised,
    /// A part, if the configuration or a claimed weight shows that the checkpoint is quantised.
    IfConfigured,
    /// A part: no unquantised model uses the name.
    Certain,
}

/// The suffix of a part's name, and the suffix that the weight's codes have in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartName {
    pub suffix: &'static str,
    pub codes: &'static str,
    pub confidence: Confidence,
    ending: Ending,
}

/// The last eight bytes of a name in lower case, as a big-endian integer: enough to tell most names apart in one
/// comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scheme) struct Tail(u64);

/// The tail of a suffix without its dot, and the mask of the bytes of a name's tail that are compared with it.
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

/// Eight bytes with ASCII capitals in lower case. Per byte, the top bits of two sums tell whether it is at least `A`
/// and past `Z`.
const fn lower_case(bytes: u64) -> u64 {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    let low = bytes & (0x7f * EACH);
    let (from_a, past_z) = (low + (0x80 - b'A' as u64) * EACH, low + (0x7f - b'Z' as u64) * EACH);
    let capitals = from_a & !past_z & !bytes & (0x80 * EACH);
    bytes | capitals >> 2
}

impl Ending {
    pub(in crate::scheme) const fn of(suffix: &str) -> Self {
        let word = match suffix.as_bytes() {
            [b'.', word @ ..] | word => word,
        };
        let mask = if word.len() < 8 { (1 << (8 * word.len())) - 1 } else { u64::MAX };
        Self { tail: Tail::of(word), mask }
    }

    /// Whether a name with this tail may have the suffix. `false` is certain.
    pub(in crate::scheme) const fn may_match(self, name: Tail) -> bool {
        name.0 & self.mask == self.tail.0
    }
}

impl PartName {
    pub(crate) const fn new(suffix: &'static str, codes: &'static str, confidence: Confidence) -> Self {
        Self { suffix, codes, confidence, ending: Ending::of(suffix) }
    }

    /// Whether a name with this tail may have the part's suffix. `false` is certain.
    pub(in crate::scheme) const fn may_match(&self, name: Tail) -> bool {
        self.ending.may_match(name)
    }

    /// Whether `name` has a component that may be an [extended](Self::base_of_extended) name of a part.
    pub(in crate::scheme) fn has_weight_prefix(name: &str) -> bool {
        name.match_indices('_').any(|(at, _)| name[..=at].ends_with(WEIGHT_PREFIX))
    }

    /// `name` without the suffix, compared regardless of case. The dot of a suffix that no unquantised model uses may
    /// be missing.
    pub(in crate::scheme) fn base<'n>(&self, name: &'n str) -> Option<&'n str> {
        let start = name.len().checked_sub(self.suffix.len());
        let strip = || {
            let (base, tail) = name.split_at_checked(start?)?;
            tail.eq_ignore_ascii_case(self.suffix).then_some(base)
        };
        let bare = || {
            let word = self.suffix.strip_prefix('.')?;
            if name == word {
                return Some("");
            }
            let base = name.strip_suffix(Some(word).filter(|word| !word.starts_with('_'))?)?;
            match self.confidence {
                Confidence::Certain => Some(base),
                Confidence::IfQuantised | Confidence::IfConfigured => Some(base).filter(|base| !base.ends_with('_')),
                Confidence::Weak | Confidence::IfPacked => None,
            }
        };
        strip().or_else(bare)
    }

    /// The suffix without its dot or underscore.
    pub(in crate::scheme) fn word(&self) -> &'static str {
        self.suffix.trim_start_matches(['.', '_'])
    }

    /// The first component of the suffix, such as `meta` of `.meta.scale`.
    pub(in crate::scheme) fn first_component(&self) -> Option<&'static str> {
        self.suffix.strip_prefix('.')?.split('.').next()
    }

    /// `name` up to the first component that begins with the part's word, if that word is `Certain` and begins with
    /// `weight_`.
    pub(in crate::scheme) fn base_of_extended<'n>(&self, name: &'n str) -> Option<&'n str> {
        if self.confidence != Confidence::Certain || !self.suffix.trim_start_matches('.').starts_with(WEIGHT_PREFIX) {
            return None;
        }
        let starts = std::iter::once(0).chain(name.match_indices('.').map(|(dot, _)| dot + 1));
        let mut beginning = starts.filter(|&start| name[start..].starts_with(self.word()));
        beginning.next().map(|start| name[..start].trim_end_matches('.'))
    }

    /// The name of the codes of a weight whose part is called `name`.
    pub(in crate::scheme) fn codes_of(&self, name: &str) -> Option<String> {
        let base = self.base(name).or_else(|| self.base_of_extended(name))?;
        Some(format!("{base}{}", self.codes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_is_found_in_any_case_and_a_distinctive_one_without_its_dot() {
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
    fn no_name_with_the_suffix_of_a_part_is_passed_over() {
        let suffixes = [".scale", "_scale_inv", ".SCB", "._data", ".B", "", ".weight_packed", "é.qzeros"];
        let befores = ["", "a", "a.b", "a_", "A.é", "layers.0.down_proj", "weight"];
        for suffix in suffixes {
            for confidence in [Confidence::Weak, Confidence::IfQuantised, Confidence::Certain] {
                let part = PartName::new(suffix, ".weight", confidence);
                for before in befores {
                    for name in [format!("{before}{suffix}"), format!("{before}{}", part.word())] {
                        for name in [name.to_ascii_lowercase(), name.to_ascii_uppercase(), name] {
                            let may_match = part.may_match(Tail::of(name.as_bytes()));
                            assert!(may_match || part.base(&name).is_none(), "{name:?} ends in {suffix:?}");
                        }
                    }
                }
            }
        }
        assert!(!PartName::new(".qweight", "", Confidence::Certain).may_match(Tail::of(b"a.weight")));
    }
}
