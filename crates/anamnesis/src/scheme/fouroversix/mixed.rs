//! `if4`: blocks of 16 four-bit floats, or of integers times 6/7 where the sign bit of the scale is set.

use std::ops::Range;

use anamnesis_kernels::chosen::round_slice;
use anamnesis_kernels::float::{e2m1, f16};
use anamnesis_kernels::{E4m3, Format8};

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{Context, TileDecoder, Window, mishandled, rounded};

/// Values of a block, and bytes of its codes.
const BLOCK: u64 = 16;
const BLOCK_BYTES: usize = 8;
/// The factor of integers.
const INTEGER_FACTOR: f32 = 6.0 / 7.0;

/// The decoder of rows of `cols` values: products of code and scale, in half precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MixedBlocks {
    pub cols: u64,
}

fn half(value: f32) -> f32 {
    f16::decode(f16::encode(value))
}

/// The values of the codes under a scale.
fn table(scale: u8) -> [f32; 16] {
    let factor = half(E4m3::decode(scale & 0x7F));
    std::array::from_fn(|code| {
        let code = code as u8;
        let value = match scale & 0x80 {
            0 => e2m1::decode(code),
            _ => half(f32::from((code << 4).cast_signed() >> 4) * INTEGER_FACTOR),
        };
        half(value * factor)
    })
}

impl TileDecoder for MixedBlocks {
    fn granule(&self) -> u64 {
        self.cols
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        windows.push(Window::between(0, elements.start / 2..elements.end / 2));
        windows.push(Window::between(1, elements.start / BLOCK..elements.end / BLOCK));
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let [codes, scales] = inputs else { return Err(mishandled("other windows than it asked for")) };
        let mut values = context.lend_floats((elements.end - elements.start) as usize);
        let blocks = codes.as_chunks::<BLOCK_BYTES>().0.iter().zip(*scales);
        for (values, (codes, scale)) in values.as_chunks_mut::<{ BLOCK as usize }>().0.iter_mut().zip(blocks) {
            let table = table(*scale);
            for (at, value) in values.iter_mut().enumerate() {
                *value = table[usize::from(codes[at / 2] >> (at % 2 * 4) & 15)];
            }
        }
        let written = round_slice(context.level(), rounded(target), &values, out);
        context.take_back_floats(values);
        Ok(written)
    }

    fn describe(&self) -> String {
        "Four Over Six if4".to_owned()
    }
}
