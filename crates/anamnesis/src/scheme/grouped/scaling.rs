//! Scale rules: how a library computes scales and offsets from values. Each scheme implements [`ScaleRule`] with its
//! library's arithmetic.

use crate::scheme::coder::Identity;

/// The lowest and the highest of a set of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Extremes {
    pub low: f32,
    pub high: f32,
}

impl Extremes {
    /// The extremes of an empty set.
    pub(crate) const NONE: Self = Self { low: f32::INFINITY, high: f32::NEG_INFINITY };

    /// The largest magnitude.
    pub(crate) fn magnitude(self) -> f32 {
        self.low.abs().max(self.high.abs())
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// The scale and offset that a group is stored with, and those that it is encoded with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Group {
    /// The scale to store, already rounded to its type.
    pub scale: f32,
    /// The offset to store.
    pub offset: f32,
    /// The factor that values are divided or multiplied by.
    pub factor: f32,
    /// The shift that is added to or subtracted from values.
    pub shift: f32,
}

impl Group {
    /// A group without an offset, encoded with the scale it is stored with.
    pub(crate) const fn of(scale: f32) -> Self {
        Self { scale, offset: 0.0, factor: scale, shift: 0.0 }
    }
}

/// A library's arithmetic of computing scales.
pub(crate) trait ScaleRule: Identity + Send + Sync {
    /// Whether the rule needs the lowest and the highest value of a group; otherwise `low` is the negated largest
    /// magnitude.
    fn needs_extremes(&self) -> bool {
        false
    }

    /// The global scale, if there is one, from the extremes of all values.
    fn global_scale(&self, all: Extremes) -> Option<f32> {
        let _ = all;
        None
    }

    /// Whether there is a global scale.
    fn has_global_scale(&self) -> bool {
        self.global_scale(Extremes { low: -1.0, high: 1.0 }).is_some()
    }

    /// The scale and the offset of a group; `global` is the global scale, or 1.
    fn group(&self, extremes: Extremes, global: f32) -> Group;

    /// [`group`](Self::group) for many groups, in place: on entry, `factors` and `shifts` hold the low and high
    /// extremes. A rule for small groups overrides it with a loop that is specialised to the rule.
    fn groups(&self, global: f32, groups: &mut Groups<'_>) {
        groups.each(|extremes| self.group(extremes, global));
    }
}

/// Groups in the structure-of-arrays form of the kernels.
pub(crate) struct Groups<'a> {
    pub factors: &'a mut [f32],
    pub shifts: &'a mut [f32],
    pub scales: &'a mut [f32],
    pub offsets: &'a mut [f32],
}

impl Groups<'_> {
    /// Replaces the extremes of each group by the result of `rule`.
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
