//! Narrow outputs by way of `f32`.

use crate::base::GROUP;
use crate::base::group::pad;
use crate::base::output::Output;
use crate::base::simd::Portable;

/// A signalling NaN, which no arithmetic gives: what the decoder left alone.
const UNTOUCHED: [u8; 4] = 0x7F80_0001u32.to_le_bytes();

/// Room for so many numbers.
pub(crate) fn untouched(elements: usize) -> Vec<u8> {
    UNTOUCHED.repeat(elements)
}

/// Rounds into `out` what was written of it.
pub(crate) fn round_touched<O: Output>(wide: &[u8], out: &mut [u8]) {
    let groups = wide.as_chunks::<4>().0.chunks(GROUP);
    for (group, out) in groups.zip(out.chunks_mut(GROUP * O::BYTES)) {
        let mut bytes = [0; GROUP * 4];
        O::write(&O::round_group(Portable, &pad(group).map(f32::from_le_bytes)), &mut bytes[..GROUP * O::BYTES]);
        let words = out.chunks_exact_mut(O::BYTES).zip(bytes.chunks_exact(O::BYTES));
        for ((to, from), value) in words.zip(group) {
            if *value != UNTOUCHED {
                to.copy_from_slice(from);
            }
        }
    }
}
