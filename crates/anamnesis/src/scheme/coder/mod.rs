//! The decoder and encoder interfaces, and the types that schemes share: windows, grids of scales, integer codes, ggml
//! blocks.

mod blocks;
mod byte_tiles;
mod coding;
mod column_steps;
mod context;
mod cropped;
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
mod refined;
mod restored;
mod rotated;
mod scale;
mod swizzled;
mod transposed;
mod transposed_part;
mod vanished;
pub(crate) mod words;

pub(crate) use blocks::{FourBitFloats, INPUT_SCALES, Reciprocals, ToGgmlBlocks};
pub(crate) use byte_tiles::ByteTiles;
pub use coding::{Coding, Evidence};
pub(crate) use column_steps::{ByColumn, ColumnOp, PlusGroups, TimesOver};
pub(crate) use context::Context;
pub(crate) use cropped::Cropped;
pub(crate) use decoder::{
    Codes, GgmlBlocks, LibraryArithmetic, Prepare, Prepared, Recipe, TileDecoder, Window, rounded, rounded_to,
    row_granule, tile_with_tables,
};
pub(crate) use encoder::{EncodedTensor, FirstPass, TileEncoder};
pub(crate) use field_order::{FieldOrder, InFieldOrder};
pub(crate) use filled::{filled, mishandled};
pub(crate) use grid::{Arrangement, Grid};
pub(crate) use identity::Identity;
pub(crate) use inner::{Inner, element_bytes};
pub(crate) use integers::{CodeOrder, EncodedIntegers, Integers, OffsetLayout};
pub(crate) use library::Rounded;
pub(crate) use plain::PlainDecoder;
pub(crate) use refined::{Refine, Refined};
pub(crate) use restored::{PartOrigin, Restore, RestoredParts};
pub(crate) use rotated::Rotated as Rotation;
pub(crate) use scale::{ScaleOp, ScaleType};
pub(crate) use swizzled::Swizzled;
pub(crate) use transposed::Transposed;
pub(crate) use transposed_part::TransposedPart;
pub(crate) use vanished::{LARGEST_HELD, vanished};
