//! The names that schemes give to the stored parts of a weight, so that a part is known by its name where it is alone.

/// How words begin that may be longer than a scheme calls its parts.
const LONGER: &str = "weight_";

/// What a name says by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Says {
    /// Little: models call data of their own so. Another part of the same weight must be there.
    Little,
    /// That it is a part, where its type is one of packed values.
    Typed,
    /// That it belongs to a quantised weight, where the checkpoint has one.
    Something,
    /// That it is a part, where anything says that the checkpoint is quantised.
    Enough,
    /// That it is a part: nothing else is called so.
    All,
}

/// How the name of a part ends, and how that of the codes ends instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartName {
    pub end: &'static str,
    pub codes: &'static str,
    pub says: Says,
}

impl PartName {
    pub(crate) const fn new(end: &'static str, codes: &'static str, says: Says) -> Self {
        Self { end, codes, says }
    }

    /// Whether `name` may be that of a part at all, by its last byte; most are not.
    pub(super) fn may_be(&self, name: &str, has_longer: bool) -> bool {
        let last = |text: &str| text.as_bytes().last().map(u8::to_ascii_lowercase);
        has_longer || last(name) == last(self.end)
    }

    /// Whether `name` has a component that may be a [longer](Self::base_of_longer) name of a part.
    pub(super) fn has_longer(name: &str) -> bool {
        name.contains(LONGER)
    }

    /// What precedes the end in `name`, whatever the case of its letters; the dot in front of an end that says something may
    /// be missing.
    pub(super) fn base<'n>(&self, name: &'n str) -> Option<&'n str> {
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
                Says::All => Some(base),
                Says::Something | Says::Enough => Some(base).filter(|base| !base.ends_with('_')),
                Says::Little | Says::Typed => None,
            }
        };
        strip().or_else(bare)
    }

    /// The word that the name ends in.
    pub(super) fn word(&self) -> &'static str {
        self.end.trim_start_matches(['.', '_'])
    }

    /// What precedes the first component of `name` that begins with a word of this part that says all, whatever follows.
    pub(super) fn base_of_longer<'n>(&self, name: &'n str) -> Option<&'n str> {
        if self.says != Says::All || !self.end.trim_start_matches('.').starts_with(LONGER) {
            return None;
        }
        let starts = std::iter::once(0).chain(name.match_indices('.').map(|(dot, _)| dot + 1));
        let mut beginning = starts.filter(|&start| name[start..].starts_with(self.word()));
        beginning.next().map(|start| name[..start].trim_end_matches('.'))
    }

    /// The name of the codes of a weight whose part is called `name`.
    pub(super) fn codes_of(&self, name: &str) -> Option<String> {
        let base = self.base(name).or_else(|| self.base_of_longer(name))?;
        Some(format!("{base}{}", self.codes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_found_in_any_case_and_one_that_says_something_without_its_dot() {
        let zeros = PartName::new(".qzeros", ".qweight", Says::All);
        for name in ["a.b.qzeros", "a.b.QZEROS", "a.b.Qzeros"] {
            assert_eq!(zeros.codes_of(name).as_deref(), Some("a.b.qweight"), "{name}");
        }
        assert_eq!(zeros.base("a.bqzeros"), Some("a.b"));
        assert_eq!(zeros.base("qzeros"), Some(""));
        let data = PartName::new("._data", "", Says::Little);
        assert_eq!((data.base("_data"), data.base("a_data")), (Some(""), None));
        assert_eq!(zeros.base("a.qzeros.x"), None);
        let scales = PartName::new(".scales", ".qweight", Says::Enough);
        assert_eq!((scales.base("a.scales"), scales.base("ascales"), scales.base("é")), (Some("a"), Some("a"), None));
        assert_eq!(scales.base("time_scales"), None);
        let scale = PartName::new(".scale", ".weight", Says::Typed);
        assert_eq!((scale.base("a.scale"), scale.base("ascale")), (Some("a"), None));
    }
}
