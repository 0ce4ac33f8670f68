//! How plain numbers become a quantised weight: in tiles, into several tensors at once.

use std::ops::Range;

use super::context::Context;
use super::decoder::{TileDecoder, Window};
use super::field_order::FieldOrder;
use super::filled::mishandled;
use super::identity::Identity;
use super::integers::MadeIntegers;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;

/// Encodes any tile of one weight. It neither reads nor writes nor allocates: the pipeline brings the values and takes
/// the bytes.
pub(crate) trait TileEncoder: Identity + Send + Sync {
    /// The tensors it makes, the codes first.
    fn outputs(&self) -> &[EncodedTensor];

    /// Values are handed over in multiples of this many; only the last may be fewer.
    fn granule(&self) -> u64;

    /// Values that share a scale, so that one of them that is no number would spoil the others.
    fn scale_values(&self) -> u64;

    /// The order in which values are handed over, where it is not their own.
    fn braid(&self) -> Option<FieldOrder> {
        None
    }

    /// The bytes of every output that the values of `range` become, in the order of the outputs, which are the parts of
    /// these windows. What belongs to no values in particular comes with the first.
    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>);

    /// What must see all values before the first is encoded, where something must. They then come from front to back
    /// twice, to one worker.
    fn first_pass(&self) -> Option<Box<dyn FirstPass + '_>> {
        None
    }

    /// Encodes the values of `range` into their places. Returns how many bytes of all of them were written: the caller
    /// refuses places that are not filled.
    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize>;

    /// The decoder whose parts are its outputs, but for constants behind them.
    fn decoder(&self) -> Option<&dyn TileDecoder> {
        None
    }

    /// What the encoded values of `range` decode to, as F32, and how many bytes that are.
    fn decode(
        &self,
        range: &Range<u64>,
        outs: &[&mut [u8]],
        decoded: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let Some(decoder) = self.decoder() else { return Err(mishandled("codes to decode, which")) };
        let mut windows = Vec::new();
        decoder.windows(range.clone(), &mut windows);
        let inputs: Vec<&[u8]> = outs.iter().take(windows.len()).map(|out| &**out).collect();
        decoder.decode(range.clone(), &inputs, TargetDtype::F32, decoded, context)
    }

    /// Its codes, where they are whole numbers that other schemes pack too. Its outputs are the parts, and constants
    /// behind them.
    fn integers(&self) -> Option<MadeIntegers> {
        None
    }

    /// The scheme in detail, for people.
    fn describe(&self) -> String {
        self.decoder().map_or_else(String::new, TileDecoder::describe)
    }
}

/// A tensor that an encoder makes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EncodedTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
}

/// Sees all values of a tensor before they are encoded.
pub(crate) trait FirstPass {
    /// Takes the next values, whole granules of them, the largest magnitude among which is known.
    fn see(&mut self, values: &[f32], largest: f32, context: &mut Context) -> Result<()>;

    /// Takes the largest magnitude of all weights that share a global scale, in place of the values. Only asked of
    /// encoders that a quantiser made to share.
    fn see_largest(&mut self, largest: f32) {
        let _ = largest;
    }

    /// The encoder that knows what was seen, once all values were taken. It makes the same outputs and needs no first
    /// pass.
    fn finish(self: Box<Self>) -> Result<Box<dyn TileEncoder>>;
}
