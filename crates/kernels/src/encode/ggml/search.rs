//! The scale searches of ggml: each quantises with several candidate scales and keeps the one of the smallest weighted
//! error.
//!
//! | search | follows in ggml | a value is | candidates |
//! |---|---|---|---|
//! | [`make_qkx_quants`] | `make_qkx2_quants`, `make_qkx3_quants` | `scale × code − minimum` | iscale of the largest code, each refined by least squares |
//! | [`make_qx_quants`] | `make_qx_quants` with `rmse_type` 1 | `scale × code`, signed codes | iscale of the largest code, each refined by least squares |
//! | [`make_qp_quants`] | `make_qp_quants` | `scale × code`, values that are not negative | iscale of the largest code, then single codes |

use super::lanes::{GROUP_MAX_EPS, LANES, Lanes, c_max, each, nearest_int};

/// The candidates of [`make_qkx_quants`]: `rmin`, `rdelta`, `nstep` and `use_mad` of ggml.
#[derive(Clone, Copy)]
pub(super) struct CandidateSteps {
    pub rmin: f32,
    pub rdelta: f32,
    pub nstep: i32,
    /// Whether errors count by magnitude (`use_mad`), not by square.
    pub use_mad: bool,
}

/// The candidates of `make_qkx3_quants`, used with an importance matrix.
pub(super) const QKX3_STEPS: CandidateSteps = CandidateSteps { rmin: -0.9, rdelta: 0.05, nstep: 36, use_mad: false };

/// Scales and minima of sub-blocks, and the inverse scales that give their codes.
pub(super) struct QkxQuants {
    pub scales: Lanes,
    /// Minima with the sign inverted, as the formats store them.
    pub mins: Lanes,
    inverse: Lanes,
    min: Lanes,
    is_constant: [bool; LANES],
    largest: i32,
}

impl QkxQuants {
    /// The code of a value under the best candidate.
    #[inline(always)]
    pub(super) fn code(&self, lane: usize, value: f32) -> u8 {
        let code = nearest_int(self.inverse[lane] * (value - self.min[lane])).min(self.largest).max(0);
        if self.is_constant[lane] { 0 } else { code as u8 }
    }
}

