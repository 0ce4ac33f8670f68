//! `make_q3_quants` of ggml with `do_rmse`: signed codes of sub-blocks whose weights are the squared values. The codes
//! of a first scale are improved one by one where that lowers the error, in up to five passes.
//!
//! Four sub-blocks of five do not change after the first pass. [`refine_codes`] therefore runs one pass over a whole
//! strip and further passes only over those that changed: a sub-block without a change in one pass never changes again.

use super::lanes::{GROUP_MAX_EPS, LANES, Lanes, QK_K, each, nearest_int};
use super::search::lane_max;
use crate::base::simd::{Simd, TILE};

/// Values of a sub-block.
const SUB_BLOCK: usize = TILE;

/// Lane groups refined together: each step depends on the previous one, and independent groups hide that latency.
const LANE_GROUPS: usize = 4;

/// Sub-blocks refined together.
const BATCH: usize = LANE_GROUPS * LANES;

/// Passes over the codes, at most.
const MAX_PASSES: usize = 5;

/// One value per element of the sub-blocks refined together.
type LaneBlocks = [[Lanes; SUB_BLOCK]; LANE_GROUPS];

/// The scales and codes of the sub-blocks refined together, and which of them changed in the last pass.
struct Q3Quants {
    scales: [Lanes; LANE_GROUPS],
    codes: LaneBlocks,
    is_changed: [[i32; LANES]; LANE_GROUPS],
}

/// Transposes the selected sub-blocks into lanes. Unused lanes are zero.
#[inline(always)]
fn gather_lanes<S: Simd>(simd: S, blocks: &[[f32; SUB_BLOCK]], which: &[u16]) -> LaneBlocks {
    let mut places = [[[0.0; LANES]; SUB_BLOCK]; LANE_GROUPS];
    for (places, which) in places.iter_mut().zip(which.chunks(LANES)) {
        let mut tile = [[0; TILE]; TILE];
        for (row, &index) in tile.iter_mut().zip(which) {
            let block = &blocks[usize::from(index)];
            *row = each!(k => block[k].to_bits());
        }
        for (place, row) in places.iter_mut().zip(simd.transpose(&tile)) {
            *place = each!(k => f32::from_bits(row[k]));
        }
    }
    places
}

/// `make_q3_quants` for codes of `-half` to `half - 1`, with up to `passes` passes.
#[inline(always)]
fn make_q3_quants(values: &LaneBlocks, half: i32, passes: usize) -> Q3Quants {
    let empty = [[[0.0; LANES]; SUB_BLOCK]; LANE_GROUPS];
    let (mut codes, mut squares, mut cubes) = (empty, empty, empty);
    let mut sizes = [[0.0; LANES]; LANE_GROUPS];
    let (mut sum_lx, mut sum_l2) = ([[0.0; LANES]; LANE_GROUPS], [[0.0; LANES]; LANE_GROUPS]);
    for m in 0..LANE_GROUPS {
        let extreme;
        (extreme, sizes[m]) = lane_max(&values[m]);
        let inverse: Lanes = each!(k => -(half as f32) / extreme[k]);
        for i in 0..SUB_BLOCK {
            for k in 0..LANES {
                let x = values[m][i][k];
                let (code, w) = (nearest_int(inverse[k] * x).min(half - 1).max(-half) as f32, x * x);
                (codes[m][i][k], squares[m][i][k], cubes[m][i][k]) = (code, w, w * x);
                sum_lx[m][k] += w * x * code;
                sum_l2[m][k] += w * code * code;
            }
        }
    }
    let mut is_changed = [[0; LANES]; LANE_GROUPS];
    for _ in 0..passes {
        is_changed = [[0; LANES]; LANE_GROUPS];
        for i in 0..SUB_BLOCK {
            for m in 0..LANE_GROUPS {
                for k in 0..LANES {
                    let (x, w, cube) = (values[m][i][k], squares[m][i][k], cubes[m][i][k]);
                    let (old, old_lx, old_l2) = (codes[m][i][k], sum_lx[m][k], sum_l2[m][k]);
                    let rest_lx = old_lx - cube * old;
                    let rest_l2 = old_l2 - w * old * old;
                    let new = nearest_int(x * rest_l2 / rest_lx).min(half - 1).max(-half) as f32;
                    let (new_lx, new_l2) = (rest_lx + cube * new, rest_l2 + w * new * new);
                    let is_better = new_l2 > 0.0 && new_lx * new_lx * old_l2 > old_lx * old_lx * new_l2;
                    let is_accepted = rest_lx > 0.0 && new != old && is_better;
                    codes[m][i][k] = if is_accepted { new } else { old };
                    sum_lx[m][k] = if is_accepted { new_lx } else { old_lx };
                    sum_l2[m][k] = if is_accepted { new_l2 } else { old_l2 };
                    is_changed[m][k] = if is_accepted { 1 } else { is_changed[m][k] };
                }
            }
        }
        if is_changed.as_flattened().iter().fold(0, |all, one| all | one) == 0 {
            break;
        }
    }
    let mut scales = [[0.0; LANES]; LANE_GROUPS];
    for m in 0..LANE_GROUPS {
        let quotients: Lanes = each!(k => if sum_l2[m][k] > 0.0 { sum_lx[m][k] / sum_l2[m][k] } else { 0.0 });
        scales[m] = each!(k => if sizes[m][k] < GROUP_MAX_EPS { 0.0 } else { quotients[k] });
    }
    Q3Quants { scales, codes, is_changed }
}

