//! The modes of MLX, and which of them a weight is in: by its configuration, or by shapes that leave no doubt.

use crate::error::{AnamnesisError, Result};
use crate::quant_config::ModuleConfig;

/// What transformers' `metal` takes where nobody says.
const METAL_BITS: i64 = 4;
const METAL_GROUP: i64 = 64;

/// How the codes of a weight are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    pub kind: Kind,
    pub bits: u8,
    /// Codes under one scale.
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

    /// The bits that codes of this mode may have, the usual ones first.
    const fn bits(self) -> &'static [u8] {
        match self {
            Self::Affine => &[4, 1, 2, 3, 5, 6, 8],
            Self::Mxfp4 | Self::Nvfp4 => &[4],
            Self::Mxfp8 => &[8],
        }
    }

    /// The sizes that groups of this mode may have, the usual one first.
    pub(super) const fn groups(self) -> &'static [u64] {
        match self {
            Self::Affine => &[64, 32, 128],
            Self::Mxfp4 | Self::Mxfp8 => &[32],
            Self::Nvfp4 => &[16],
        }
    }
}

impl Mode {
    /// What the configuration says about a module. A rule for the module is by itself: what it does not say is what MLX
    /// takes where nobody says anything, and not what is said of the others.
    pub(super) fn told(module: &ModuleConfig<'_>) -> Result<Self> {
        let own = module.rule();
        let args = own.as_ref().unwrap_or_else(|| module.args());
        let place = || args.place().map_or_else(String::new, |place| format!("{place}: "));
        if own.is_some() && args.place_of(&["bits", "group_size", "mode"]).is_none() {
            let text = format!("{}a rule that says neither bits nor group_size nor mode", place());
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
            Some(said) if allowed.contains(&said.value) => Ok(said.value),
            Some(said) => {
                let (value, mode) = (said.value, kind.name());
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

    /// What a configuration of transformers' `metal` says: affine, of 2, 4 or 8 bits, in groups of any size.
    pub(super) fn told_by_metal(module: &ModuleConfig<'_>) -> Result<Self> {
        let args = module.args();
        let [bits, group] = [("bits", METAL_BITS), ("group_size", METAL_GROUP)]
            .map(|(key, usual)| args.needed_integer(&[key]).map(|said| said.map_or(usual, |said| said.value)));
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

    /// The modes in which so many words hold the codes of so many scales.
    pub(super) fn fitting(is_float: bool, words: u64, groups: u64) -> Vec<Self> {
        let kinds = Kind::ALL.into_iter().filter(|kind| (*kind != Kind::Affine) == is_float);
        let all = kinds.flat_map(|kind| {
            let with = move |&bits: &u8| kind.groups().iter().map(move |&group| Self { kind, bits, group });
            kind.bits().iter().flat_map(with)
        });
        all.filter(|mode| mode.fits(words, groups)).collect()
    }

    /// Whether so many words hold the codes of so many scales.
    pub(super) fn fits(self, words: u64, groups: u64) -> bool {
        groups.checked_mul(self.group * u64::from(self.bits)) == words.checked_mul(32)
    }

    /// For people: `affine, 4-bit, groups of 64`.
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
    fn shapes_leave_no_doubt_about_floats_and_about_five_bits() {
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
