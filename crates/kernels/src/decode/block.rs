//! Eight-bit floats with two-dimensional scale blocks: several rows share one row of scales.
//!
//! In one block a signed format has 128 magnitudes, each with the same word in all rows. On CPU levels with fast table
//! look-ups the words of a panel of blocks are computed once and the rows then decoded in order:
//!
//! ```text
//!              block 0   block 1   ...   block 63 │ next panel
//!   tables     128 words 128 words       128 words│
//!   row 0      ────────────────────────────────>  │
//!   row 1      ────────────────────────────────>  │
//! ```

use crate::base::GROUP;
use crate::base::float::Format8;
use crate::base::level::Level;
use crate::base::output::Output;
use crate::base::simd::{Simd, TABLE};
use crate::decode::runs::{Runs, broadcast, scaled_runs};
use crate::decode::scaled::{has_tables, keeps_signs, magnitude_words};

/// Tables per panel: 16 KiB of 16-bit words, half of an L1 cache.
const PANEL: usize = 64;

/// With fewer rows the tables cost more than they save.
const MIN_ROWS: usize = 4;

/// Decodes rows of `cols` codes, multiplies column `j` of each by `scales[j / run]` and rounds into `out`.
///
/// The last row may be partial. Columns past the last run of `scales` are not written; a `run` of zero counts as one.
#[must_use = "output past the returned count keeps its old contents"]
pub fn scaled_block_rows<F: Format8, O: Output>(
    level: Level,
    codes: &[u8],
    scales: &[f32],
    run: usize,
    cols: usize,
    out: &mut [u8],
) -> usize {
    let cols = cols.max(1);
    let run = run.max(1);
    if run.is_multiple_of(GROUP) {
        whole_groups::<F, O>(level, codes, scales, run, cols, out)
    } else {
        let rows = codes.chunks(cols).zip(out.chunks_mut(cols.saturating_mul(O::BYTES)));
        rows.map(|(codes, out)| scaled_runs::<F, O>(level, codes, scales, run, out)).sum()
    }
}

kernel! {
    fn whole_groups<F: Format8>(codes: &[u8], scales: &[f32], run: usize, cols: usize) -> O in out = body
}

#[inline(always)]
fn body<S: Simd, F: Format8, O: Output>(
    simd: S,
    codes: &[u8],
    scales: &[f32],
    run: usize,
    cols: usize,
    out: &mut [u8],
) -> usize {
    let is_worth_tables = codes.len() / cols >= MIN_ROWS && run >= TABLE;
    let scales = &scales[..scales.len().min(cols.div_ceil(run))];
    if has_tables::<S, F, O>() && is_worth_tables && scales.iter().all(|scale| keeps_signs(*scale)) {
        tables::<S, F, O>(simd, codes, scales, run, cols, out)
    } else {
        let mut written = 0;
        for (codes, out) in codes.chunks(cols).zip(out.chunks_mut(cols.saturating_mul(O::BYTES))) {
            written += broadcast::<S, F, O>(simd, codes, scales, run, out);
        }
        written
    }
}

#[inline(always)]
fn tables<S: Simd, F: Format8, O: Output>(
    simd: S,
    codes: &[u8],
    scales: &[f32],
    run: usize,
    cols: usize,
    out: &mut [u8],
) -> usize {
    let mut tables = [[O::Word::default(); TABLE]; PANEL];
    let (mut start, mut written) = (0usize, 0);
    for scales in scales.chunks(PANEL) {
        let end = cols.min(start.saturating_add(scales.len().saturating_mul(run)));
        for (table, scale) in tables.iter_mut().zip(scales) {
            *table = magnitude_words::<S, F, O>(simd, *scale);
        }
        for (codes, out) in codes.chunks(cols).zip(out.chunks_mut(cols.saturating_mul(O::BYTES))) {
            let codes = codes.get(start..codes.len().min(end)).unwrap_or_default();
            let out = out.get_mut(start * O::BYTES..).unwrap_or_default();
            let mut runs = Runs::new(&tables, run);
            written += walk!(O, group in codes => O::look_up(simd, runs.next_group(), group), out);
        }
        start = end;
    }
    written
}
