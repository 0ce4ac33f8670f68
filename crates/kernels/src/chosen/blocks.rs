//! The ggml block types, each with its sizes and kernels.

use super::{Rounded, with_rounded};
use crate::base::level::Level;
use crate::decode::ggml::{self, GgmlBlock, decode_blocks};
#[cfg(feature = "encode")]
use crate::encode::{EncodeBlocks, encode_rows};

/// Decodes whole blocks. Arguments: level, output type, blocks, output. Returns the bytes written.
type Decode = fn(Level, Rounded, &[u8], &mut [u8]) -> usize;

/// Encodes rows. Arguments: level, values, row length, importance of each column, output. Returns the bytes written.
type Encode = fn(Level, &[f32], usize, Option<&[f32]>, &mut [u8]) -> usize;

/// A block type.
#[derive(Debug)]
pub struct BlockKernels {
    /// Its name in ggml.
    pub name: &'static str,
    /// Elements of a block.
    pub elements: usize,
    /// Bytes of a block.
    pub bytes: usize,
    /// [`decode_blocks`].
    pub decode: Decode,
    /// `encode_rows`; `None` for types that ggml uses only for activations, and without the feature `encode`.
    pub encode: Option<Encode>,
}

impl BlockKernels {
    const fn new<B: GgmlBlock>(encode: Option<Encode>) -> Self {
        Self { name: B::NAME, elements: B::BLOCK_ELEMENTS, bytes: B::BLOCK_BYTES, decode: decode::<B>, encode }
    }
}

fn decode<B: GgmlBlock>(level: Level, to: Rounded, blocks: &[u8], out: &mut [u8]) -> usize {
    with_rounded!(to, O => decode_blocks::<B, O>(level, blocks, out))
}

#[cfg(feature = "encode")]
const fn encoder<B: EncodeBlocks>() -> Option<Encode> {
    Some(encode::<B>)
}

#[cfg(not(feature = "encode"))]
const fn encoder<B: GgmlBlock>() -> Option<Encode> {
    None
}

#[cfg(feature = "encode")]
fn encode<B: EncodeBlocks>(
    level: Level,
    values: &[f32],
    row: usize,
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> usize {
    encode_rows::<B>(level, values, row, importance, out)
}

macro_rules! both_ways {
    ($($name:ident $type:ident),+) => {
        $(
            #[doc = concat!("The type ", stringify!($name), ".")]
            pub static $name: BlockKernels = BlockKernels::new::<ggml::$type>(encoder::<ggml::$type>());
        )+
    };
}

both_ways! {
    Q4_0 Q4_0, Q4_1 Q4_1, Q5_0 Q5_0, Q5_1 Q5_1, Q8_0 Q8_0, Q2_K Q2K, Q3_K Q3K, Q4_K Q4K, Q5_K Q5K, Q6_K Q6K,
    IQ2_XXS Iq2Xxs, IQ2_XS Iq2Xs, IQ3_XXS Iq3Xxs, IQ1_S Iq1S, IQ4_NL Iq4Nl, IQ3_S Iq3S, IQ2_S Iq2S, IQ4_XS Iq4Xs,
    IQ1_M Iq1M, TQ1_0 Tq1_0, TQ2_0 Tq2_0, MXFP4 Mxfp4, NVFP4 Nvfp4, Q1_0 Q1_0, Q2_0 Q2_0
}

/// The type Q8_1.
pub static Q8_1: BlockKernels = BlockKernels::new::<ggml::Q8_1>(None);
/// The type Q8_K.
pub static Q8_K: BlockKernels = BlockKernels::new::<ggml::Q8K>(None);
