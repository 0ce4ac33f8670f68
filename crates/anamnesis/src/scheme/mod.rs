//! Quantisation schemes: which stored tensors make up a quantised weight, and how it is decoded and encoded. Schemes
//! know nothing of containers.
//!
//! Every scheme sees the whole catalog and claims the weights of its own format with their companions. An unclaimed
//! tensor is plain data, unless it looks like a part of a quantised weight: then it is refused by name. A new scheme is
//! a folder here and a line in [`registry`]; if it encodes too, another line in `ENCODINGS` there.

pub(crate) mod aqlm;
pub(crate) mod awq;
pub(crate) mod bitnet;
pub(crate) mod bnb;
pub(crate) mod claim;
pub(crate) mod coder;
pub(crate) mod comfy;
pub(crate) mod compressed_tensors;
pub(crate) mod eetq;
pub(crate) mod exl2;
pub(crate) mod exl3;
pub(crate) mod fouroversix;
pub(crate) mod fp8;
pub(crate) mod gemma_quant;
pub(crate) mod ggml;
pub(crate) mod gptq;
pub(crate) mod grouped;
pub(crate) mod hqq;
#[cfg(feature = "containers")]
mod linear;
pub(crate) mod marlin;
pub(crate) mod mlx;
mod model_class;
pub(crate) mod modelopt;
pub(crate) mod mxfp4;
#[cfg(feature = "containers")]
pub(crate) mod onnxruntime;
pub(crate) mod packed;
pub(crate) mod quantise;
pub(crate) mod quanto;
pub(crate) mod quark;
mod registry;
pub(crate) mod repack;
pub(crate) mod sinq;
pub(crate) mod torchao;
pub(crate) mod vptq;

pub(crate) use claim::{About, Blocks, Claimed, ClaimedTensor, Weight};
pub use claim::{Leftover, QuantScheme, TensorRole};
pub(crate) use coder::{
    Arrangement, Context, EncodedIntegers, EncodedTensor, FourBitFloats, GgmlBlocks, Grid, INPUT_SCALES, InFieldOrder,
    Inner, Integers, PlainDecoder, Prepared, Recipe, Reciprocals, ScaleOp, ScaleType, TileDecoder, TileEncoder,
    Transposed, Window, element_bytes,
};
pub use coder::{Coding, Evidence};
pub(crate) use model_class::{Layer, ModelClass};
pub use quantise::{
    BlockOptions, BnbOptions, GroupOptions, GroupSize, Importance, InputWeights, Keeping, QuantiseOptions,
};
pub(crate) use quantise::{Candidate, Decision, Encoding, Override, Packing, QuantisedModel, Task};
pub(crate) use registry::{ENCODINGS, about, claim};
pub(crate) use repack::{Agreement, BlockParts, Companion, Constant, RepackedCodes, RepackedCompanion};
