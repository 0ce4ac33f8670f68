//! The decoder interface: a weight is decoded in tiles, each from byte windows of its parts.

use std::ops::Range;
use std::sync::Arc;

use super::coding::Coding;
use super::context::Context;
use super::identity::Identity;
use super::integers::Integers;
use super::scale::{ScaleOp, ScaleType};
use anamnesis_kernels::Level;
use anamnesis_kernels::chosen::Rounded;
use anamnesis_kernels::float::{bf16, f16};

use crate::catalog::{BlockType, TargetDtype};
use crate::error::{AnamnesisError, Result};

/// The decoder of a claimed weight, or the way to build it.
pub(crate) enum Recipe {
    /// Names, types and shapes determine the decoder.
    Ready(Arc<dyn TileDecoder>),
    /// Small companions must be read to build the decoder.
    Deferred(Arc<dyn Prepare>),
}

impl Recipe {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Ready(decoder) => decoder.describe(),
            Self::Deferred(prepare) => prepare.describe(),
        }
    }
}

/// Builds the decoder of a weight whose geometry is stored in small companions. Called once, while planning.
pub(crate) trait Prepare: Send + Sync {
    /// Reads and checks the companions. `read` returns the bytes of a part of the weight.
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared>;

    /// A human-readable description of the format.
    fn describe(&self) -> String;
}

/// A weight whose companions have been read.
pub(crate) struct Prepared {
    pub shape: Vec<usize>,
    pub decoder: Arc<dyn TileDecoder>,
    /// The coding, if the companions determine more of it than was known when the weight was claimed.
    pub coding: Option<Coding>,
}

/// Decodes any tile of one weight. It performs no I/O and allocates nothing: the pipeline reads the windows that it
/// asks for.
pub(crate) trait TileDecoder: Identity + Send + Sync {
    /// The output elements at whose multiples tiles may be cut.
    fn granule(&self) -> u64;

    /// The preferred size of a tile in output bytes. The default keeps input, tile and scratch memory in the L2 cache;
    /// decoders that gather their input from short rows prefer larger tiles.
    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    /// Appends the windows that the output `elements` are decoded from, in the order in which [`decode`](Self::decode)
    /// expects them.
    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>);

    /// Decodes the output `elements` from the contents of their windows into `out`, whose length is exactly theirs.
    /// Returns how many bytes of `out` were written; the caller refuses a tile that is not `filled`.
    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize>;

    /// Whether the values are stored in a float type that `target` represents exactly, so that [`widen`](Self::widen)
    /// can decode them.
    fn is_exact_in(&self, target: TargetDtype) -> bool {
        let _ = target;
        false
    }

    /// Widens values that are stored in a float type to F32, and returns how many were written.
    fn widen(&self, inputs: &[&[u8]], out: &mut [f32], level: Level) -> Result<usize> {
        let _ = (inputs, out, level);
        Err(AnamnesisError::parse("values that are not stored in a float type cannot be widened"))
    }

    /// A human-readable description of the format.
    fn describe(&self) -> String;

    /// The codes and scales, if other schemes can store them unchanged.
    fn codes(&self) -> Codes {
        Codes::Own
    }

    /// The arithmetic by which the scheme's own library decodes this weight.
    fn library_arithmetic(&self) -> LibraryArithmetic {
        LibraryArithmetic::Same
    }
}

/// The codes and scales of a weight, by the schemes that can store them unchanged.
pub(crate) enum Codes {
    /// Only its own scheme can store them.
    Own,
    /// They fit ggml blocks.
    Blocks(GgmlBlocks),
    /// Integer codes that other schemes pack too.
    Integers(Integers),
}

impl Codes {
    pub(crate) fn blocks(self) -> Option<GgmlBlocks> {
        match self {
            Self::Blocks(blocked) => Some(blocked),
            Self::Own | Self::Integers(_) => None,
        }
    }

    pub(crate) fn integers(self) -> Option<Integers> {
        match self {
            Self::Integers(integers) => Some(integers),
            Self::Own | Self::Blocks(_) => None,
        }
    }
}

/// A weight as ggml blocks.
pub(crate) struct GgmlBlocks {
    pub block: BlockType,
    /// Produces the blocks; its elements are bytes.
    pub bytes: Arc<dyn TileDecoder>,
    /// The part index of the global scale, which is stored outside the blocks, and its operation.
    pub global: Option<(usize, ScaleOp)>,
    /// Whether the decoded weight is transposed, relative to the blocks.
    pub is_transposed: bool,
}

