//! `make_q3_quants` of ggml (`do_rmse`): signed codes of sub-blocks whose values weigh as much as their squares. The codes of
//! one scale are taken first, then each is changed where that lessens the error, in up to five passes.
//!
//! Four sub-blocks of five do not change after the first pass. [`refine_codes`] therefore runs one pass over all of a
//! strip, and further passes only over those that changed, in lanes: a sub-block that did not change never will.

use super::lanes::{LANES, Lanes, SMALLEST, SUPER, each, nearest};
use super::search::extremes;
use crate::base::simd::{Simd, TILE};

/// Values of a sub-block.
const PLACES: usize = TILE;

/// Sixteens of sub-blocks that are refined together: each step depends on the one before it, so that others fill the wait.
const SIXTEENS: usize = 4;

/// Sub-blocks that are refined together.
const TOGETHER: usize = SIXTEENS * LANES;

/// Passes over the codes, at most.
const TIMES: usize = 5;

/// A number for each place of the sub-blocks that are refined together.
type Places = [[Lanes; PLACES]; SIXTEENS];

/// The scales and codes of the sub-blocks that are refined together, and which of them changed in the last pass.
struct RefinedCodes {
    scales: [Lanes; SIXTEENS],
    codes: Places,
    is_changed: [[i32; LANES]; SIXTEENS],
}

/// Sub-blocks with their places in front. Lanes without a sub-block are zero.
#[inline(always)]
fn gathered<S: Simd>(simd: S, blocks: &[[f32; PLACES]], which: &[u16]) -> Places {
    let mut places = [[[0.0; LANES]; PLACES]; SIXTEENS];
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

/// Refines sub-blocks with codes of `-half` to `half - 1`.
#[inline(always)]
fn refined(values: &Places, half: i32, times: usize) -> RefinedCodes {
    let empty = [[[0.0; LANES]; PLACES]; SIXTEENS];
    let (mut codes, mut squares, mut cubes) = (empty, empty, empty);
    let mut sizes = [[0.0; LANES]; SIXTEENS];
    let (mut sum_lx, mut sum_l2) = ([[0.0; LANES]; SIXTEENS], [[0.0; LANES]; SIXTEENS]);
    for m in 0..SIXTEENS {
        let extreme;
        (extreme, sizes[m]) = extremes(&values[m]);
        let inverse: Lanes = each!(k => -(half as f32) / extreme[k]);
        for i in 0..PLACES {
            for k in 0..LANES {
                let x = values[m][i][k];
                let (code, w) = (nearest(inverse[k] * x).min(half - 1).max(-half) as f32, x * x);
                (codes[m][i][k], squares[m][i][k], cubes[m][i][k]) = (code, w, w * x);
                sum_lx[m][k] += w * x * code;
                sum_l2[m][k] += w * code * code;
            }
        }
    }
    let mut is_changed = [[0; LANES]; SIXTEENS];
    for _ in 0..times {
        is_changed = [[0; LANES]; SIXTEENS];
        for i in 0..PLACES {
            for m in 0..SIXTEENS {
                for k in 0..LANES {
                    let (x, w, cube) = (values[m][i][k], squares[m][i][k], cubes[m][i][k]);
                    let (old, old_lx, old_l2) = (codes[m][i][k], sum_lx[m][k], sum_l2[m][k]);
                    let rest_lx = old_lx - cube * old;
                    let rest_l2 = old_l2 - w * old * old;
                    let new = nearest(x * rest_l2 / rest_lx).min(half - 1).max(-half) as f32;
                    let (new_lx, new_l2) = (rest_lx + cube * new, rest_l2 + w * new * new);
                    let is_better = new_l2 > 0.0 && new_lx * new_lx * old_l2 > old_lx * old_lx * new_l2;
                    let is_taken = rest_lx > 0.0 && new != old && is_better;
                    codes[m][i][k] = if is_taken { new } else { old };
                    sum_lx[m][k] = if is_taken { new_lx } else { old_lx };
                    sum_l2[m][k] = if is_taken { new_l2 } else { old_l2 };
                    is_changed[m][k] = if is_taken { 1 } else { is_changed[m][k] };
                }
            }
        }
        if is_changed.as_flattened().iter().fold(0, |all, one| all | one) == 0 {
            break;
        }
    }
    let mut scales = [[0.0; LANES]; SIXTEENS];
    for m in 0..SIXTEENS {
        let quotients: Lanes = each!(k => if sum_l2[m][k] > 0.0 { sum_lx[m][k] / sum_l2[m][k] } else { 0.0 });
        scales[m] = each!(k => if sizes[m][k] < SMALLEST { 0.0 } else { quotients[k] });
    }
    RefinedCodes { scales, codes, is_changed }
}

/// Super-blocks whose sub-blocks are refined in one strip.
pub(super) const STRIP: usize = 16;

/// Sub-blocks of a super-block.
const PARTS: usize = SUPER / PLACES;

/// Finds the levels of up to [`STRIP`] super-blocks: codes shifted to begin at zero.
///
/// `choose_levels` is given the number of a super-block and the scales of its sub-blocks. It sets the levels of those that keep a
/// scale, and returns a bit for each of those that shall have the codes that their scale was found with.
#[inline(always)]
pub(super) fn refine_codes<S: Simd>(
    simd: S,
    values: &[[f32; SUPER]],
    half: i32,
    mut choose_levels: impl FnMut(usize, &Lanes, &mut [u8; SUPER]) -> u16,
) -> [[u8; SUPER]; STRIP] {
    let mut levels = [[0; SUPER]; STRIP];
    let mut scales = [[0.0; PARTS]; STRIP];
    let blocks = values.as_flattened().as_chunks::<PLACES>().0;
    let mut which = [0; STRIP * PARTS];
    for (index, which) in which.iter_mut().enumerate() {
        *which = index as u16;
    }
    let mut count = blocks.len().min(which.len());
    for round in [Round::Once, Round::Again, Round::Codes] {
        let mut left = 0;
        for start in (0..count).step_by(TOGETHER) {
            let mut some = [0; TOGETHER];
            let some = &mut some[..TOGETHER.min(count - start)];
            some.copy_from_slice(&which[start..start + some.len()]);
            let found = refined(&gathered(simd, blocks, some), half, if round == Round::Once { 1 } else { TIMES });
            for (lane, &index) in some.iter().enumerate() {
                let (m, k) = (lane / LANES, lane % LANES);
                let (block, part) = (usize::from(index) / PARTS % STRIP, usize::from(index) % PARTS);
                if round == Round::Codes {
                    for place in 0..PLACES {
                        levels[block][PLACES * part + place] = (found.codes[m][place][k] as i32 + half) as u8;
                    }
                    continue;
                }
                scales[block][part] = found.scales[m][k];
                which[left] = index;
                left += found.is_changed[m][k] as usize;
            }
        }
        if round == Round::Again {
            left = 0;
            for (block, levels) in levels.iter_mut().enumerate().take(values.len()) {
                let is_kept = choose_levels(block, &scales[block], levels);
                for part in (0..PARTS).filter(|part| is_kept >> part & 1 == 1) {
                    which[left] = (PARTS * block + part) as u16;
                    left += 1;
                }
            }
        }
        count = left;
    }
    levels
}

/// The purpose of a round of passes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Their scale, which is final for those that do not change.
    Once,
    /// The scale of those that did.
    Again,
    /// The codes that belong to the scale.
    Codes,
}