/// Super-blocks refined in one strip.
pub(super) const STRIP: usize = 16;

/// Sub-blocks per super-block.
const SUB_BLOCKS: usize = QK_K / SUB_BLOCK;

/// Quantises up to [`STRIP`] super-blocks to codes that start at zero.
///
/// `choose_levels` gets the index of a super-block and the scales of its sub-blocks. It writes the codes of sub-blocks
/// with a scale, and returns a bit for each sub-block that keeps the codes of the search.
#[inline(always)]
pub(super) fn refine_codes<S: Simd>(
    simd: S,
    values: &[[f32; QK_K]],
    half: i32,
    mut choose_levels: impl FnMut(usize, &Lanes, &mut [u8; QK_K]) -> u16,
) -> [[u8; QK_K]; STRIP] {
    let mut levels = [[0; QK_K]; STRIP];
    let mut scales = [[0.0; SUB_BLOCKS]; STRIP];
    let blocks = values.as_flattened().as_chunks::<SUB_BLOCK>().0;
    let mut which = [0; STRIP * SUB_BLOCKS];
    for (index, which) in which.iter_mut().enumerate() {
        *which = index as u16;
    }
    let mut count = blocks.len().min(which.len());
    for stage in [Stage::FirstPass, Stage::AllPasses, Stage::Codes] {
        let mut left = 0;
        for start in (0..count).step_by(BATCH) {
            let mut batch = [0; BATCH];
            let batch = &mut batch[..BATCH.min(count - start)];
            batch.copy_from_slice(&which[start..start + batch.len()]);
            let found = make_q3_quants(
                &gather_lanes(simd, blocks, batch),
                half,
                if stage == Stage::FirstPass { 1 } else { MAX_PASSES },
            );
            for (lane, &index) in batch.iter().enumerate() {
                let (m, k) = (lane / LANES, lane % LANES);
                let (block, part) = (usize::from(index) / SUB_BLOCKS % STRIP, usize::from(index) % SUB_BLOCKS);
                if stage == Stage::Codes {
                    for place in 0..SUB_BLOCK {
                        levels[block][SUB_BLOCK * part + place] = (found.codes[m][place][k] as i32 + half) as u8;
                    }
                    continue;
                }
                scales[block][part] = found.scales[m][k];
                which[left] = index;
                left += found.is_changed[m][k] as usize;
            }
        }
        if stage == Stage::AllPasses {
            left = 0;
            for (block, levels) in levels.iter_mut().enumerate().take(values.len()) {
                let is_kept = choose_levels(block, &scales[block], levels);
                for part in (0..SUB_BLOCKS).filter(|part| is_kept >> part & 1 == 1) {
                    which[left] = (SUB_BLOCKS * block + part) as u16;
                    left += 1;
                }
            }
        }
        count = left;
    }
    levels
}

/// The result that a stage computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The scales after one pass, final for sub-blocks that did not change.
    FirstPass,
    /// The scales after all passes, of sub-blocks that did.
    AllPasses,
    /// The codes of sub-blocks that keep those of the search.
    Codes,
}
