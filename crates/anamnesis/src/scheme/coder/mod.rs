//! Decoders and encoders of tiles, and the nouns they share: windows, grids of scales, codes as data.

mod blocks;
mod braid;
mod coding;
mod context;
mod decoder;
mod encoder;
mod grid;
mod identity;
mod inner;
mod integers;
mod library;
mod plain;
mod scale;
mod turned;

pub(crate) use blocks::{Blocked, FourBitFloats, OF_INPUTS, Reblocked, Reciprocals, WholeScale};
pub(crate) use braid::{Braid, Braided};
pub use coding::{Coding, Evidence};
pub(crate) use context::Context;
pub(crate) use decoder::{Prepare, Prepared, Recipe, TileDecoder, Window, filled, mishandled, rounded, row_granule};
pub(crate) use encoder::{EncodedTensor, FirstPass, TileEncoder};
pub(crate) use grid::{Arrangement, Grid};
pub(crate) use identity::Identity;
pub(crate) use inner::{Inner, bytes_of_each};
pub(crate) use integers::{Integers, Lie, MadeIntegers, Zeros};
pub(crate) use library::{AsLibrary, InLibrary, Rounded};
pub(crate) use plain::PlainDecoder;
pub(crate) use scale::ScaleType;
pub(crate) use turned::Turned;
