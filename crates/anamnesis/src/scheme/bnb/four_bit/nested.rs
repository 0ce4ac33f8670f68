//! Double quantisation: encoding block scales to eight-bit codes.

use crate::error::Result;
use anamnesis_kernels::Level;
use anamnesis_kernels::chosen::{self, Values};

use super::nested_map::nested_quant_map;
use crate::scheme::coder::filled;

/// Block scales that share a nested scale.
pub(crate) const NESTED_BLOCK_SIZE: usize = 256;

/// Steps between −1 and 1 in the library's lookup table.
const GRID: f64 = 65535.0;

/// Subtracts the mean `offset` from block scales and encodes them in blocks of [`NESTED_BLOCK_SIZE`]. Only the last
/// block of a tensor may be short. Returns how many codes were written.
pub(crate) fn encode_nested_scales(
    level: Level,
    absmax: &[f32],
    offset: f32,
    codes: &mut [u8],
    nested_absmax: &mut [f32],
) -> Result<usize> {
    let (map, mut written) = (nested_quant_map(), 0);
    let blocks = absmax.chunks(NESTED_BLOCK_SIZE).zip(codes.chunks_mut(NESTED_BLOCK_SIZE)).zip(nested_absmax);
    for ((absmax, codes), largest) in blocks {
        let mut centred = [0.0; NESTED_BLOCK_SIZE];
        let centred = &mut centred[..absmax.len()];
        for (centred, scale) in centred.iter_mut().zip(absmax) {
            *centred = scale - offset;
        }
        let largest_of = std::slice::from_mut(&mut *largest);
        filled(chosen::block_largest(level, Values::F32(centred), NESTED_BLOCK_SIZE, largest_of), 1)?;
        written += codes.len().min(absmax.len());
        if *largest == 0.0 {
            codes.fill(0);
            continue;
        }
        let inverse = 1.0 / *largest;
        for (code, value) in codes.iter_mut().zip(centred) {
            *code = nearest(map, (*value * inverse).clamp(-1.0, 1.0));
        }
    }
    Ok(written)
}

/// The code of a value from −1 to 1. The library looks codes up in a table with [`GRID`] steps, so the value is rounded
/// to the nearest step first.
fn nearest(map: &[f32; 256], value: f32) -> u8 {
    // A fused multiply-add in the library, rounded once; F64 holds it exactly. NaN becomes step 0.
    let place = (f64::from((value + 1.0) * 0.5) * GRID + 0.5) as f32 as u16;
    let value = (f64::from(place) * 2.0 / GRID - 1.0) as f32;
    let above = map.partition_point(|&entry| entry < value).clamp(1, 255);
    let code = if map[above] - value < value - map[above - 1] { above } else { above - 1 };
    code as u8
}
