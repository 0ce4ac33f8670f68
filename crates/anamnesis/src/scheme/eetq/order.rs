//! The order of EETQ's codes.
//!
//! The inputs of each run of 16 are stored in the order 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15; the codes of two outputs
//! alternate in runs of 64 inputs; 128 is added to every code; and bytes 1 and 2 of every four are exchanged.

use std::ops::Range;

use crate::error::Result;
use crate::scheme::coder::{Context, Restore, Window, mishandled};

/// Inputs of a run, and of a run of one of two outputs.
const RUN: usize = 16;
const LONG_RUN: u64 = 64;

/// The byte of a run that holds each input: the inverse of the order above, then of the exchange.
const PLACES: [usize; RUN] = [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15];

/// Restores the codes to rows of `inputs`, one per output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Interleaved {
    pub inputs: u64,
}

impl Interleaved {
    /// The pairs of outputs that a range of codes touches.
    fn pairs(&self, plain: &Range<u64>) -> Range<u64> {
        let pair = (2 * self.inputs).max(1);
        plain.start / pair..plain.end.div_ceil(pair)
    }
}

impl Interleaved {
    /// Stores the codes of whole pairs of outputs, row by row, in their order.
    pub(super) fn store(&self, rows: &[u8], stored: &mut [u8]) -> Result<()> {
        let (runs, rest) = rows.as_chunks::<RUN>();
        if !rest.is_empty() || rows.len() != stored.len() {
            return Err(mishandled("a range that cuts a run"));
        }
        for (run, at) in runs.iter().zip((0..).step_by(RUN)) {
            let place = self.place(at) as usize;
            let out = stored.get_mut(place..).and_then(<[u8]>::first_chunk_mut::<RUN>);
            let out = out.ok_or_else(|| mishandled("half of a pair of outputs"))?;
            for (code, place) in run.iter().zip(PLACES) {
                out[place] = code ^ 0x80;
            }
        }
        Ok(())
    }

    /// The place of the run of 16 codes that begins at this one of all rows.
    const fn place(&self, at: u64) -> u64 {
        let (output, input) = (at / self.inputs, at % self.inputs);
        let pair = output / 2 * 2 * self.inputs;
        pair + input / LONG_RUN * 2 * LONG_RUN + output % 2 * LONG_RUN + input % LONG_RUN
    }
}

impl Restore for Interleaved {
    fn windows(&self, plain: &Range<u64>, windows: &mut Vec<Window>) {
        let pairs = self.pairs(plain);
        windows.push(Window::between(0, pairs.start * 2 * self.inputs..pairs.end * 2 * self.inputs));
    }

    fn restore(&self, plain: &Range<u64>, inputs: &[&[u8]], out: &mut [u8], _: &mut Context) -> Result<()> {
        let [stored] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let first = self.pairs(plain).start * 2 * self.inputs;
        let (runs, rest) = out.as_chunks_mut::<RUN>();
        if !rest.is_empty() || !plain.start.is_multiple_of(RUN as u64) {
            return Err(mishandled("a range that cuts a run"));
        }
        for (out, at) in runs.iter_mut().zip((plain.start..).step_by(RUN)) {
            let run = stored.get((self.place(at) - first) as usize..).and_then(<[u8]>::first_chunk::<RUN>);
            let run = run.ok_or_else(|| mishandled("too few codes"))?;
            *out = PLACES.map(|place| run[place] ^ 0x80);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_codes_are_restored() {
        let order = Interleaved { inputs: 128 };
        let rows: Vec<u8> = (0..512u32).map(|at| (at * 7 + at / 128) as u8).collect();
        let (mut stored, mut restored) = (vec![0; 512], vec![0; 512]);
        order.store(&rows, &mut stored).unwrap();
        assert_ne!(stored, rows);
        order.restore(&(0..512), &[&stored], &mut restored, &mut Context::default()).unwrap();
        assert_eq!(restored, rows);
        assert!(order.store(&rows[..128], &mut stored[..128]).is_err(), "half of a pair");
    }

    #[test]
    fn the_places_undo_the_order_of_the_inputs_and_the_exchange_of_bytes() {
        let order = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];
        let exchanged = |byte: usize| byte / 4 * 4 + [0, 2, 1, 3][byte % 4];
        for (byte, input) in order.into_iter().enumerate() {
            assert_eq!(PLACES[input], exchanged(byte), "input {input}");
        }
    }
}
