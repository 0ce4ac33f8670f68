//! How scales and offsets come from values: each library has its own arithmetic, which its scheme writes down as a [`ScaleRule`].

use crate::scheme::coder::Identity;

/// The lowest and the highest of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Extremes {
    pub low: f32,
    pub high: f32,
}

impl Extremes {
    /// Of no values.
    pub(crate) const NONE: Self = Self { low: f32::INFINITY, high: f32::NEG_INFINITY };

    /// The largest magnitude.
    pub(crate) fn magnitude(self) -> f32 {
        self.low.abs().max(self.high.abs())
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// What a group is stored and encoded with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Group {
    /// The scale to store, which its type holds exactly.
    pub scale: f32,
    /// The offset to store.
    pub offset: f32,
    /// What values are divided or multiplied by.
    pub factor: f32,
    /// What is added to them, or taken from them.
    pub shift: f32,
}

impl Group {
    /// A group without an offset, encoded with the scale it is stored with.
    pub(crate) const fn of(scale: f32) -> Self {
        Self { scale, offset: 0.0, factor: scale, shift: 0.0 }
    }
}

/// The arithmetic by which a library finds the scales of a weight.
pub(crate) trait ScaleRule: Identity + Send + Sync {
    /// Whether the lowest and the highest value of a group are told apart; otherwise `low` is the largest magnitude's
    /// negative.
    fn is_sided(&self) -> bool {
        false
    }

    /// The scale of scales, where there is one, from the extremes of all values.
    fn whole(&self, all: Extremes) -> Option<f32> {
        let _ = all;
        None
    }

    /// Whether there is a scale of scales.
    fn has_whole(&self) -> bool {
        self.whole(Extremes { low: -1.0, high: 1.0 }).is_some()
    }

    /// The scale and the offset of a group; `whole` is 1 where there is no scale of scales.
    fn group(&self, extremes: Extremes, whole: f32) -> Group;

    /// [`group`](Self::group) of many, in place: extremes go in as `factors` and `shifts`, low and high. A rule that is asked
    /// for small groups writes its own loop, which then has no other rules in it.
    fn groups(&self, whole: f32, groups: &mut Groups<'_>) {
        groups.each(|extremes| self.group(extremes, whole));
    }
}

/// Groups as the kernels take them.
pub(crate) struct Groups<'a> {
    pub factors: &'a mut [f32],
    pub shifts: &'a mut [f32],
    pub scales: &'a mut [f32],
    pub offsets: &'a mut [f32],
}

impl Groups<'_> {
    /// Puts what a rule says of each group in the place of its extremes.
    #[inline(always)]
    pub(crate) fn each(&mut self, rule: impl Fn(Extremes) -> Group) {
        let Groups { factors, shifts, scales, offsets } = self;
        let places = factors.iter_mut().zip(shifts.iter_mut()).zip(scales.iter_mut().zip(offsets.iter_mut()));
        for ((factor, shift), (scale, offset)) in places {
            let group = rule(Extremes { low: *factor, high: *shift });
            (*factor, *shift, *scale, *offset) = (group.factor, group.shift, group.scale, group.offset);
        }
    }
}
