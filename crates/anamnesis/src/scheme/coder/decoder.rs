//! How one quantised weight becomes numbers: in tiles, from byte windows of its parts.

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

/// How the decoder of a weight is had.
pub(crate) enum Recipe {
    /// Names, types and shapes said everything.
    Ready(Arc<dyn TileDecoder>),
    /// Small companions must be read first.
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

/// Makes the decoder of a weight whose geometry is written in its small companions. Happens once, while planning.
pub(crate) trait Prepare: Send + Sync {
    /// Reads what it needs through `read`, which gives the bytes of a part of the weight, and checks it.
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared>;

    /// The scheme in detail, for people.
    fn describe(&self) -> String;
}

/// A weight that is ready to be decoded.
pub(crate) struct Prepared {
    pub shape: Vec<usize>,
    pub decoder: Arc<dyn TileDecoder>,
    /// Its codes, where more is known of them now.
    pub coding: Option<Coding>,
}

/// Decodes any tile of one weight. It neither reads nor allocates: the pipeline brings the bytes it asks for.
pub(crate) trait TileDecoder: Identity + Send + Sync {
    /// Tiles are cut at multiples of this many output elements.
    fn granule(&self) -> u64;

    /// Output bytes a tile should have. The default keeps input, tile and scratch in the second-level cache; decoders
    /// that gather their input in short rows want more.
    fn tile_bytes(&self) -> u64 {
        TILE_BYTES
    }

    /// The bytes that the output `elements` need, in the order [`decode`](Self::decode) expects them.
    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>);

    /// Decodes the output `elements` from the contents of their windows into `out`, which is exactly as long as they
    /// take. Returns how many bytes of `out` were written: the caller refuses a tile that is not [`filled`].
    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize>;

    /// Whether its values are stored as numbers that rounding to this type leaves as they are, so that
    /// [`widen`](Self::widen) gives them.
    fn is_exact_in(&self, target: TargetDtype) -> bool {
        let _ = target;
        false
    }

    /// The values of these inputs as numbers, where they are stored as such. Returns how many they are.
    fn widen(&self, inputs: &[&[u8]], out: &mut [f32], level: Level) -> Result<usize> {
        let _ = (inputs, out, level);
        Err(AnamnesisError::parse("values that are not stored as numbers cannot be widened"))
    }

    /// The scheme in detail, for people.
    fn describe(&self) -> String;

    /// Its codes and scales, where other schemes have the same.
    fn codes(&self) -> Codes {
        Codes::Own
    }

    /// How the scheme's own library calculates this weight.
    fn as_library(&self) -> AsLibrary {
        AsLibrary::Same
    }
}

/// The codes and scales of a weight, as far as other schemes have the same.
pub(crate) enum Codes {
    /// No other scheme has them.
    Own,
    /// They fit into blocks of ggml.
    Blocks(Blocked),
    /// Whole numbers that other schemes pack too.
    Integers(Integers),
}

impl Codes {
    pub(crate) fn blocks(self) -> Option<Blocked> {
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

/// What a weight is as blocks.
pub(crate) struct Blocked {
    pub block: BlockType,
    /// Gives the bytes of the blocks: its elements are bytes.
    pub bytes: Arc<dyn TileDecoder>,
    /// The part that holds a scale of all scales, which stands beside the blocks, and what it does to them.
    pub whole: Option<(usize, ScaleOp)>,
    /// Whether the decoded weight has rows and columns of its matrices exchanged.
    pub is_transposed: bool,
}

/// What the library of a scheme does to a weight.
pub(crate) enum AsLibrary {
    /// The same: F32, rounded once to what is asked for.
    Same,
    /// The same, but its result is of this type, whatever is asked for.
    In(TargetDtype),
    /// As this decoder does.
    Otherwise(Arc<dyn TileDecoder>),
}

impl AsLibrary {
    /// Of a library that calculates in the type of its scales.
    pub(crate) fn in_type_of(scale: Option<ScaleType>) -> Self {
        match scale {
            Some(ScaleType::Bf16) => Self::In(TargetDtype::BF16),
            Some(ScaleType::F16) => Self::In(TargetDtype::F16),
            _ => Self::Same,
        }
    }
}

/// Output bytes of a tile, unless a decoder wants others.
pub(super) const TILE_BYTES: u64 = 256 << 10;
/// Rows are cut only when one is longer than this.
const LONGEST_ROW_ELEMENTS: u64 = 1 << 17;
/// Where a long row is cut.
const CUT_ELEMENTS: u64 = 1 << 10;

/// The [granule](TileDecoder::granule) of a matrix that is decoded row by row.
pub(crate) const fn row_granule(cols: u64) -> u64 {
    match cols {
        0 => 1,
        1..=LONGEST_ROW_ELEMENTS => cols,
        _ => CUT_ELEMENTS,
    }
}

/// Bytes of one part of a weight: rows of equal length at equal distances, which the decoder gets without the gaps.
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
    /// One run of bytes.
    pub(crate) fn run(part: usize, offset: u64, bytes: u64) -> Self {
        Self { part, offset, row_bytes: bytes, stride: bytes, rows: 1 }
    }

    /// The bytes of a range.
    pub(crate) fn between(part: usize, range: Range<u64>) -> Self {
        Self::run(part, range.start, range.end - range.start)
    }

    /// Columns of a matrix whose rows take `stride` bytes.
    pub(crate) fn columns(part: usize, offset: u64, row_bytes: u64, stride: u64, rows: u64) -> Self {
        if row_bytes == stride {
            return Self::run(part, offset, row_bytes * rows);
        }
        Self { part, offset, row_bytes, stride, rows }
    }

    /// Bytes the decoder gets.
    pub(crate) fn bytes(&self) -> u64 {
        self.row_bytes * self.rows
    }

    /// Its bytes, where the parts hold it without gaps.
    pub(crate) fn of<'a>(&self, parts: &[&'a [u8]]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.row_bytes).ok()?)?;
        parts.get(self.part)?.get(start..end).filter(|_| self.rows == 1)
    }

    /// Bytes from the first to the last, with the gaps.
    pub(crate) fn span(&self) -> Option<u64> {
        match self.rows {
            0 => Some(0),
            rows => (rows - 1).checked_mul(self.stride)?.checked_add(self.row_bytes),
        }
    }
}

/// A number as its type holds it.
#[inline(always)]
pub(crate) fn held_as(number: f32, dtype: TargetDtype) -> f32 {
    match dtype {
        TargetDtype::F32 => number,
        TargetDtype::BF16 => bf16::decode(bf16::encode(number)),
        TargetDtype::F16 => f16::decode(f16::encode(number)),
    }
}

/// The kernels' word for a target.
pub(crate) const fn rounded(target: TargetDtype) -> Rounded {
    match target {
        TargetDtype::BF16 => Rounded::Bf16,
        TargetDtype::F16 => Rounded::F16,
        TargetDtype::F32 => Rounded::F32,
    }
}
