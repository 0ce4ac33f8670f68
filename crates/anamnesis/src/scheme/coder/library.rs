//! Decoding by the arithmetic of a scheme's own library, where that is not F32 and one rounding at the end.
//!
//! Most libraries calculate in the type of their scales. A product of a code and a scale is the same in F32, so that
//! only its result has to be rounded ([`AsLibrary::In`]); where there are several operations each is rounded
//! ([`AsLibrary::Otherwise`]).

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::float::{bf16, f16};

use super::context::Context;
use super::decoder::{AsLibrary, Prepare, Prepared, Recipe, TileDecoder, Window};
use super::filled::filled;
use crate::catalog::TargetDtype;
use crate::error::Result;

impl Recipe {
    /// The recipe by the arithmetic of the scheme's library.
    pub(in crate::scheme) fn by_library(self) -> Self {
        match self {
            Self::Ready(decoder) => Self::Ready(as_library(decoder)),
            Self::Deferred(prepare) => Self::Deferred(Arc::new(ByLibrary(prepare))),
        }
    }
}

fn as_library(decoder: Arc<dyn TileDecoder>) -> Arc<dyn TileDecoder> {
    match decoder.as_library() {
        AsLibrary::Same => decoder,
        AsLibrary::In(first) => Rounded::to(first, decoder),
        AsLibrary::Otherwise(decoder) => decoder,
    }
}

/// Makes a decoder of the library's arithmetic.
struct ByLibrary(Arc<dyn Prepare>);

impl Prepare for ByLibrary {
    fn prepare(&self, read: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Prepared> {
        let prepared = self.0.prepare(read)?;
        Ok(Prepared { decoder: as_library(prepared.decoder), ..prepared })
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Rounds to one type first, then to the output: always, or as the scheme's library does.
pub(crate) struct Rounded {
    decoder: Arc<dyn TileDecoder>,
    first: TargetDtype,
    is_of_library: bool,
}

impl Rounded {
    /// A decoder whose results are of this type, whatever is asked for.
    pub(crate) fn to(first: TargetDtype, decoder: Arc<dyn TileDecoder>) -> Arc<dyn TileDecoder> {
        match first {
            TargetDtype::F32 => decoder,
            TargetDtype::BF16 | TargetDtype::F16 => Arc::new(Self { decoder, first, is_of_library: false }),
        }
    }

    /// A decoder whose library calculates in F32 and gives this type, not what the decoder would say.
    pub(crate) fn in_library(first: TargetDtype, decoder: Arc<dyn TileDecoder>) -> Arc<dyn TileDecoder> {
        Arc::new(Self { decoder, first, is_of_library: true })
    }
}

impl Hash for Rounded {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.decoder.identify(hasher);
        (self.first, self.is_of_library).hash(hasher);
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
        if self.is_of_library {
            return self.decoder.decode(elements, inputs, target, out, context);
        }
        // The first type takes two bytes. They go where they will be, or into the upper half, and widen from below.
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

    fn as_library(&self) -> AsLibrary {
        match self.is_of_library {
            true => AsLibrary::Otherwise(Self::to(self.first, self.decoder.clone())),
            false => AsLibrary::Same,
        }
    }
}