/// Finds scale and minimum of sub-blocks with codes of 0 to `largest`: `make_qkx2_quants` and `make_qkx3_quants` of
/// ggml, which differ only in their weights.
#[inline(always)]
pub(super) fn make_qkx_quants<const N: usize>(
    values: &[Lanes; N],
    weights: &[Lanes; N],
    largest: i32,
    steps: CandidateSteps,
) -> QkxQuants {
    let top = largest as f32;
    let (mut low, mut high, mut sum_w) = (values[0], values[0], weights[0]);
    let mut sum_x: Lanes = each!(k => sum_w[k] * values[0][k]);
    for i in 1..N {
        for k in 0..LANES {
            let (x, w) = (values[i][k], weights[i][k]);
            low[k] = if x < low[k] { x } else { low[k] };
            high[k] = if x > high[k] { x } else { high[k] };
            sum_w[k] += w;
            sum_x[k] += w * x;
        }
    }
    let mut low: Lanes = each!(k => if low[k] > 0.0 { 0.0 } else { low[k] });
    let is_constant: [bool; LANES] = each!(k => high[k] == low[k]);
    let (constant_min, mut min) = (low, low);
    let mut inverse: Lanes = each!(k => top / (high[k] - low[k]));
    let mut scales: Lanes = each!(k => 1.0 / inverse[k]);
    let mut best: Lanes = [0.0; LANES];
    for i in 0..N {
        for k in 0..LANES {
            let code = nearest_int(inverse[k] * (values[i][k] - low[k])).min(largest).max(0) as f32;
            let diff = scales[k] * code + low[k] - values[i][k];
            best[k] += weights[i][k] * if steps.use_mad { diff.abs() } else { diff * diff };
        }
    }
    for step in 0..=steps.nstep {
        let iscale: Lanes = each!(k => (steps.rmin + steps.rdelta * step as f32 + top) / (high[k] - low[k]));
        let (mut sum_l, mut sum_l2, mut sum_xl): (Lanes, Lanes, Lanes) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for i in 0..N {
            for k in 0..LANES {
                let (x, w) = (values[i][k], weights[i][k]);
                let code = nearest_int(iscale[k] * (x - low[k])).min(largest).max(0) as f32;
                sum_l[k] += w * code;
                sum_l2[k] += w * code * code;
                sum_xl[k] += w * code * x;
            }
        }
        let spread: Lanes = each!(k => sum_w[k] * sum_l2[k] - sum_l[k] * sum_l[k]);
        let mut this_scale: Lanes = each!(k => (sum_w[k] * sum_xl[k] - sum_x[k] * sum_l[k]) / spread[k]);
        let mut this_min: Lanes = each!(k => (sum_l2[k] * sum_x[k] - sum_l[k] * sum_xl[k]) / spread[k]);
        for k in 0..LANES {
            let is_above = this_min[k] > 0.0;
            this_scale[k] = if is_above { sum_xl[k] / sum_l2[k] } else { this_scale[k] };
            this_min[k] = if is_above { 0.0 } else { this_min[k] };
        }
        let mut error: Lanes = [0.0; LANES];
        for i in 0..N {
            for k in 0..LANES {
                let x = values[i][k];
                let code = nearest_int(iscale[k] * (x - low[k])).min(largest).max(0) as f32;
                let diff = this_scale[k] * code + this_min[k] - x;
                error[k] += weights[i][k] * if steps.use_mad { diff.abs() } else { diff * diff };
            }
        }
        for k in 0..LANES {
            let is_better = spread[k] > 0.0 && error[k] < best[k];
            min[k] = if is_better { low[k] } else { min[k] };
            inverse[k] = if is_better { iscale[k] } else { inverse[k] };
            best[k] = if is_better { error[k] } else { best[k] };
            scales[k] = if is_better { this_scale[k] } else { scales[k] };
            low[k] = if is_better { this_min[k] } else { low[k] };
        }
    }
    QkxQuants {
        scales: each!(k => if is_constant[k] { 0.0 } else { scales[k] }),
        mins: each!(k => -if is_constant[k] { constant_min[k] } else { low[k] }),
        inverse,
        min,
        is_constant,
        largest,
    }
}

/// Scales of sub-blocks, and the inverse scales that give their codes.
pub(super) struct QxQuants {
    pub scales: Lanes,
    inverse: Lanes,
    is_zero: [bool; LANES],
    half: i32,
}

impl QxQuants {
    /// The code of a value under the best candidate, shifted to start at zero.
    #[inline(always)]
    pub(super) fn code(&self, lane: usize, value: f32) -> u8 {
        let code = self.half + nearest_int(self.inverse[lane] * value).min(self.half - 1).max(-self.half);
        if self.is_zero[lane] { 0 } else { code as u8 }
    }
}

/// The value of the largest magnitude in each lane, the first of several, and its magnitude.
#[inline(always)]
pub(super) fn lane_max<const N: usize>(values: &[Lanes; N]) -> (Lanes, Lanes) {
    let (mut extreme, mut size): (Lanes, Lanes) = ([0.0; LANES], [0.0; LANES]);
    for place in values {
        for k in 0..LANES {
            let is_larger = place[k].abs() > size[k];
            extreme[k] = if is_larger { place[k] } else { extreme[k] };
            size[k] = if is_larger { place[k].abs() } else { size[k] };
        }
    }
    (extreme, size)
}

