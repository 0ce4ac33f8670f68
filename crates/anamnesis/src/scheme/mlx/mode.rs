//! The modes of MLX, and the mode of a weight: from the configuration, or from shapes that fit only one.

use crate::error::{AnamnesisError, Result};
use crate::quant_config::ModuleConfig;

/// The defaults of transformers' `metal`.
const METAL_BITS: i64 = 4;
const METAL_GROUP: i64 = 64;

/// The mode of a weight with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    pub kind: Kind,
    pub bits: u8,
    /// The group size.
    pub group: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Affine,
    Mxfp4,
    Mxfp8,
    Nvfp4,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Affine, Self::Mxfp4, Self::Mxfp8, Self::Nvfp4];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Affine => "affine",
            Self::Mxfp4 => "mxfp4",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
        }
    }

    /// The possible bits of codes in this mode, the default first.
    const fn bits(self) -> &'static [u8] {
        match self {
            Self::Affine => &[4, 1, 2, 3, 5, 6, 8],
            Self::Mxfp4 | Self::Nvfp4 => &[4],
            Self::Mxfp8 => &[8],
        }
    }

    /// The possible group sizes of this mode, the default first.
    pub(super) const fn groups(self) -> &'static [u64] {
        match self {
            Self::Affine => &[64, 32, 128],
            Self::Mxfp4 | Self::Mxfp8 => &[32],
            Self::Nvfp4 => &[16],
        }
    }
}

impl Mode {
    /// The mode of a module in the configuration. A rule for the module replaces the general arguments entirely:
    /// arguments that it omits have MLX's defaults, not the values of the other modules.
    pub(super) fn configured(module: &ModuleConfig<'_>) -> Result<Self> {
        let own = module.rule();
        let args = own.as_ref().unwrap_or_else(|| module.args());
        let place = || args.place().map_or_else(String::new, |place| format!("{place}: "));
        if own.is_some() && args.place_of(&["bits", "group_size", "mode"]).is_none() {
            let text = format!("{}the rule has none of bits, group_size and mode", place());
            return Err(AnamnesisError::parse(text));
        }
        let kind = match args.text(&["mode"])? {
            None => Kind::Affine,
            Some(name) => Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
                let allowed = Kind::ALL.map(Kind::name).join(", ");
                AnamnesisError::parse(format!("{}the mode is {name:?}; {allowed} are read", place()))
            })?,
        };
        let choose = |key: &'static str, allowed: Vec<i64>| match args.integer(&[key])? {
            None => Ok(allowed.first().copied().unwrap_or(0)),
            Some(found) if allowed.contains(&found.value) => Ok(found.value),
            Some(found) => {
                let (value, mode) = (found.value, kind.name());
                Err(AnamnesisError::parse(format!(
                    "{}{key} is {value}; the mode {mode} has one of {allowed:?}",
                    place()
                )))
            }
        };
        let bits = choose("bits", kind.bits().iter().map(|&bits| bits.into()).collect())?;
        let group = choose("group_size", kind.groups().iter().map(|&group| group as i64).collect())?;
        Ok(Self { kind, bits: bits as u8, group: group as u64 })
    }

    /// The mode in a configuration of transformers' `metal`: affine with 2, 4 or 8 bits and groups of any size.
    pub(super) fn configured_by_metal(module: &ModuleConfig<'_>) -> Result<Self> {
        let args = module.args();
        let [bits, group] = [("bits", METAL_BITS), ("group_size", METAL_GROUP)]
            .map(|(key, default)| args.needed_integer(&[key]).map(|found| found.map_or(default, |found| found.value)));
        let (bits, group) = (bits?, group?);
        match (u8::try_from(bits), u64::try_from(group)) {
            (Ok(bits @ (2 | 4 | 8)), Ok(group)) if group > 0 && group.is_multiple_of(u64::from(32 / bits)) => {
                Ok(Self { kind: Kind::Affine, bits, group })
            }
            _ => {
                let place = args.place().map_or_else(String::new, |place| format!("{place}: "));
                let what = format!("{place}{bits} bits in groups of {group}; 2, 4 or 8 bits are read, in whole words");
                Err(AnamnesisError::parse(what))
            }
        }
    }

    /// The modes in which `words` words hold the codes of `groups` groups.
    pub(super) fn fitting(is_float: bool, words: u64, groups: u64) -> Vec<Self> {
        let kinds = Kind::ALL.into_iter().filter(|kind| (*kind != Kind::Affine) == is_float);
        let all = kinds.flat_map(|kind| {
            let with = move |&bits: &u8| kind.groups().iter().map(move |&group| Self { kind, bits, group });
            kind.bits().iter().flat_map(with)
        });
        all.filter(|mode| mode.fits(words, groups)).collect()
    }

    /// Whether `words` words hold the codes of `groups` groups.
    pub(super) fn fits(self, words: u64, groups: u64) -> bool {
        groups.checked_mul(self.group * u64::from(self.bits)) == words.checked_mul(32)
    }

    /// A human-readable description: `affine, 4-bit, groups of 64`.
    pub(super) fn describe(self) -> String {
        match self.kind {
            Kind::Affine => format!("affine, {}-bit, groups of {}", self.bits, self.group),
            kind => format!("{}, groups of {}", kind.name(), self.group),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_determine_the_float_modes_and_five_bits() {
        for (words, groups, kind) in [(4, 1, Kind::Mxfp4), (16, 2, Kind::Mxfp8), (6, 3, Kind::Nvfp4)] {
            let found = Mode::fitting(true, words, groups);
            assert_eq!(
                found.iter().map(|mode| mode.kind).collect::<Vec<_>>(),
                [kind],
                "{words} words, {groups} groups"
            );
        }
        assert_eq!(Mode::fitting(false, 10, 1), [Mode { kind: Kind::Affine, bits: 5, group: 64 }]);
        // 2 bits in groups of 128, 4 in groups of 64, 8 in groups of 32.
        assert_eq!(Mode::fitting(false, 8, 1).len(), 3);
        assert!(Mode::fitting(true, 5, 1).is_empty());
        assert!(Mode::fitting(false, u64::MAX, 1).is_empty());
    }
}
