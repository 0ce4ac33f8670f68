//! Decoding by the arithmetic of a scheme's own library, if it differs from F32 with one rounding at the end.
//!
//! Most libraries calculate in the type of their scales. A single product of code and scale is exact in F32, so only
//! its result is rounded to that type ([`LibraryArithmetic::RoundedTo`]); with several operations, each result is
//! rounded ([`LibraryArithmetic::Decoder`]).

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::float::{bf16, f16};

use super::context::Context;
use super::decoder::{LibraryArithmetic, Prepare, Prepared, Recipe, TileDecoder, Window};
use super::filled::filled;
use crate::catalog::TargetDtype;
use crate::error::Result;

impl Recipe {
    /// The recipe of a decoder with the arithmetic of the scheme's library.
    pub(in crate::scheme) fn by_library(self) -> Self {
        match self {
            Self::Ready(decoder) => Self::Ready(library_arithmetic(decoder)),
            Self::Deferred(prepare) => Self::Deferred(Arc::new(LibraryPrepare(prepare))),
        }
    }
}

fn library_arithmetic(decoder: Arc<dyn TileDecoder>) -> Arc<dyn TileDecoder> {
    match decoder.library_arithmetic() {
        LibraryArithmetic::Same => decoder,
        LibraryArithmetic::RoundedTo(first) => Rounded::to(first, decoder),
        LibraryArithmetic::Decoder(decoder) => decoder,
    }
}

/// Builds a decoder with the library's arithmetic.
struct LibraryPrepare(Arc<dyn Prepare>);

impl Prepare for LibraryPrepare {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let prepared = self.0.prepare(read)?;
        Ok(Prepared { decoder: library_arithmetic(prepared.decoder), ..prepared })
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Wraps a decoder and rounds its values to one type before they are rounded to the output type.
pub(crate) struct Rounded {
    decoder: Arc<dyn TileDecoder>,
    first: TargetDtype,
    /// Whether the rounding applies only to decoding by the library's arithmetic.
    library_only: bool,
}

impl Rounded {
    /// Rounds to `first` whatever output type is requested.
    pub(crate) fn to(first: TargetDtype, decoder: Arc<dyn TileDecoder>) -> Arc<dyn TileDecoder> {
        match first {
            TargetDtype::F32 => decoder,
            TargetDtype::BF16 | TargetDtype::F16 => Arc::new(Self { decoder, first, library_only: false }),
        }
    }

    /// Rounds to `first` only in the library's arithmetic, in place of the inner decoder's own library arithmetic.
    pub(crate) fn in_library(first: TargetDtype, decoder: Arc<dyn TileDecoder>) -> Arc<dyn TileDecoder> {
        Arc::new(Self { decoder, first, library_only: true })
    }
}

impl Hash for Rounded {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.decoder.identify(hasher);
        (self.first, self.library_only).hash(hasher);
    }
}

impl TileDecoder for Rounded {
    fn granule(&self) -> u64 {
        self.decoder.granule()
    }

    fn tile_bytes(&self) -> u64 {
        self.decoder.tile_bytes()
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        self.decoder.windows(elements, windows);
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        if self.library_only {
            return self.decoder.decode(elements, inputs, target, out, context);
        }
        // Values of `first` have two bytes. For an output of F32 they are decoded into the upper half of `out` and
        // widened in place from the front.
        let start = if target == TargetDtype::F32 { out.len() / 2 } else { 0 };
        let end = start + 2 * (elements.end - elements.start) as usize;
        filled(self.decoder.decode(elements, inputs, self.first, &mut out[start..end], context)?, end - start)?;
        let widen = if self.first == TargetDtype::BF16 { bf16::decode } else { f16::decode };
        match target {
            target if target == self.first => {}
            TargetDtype::F32 => {
                for at in 0..out.len() / 4 {
                    let value = widen(u16::from_le_bytes([out[start + 2 * at], out[start + 2 * at + 1]]));
                    out[4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
                }
            }
            target => {
                let narrow = if target == TargetDtype::BF16 { bf16::encode } else { f16::encode };
                for bytes in out.as_chunks_mut::<2>().0 {
                    *bytes = narrow(widen(u16::from_le_bytes(*bytes))).to_le_bytes();
                }
            }
        }
        Ok(out.len())
    }

    fn describe(&self) -> String {
        self.decoder.describe()
    }

    fn library_arithmetic(&self) -> LibraryArithmetic {
        match self.library_only {
            true => LibraryArithmetic::Decoder(Self::to(self.first, self.decoder.clone())),
            false => LibraryArithmetic::Same,
        }
    }
}