/// The arithmetic of a scheme's own library.
pub(crate) enum LibraryArithmetic {
    /// The default: F32, rounded once to the requested type.
    Same,
    /// F32, rounded to this type first, whatever type is requested.
    RoundedTo(TargetDtype),
    /// The arithmetic of this decoder.
    Decoder(Arc<dyn TileDecoder>),
}

impl LibraryArithmetic {
    /// The arithmetic of a library that multiplies in the type of its scales.
    pub(crate) fn in_type_of(scale: Option<ScaleType>) -> Self {
        match scale {
            Some(ScaleType::Bf16) => Self::RoundedTo(TargetDtype::BF16),
            Some(ScaleType::F16) => Self::RoundedTo(TargetDtype::F16),
            _ => Self::Same,
        }
    }
}

/// The default size of a tile in output bytes.
pub(super) const TILE_BYTES: u64 = 256 << 10;
/// Output bytes of a tile for each byte of the tables that every tile reads, and the largest tile.
const TILE_PER_TABLE: u64 = 4;
const LARGEST_TILE_BYTES: u64 = 4 << 20;
/// The longest row that is not cut.
const LONGEST_ROW_ELEMENTS: u64 = 1 << 17;
/// Longer rows are cut at multiples of this many elements.
const CUT_ELEMENTS: u64 = 1 << 10;

/// The [size of a tile](TileDecoder::tile_bytes) where every tile reads tables of that many bytes.
pub(crate) fn tile_with_tables(bytes: u64) -> u64 {
    bytes.saturating_mul(TILE_PER_TABLE).clamp(TILE_BYTES, LARGEST_TILE_BYTES)
}

/// The [granule](TileDecoder::granule) of a matrix that is decoded row by row.
pub(crate) const fn row_granule(cols: u64) -> u64 {
    match cols {
        0 => 1,
        1..=LONGEST_ROW_ELEMENTS => cols,
        _ => CUT_ELEMENTS,
    }
}

/// A strided range of bytes of one part of a weight: rows of equal length at a constant stride. The decoder receives
/// the rows without the gaps between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Index into the weight's parts.
    pub part: usize,
    /// Offset of the first row inside the part.
    pub offset: u64,
    pub row_bytes: u64,
    /// Bytes from the start of a row to the start of the next.
    pub stride: u64,
    pub rows: u64,
}

impl Window {
    /// A contiguous window.
    pub(crate) fn run(part: usize, offset: u64, bytes: u64) -> Self {
        Self { part, offset, row_bytes: bytes, stride: bytes, rows: 1 }
    }

    /// The contiguous window of a byte range.
    pub(crate) fn between(part: usize, range: Range<u64>) -> Self {
        Self::run(part, range.start, range.end - range.start)
    }

    /// A range of columns of a matrix whose rows have `stride` bytes.
    pub(crate) fn columns(part: usize, offset: u64, row_bytes: u64, stride: u64, rows: u64) -> Self {
        if row_bytes == stride {
            return Self::run(part, offset, row_bytes * rows);
        }
        Self { part, offset, row_bytes, stride, rows }
    }

    /// The number of bytes without the gaps.
    pub(crate) fn bytes(&self) -> u64 {
        self.row_bytes * self.rows
    }

    /// The bytes of a contiguous window; `None` if it has several rows or is outside its part.
    pub(crate) fn of<'a>(&self, parts: &[&'a [u8]]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.row_bytes).ok()?)?;
        parts.get(self.part)?.get(start..end).filter(|_| self.rows == 1)
    }

    /// The number of bytes from the first to the last, including the gaps.
    pub(crate) fn span(&self) -> Option<u64> {
        match self.rows {
            0 => Some(0),
            rows => (rows - 1).checked_mul(self.stride)?.checked_add(self.row_bytes),
        }
    }
}

/// Rounds a number to the nearest of a type.
#[inline(always)]
pub(crate) fn rounded_to(number: f32, dtype: TargetDtype) -> f32 {
    match dtype {
        TargetDtype::F32 => number,
        TargetDtype::BF16 => bf16::decode(bf16::encode(number)),
        TargetDtype::F16 => f16::decode(f16::encode(number)),
    }
}

/// The kernels' type of an output type.
pub(crate) const fn rounded(target: TargetDtype) -> Rounded {
    match target {
        TargetDtype::BF16 => Rounded::Bf16,
        TargetDtype::F16 => Rounded::F16,
        TargetDtype::F32 => Rounded::F32,
    }
}