/// Finds the scale of sub-blocks with codes of `-half` to `half - 1`: `make_qx_quants` of ggml with `rmse_type` 1.
#[inline(always)]
pub(super) fn make_qx_quants<const N: usize>(values: &[Lanes; N], weights: &[Lanes; N], half: i32) -> QxQuants {
    let (extreme, size) = lane_max(values);
    let top = half as f32;
    let sums = |inverse: &Lanes| {
        let (mut sum_lx, mut sum_l2): (Lanes, Lanes) = ([0.0; LANES], [0.0; LANES]);
        for i in 0..N {
            for k in 0..LANES {
                let (x, w) = (values[i][k], weights[i][k]);
                let code = nearest_int(inverse[k] * x).min(half - 1).max(-half) as f32;
                sum_lx[k] += w * x * code;
                sum_l2[k] += w * code * code;
            }
        }
        (sum_lx, sum_l2)
    };
    let mut inverse: Lanes = each!(k => -top / extreme[k]);
    let (sum_lx, sum_l2) = sums(&inverse);
    let mut scales: Lanes = each!(k => if sum_l2[k] == 0.0 { 0.0 } else { sum_lx[k] / sum_l2[k] });
    let mut best: Lanes = each!(k => scales[k] * sum_lx[k]);
    for step in (-9..=9).filter(|&step| step != 0) {
        let iscale: Lanes = each!(k => -(top + 0.1 * step as f32) / extreme[k]);
        let (sum_lx, sum_l2) = sums(&iscale);
        for k in 0..LANES {
            let is_better = sum_l2[k] > 0.0 && sum_lx[k] * sum_lx[k] > best[k] * sum_l2[k];
            let scale = sum_lx[k] / sum_l2[k];
            inverse[k] = if is_better { iscale[k] } else { inverse[k] };
            scales[k] = if is_better { scale } else { scales[k] };
            best[k] = if is_better { scale * sum_lx[k] } else { best[k] };
        }
    }
    let is_zero: [bool; LANES] = each!(k => size[k] < GROUP_MAX_EPS);
    QxQuants { scales: each!(k => if is_zero[k] { 0.0 } else { scales[k] }), inverse, is_zero, half }
}

/// Finds the scale of a few values that are not negative, and their codes of up to `largest`: `make_qp_quants` of ggml.
#[inline(always)]
pub(super) fn make_qp_quants<const N: usize>(values: &[f32; N], weights: &[f32; N], largest: i32) -> (f32, [u8; N]) {
    let highest = values.iter().fold(0.0, |highest, value| c_max(highest, *value));
    if highest < GROUP_MAX_EPS {
        return (0.0, [0; N]);
    }
    let top = largest as f32;
    let mut inverse = top / highest;
    let mut codes = [0u8; N];
    for (code, value) in codes.iter_mut().zip(values) {
        *code = nearest_int(inverse * value) as u8;
    }
    let scale = 1.0 / inverse;
    let mut best = 0.0;
    for i in 0..N {
        let diff = values[i] - scale * f32::from(codes[i]);
        best += weights[i] * diff * diff;
    }
    for step in (-4..=4).filter(|&step| step != 0) {
        let iscale = (0.1 * step as f32 + top) / highest;
        let scale = 1.0 / iscale;
        let mut error = 0.0;
        for i in 0..N {
            let code = nearest_int(iscale * values[i]).min(largest) as f32;
            let diff = values[i] - scale * code;
            error += weights[i] * diff * diff;
        }
        if error < best {
            (best, inverse) = (error, iscale);
        }
    }
    let (mut sum_lx, mut sum_l2) = (0.0, 0.0);
    for i in 0..N {
        let code = nearest_int(inverse * values[i]).min(largest);
        codes[i] = code as u8;
        sum_lx += weights[i] * values[i] * code as f32;
        sum_l2 += weights[i] * code as f32 * code as f32;
    }
    for _ in 0..5 {
        let mut is_changed = false;
        for i in 0..N {
            let (x, w, old) = (values[i], weights[i], f32::from(codes[i]));
            let (mut new_lx, mut new_l2) = (sum_lx - w * x * old, sum_l2 - w * old * old);
            if new_lx > 0.0 && new_l2 > 0.0 {
                let new = nearest_int(x * new_l2 / new_lx).min(largest);
                if new != i32::from(codes[i]) {
                    new_lx += w * x * new as f32;
                    new_l2 += w * new as f32 * new as f32;
                    if new_lx * new_lx * sum_l2 > sum_lx * sum_lx * new_l2 {
                        codes[i] = new as u8;
                        (sum_lx, sum_l2) = (new_lx, new_l2);
                        is_changed = true;
                    }
                }
            }
        }
        if !is_changed {
            break;
        }
    }
    (if sum_l2 > 0.0 { sum_lx / sum_l2 } else { 0.0 }, codes)
}
