//! Decoders and encoders of tiles, and the nouns they share: windows, grids of scales, codes as data.

mod blocks;
mod byte_tiles;
mod coding;
mod context;
mod decoder;
mod encoder;
mod field_order;
mod filled;
mod grid;
mod identity;
mod inner;
mod integers;
mod library;
mod plain;
mod scale;
mod transposed;
mod vanished;
pub(crate) mod words;

pub(crate) use blocks::{FourBitFloats, OF_INPUTS, Reciprocals, ToGgmlBlocks};
pub(crate) use byte_tiles::ByteTiles;
pub use coding::{Coding, Evidence};
pub(crate) use context::Context;
pub(crate) use decoder::{
    AsLibrary, Blocked, Codes, Prepare, Prepared, Recipe, TileDecoder, Window, held_as, rounded, row_granule,
};
pub(crate) use encoder::{EncodedTensor, FirstPass, TileEncoder};
pub(crate) use field_order::{FieldOrder, InFieldOrder};
pub(crate) use filled::{filled, mishandled};
pub(crate) use grid::{Arrangement, Grid};
pub(crate) use identity::Identity;
pub(crate) use inner::{Inner, bytes_of_each};
pub(crate) use integers::{CodeOrder, Integers, MadeIntegers, Zeros};
pub(crate) use library::Rounded;
pub(crate) use plain::PlainDecoder;
pub(crate) use scale::{ScaleOp, ScaleType};
pub(crate) use transposed::Transposed;
pub(crate) use vanished::{LARGEST_HELD, vanished};
