//! The encoder interface: a weight is encoded in tiles, into several output tensors at once.

use std::ops::Range;

use super::context::Context;
use super::decoder::{TileDecoder, Window};
use super::field_order::FieldOrder;
use super::filled::mishandled;
use super::identity::Identity;
use super::integers::EncodedIntegers;
use crate::catalog::{Dtype, TargetDtype};
use crate::error::Result;

/// Encodes any tile of one weight. It performs no I/O and allocates nothing: the pipeline passes the values and writes
/// the bytes.
pub(crate) trait TileEncoder: Identity + Send + Sync {
    /// The output tensors, the codes first.
    fn outputs(&self) -> &[EncodedTensor];

    /// The number of values at whose multiples tiles may be cut; only the last tile may be shorter.
    fn granule(&self) -> u64;

    /// The number of values that share a scale: a NaN among them would ruin the others.
    fn scale_values(&self) -> u64;

    /// The order in which the encoder needs the values, if it is not the order in which they are stored.
    fn field_order(&self) -> Option<FieldOrder> {
        None
    }

    /// Appends the windows of the outputs that the values of `range` are written to, one per output; the part index of
    /// a window is the index of the output. Data that depends on no value in particular is written with the first tile.
    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>);

    /// A first pass over all values, if the encoder needs one before the first tile. One worker then reads the values
    /// twice, in order.
    fn first_pass(&self) -> Option<Box<dyn FirstPass + '_>> {
        None
    }

    /// Encodes the values of `range` to the windows of [`places`](Self::places). Returns how many bytes were written in
    /// total; the caller refuses a tile that is not filled.
    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize>;

    /// The decoder of the encoded weight. Its parts are the outputs, except the constants at the end.
    fn decoder(&self) -> Option<&dyn TileDecoder> {
        None
    }

    /// Decodes the encoded values of `range` to F32, to measure the error. Returns how many bytes were written.
    fn decode(
        &self,
        range: &Range<u64>,
        outs: &[&mut [u8]],
        decoded: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let Some(decoder) = self.decoder() else { return Err(mishandled("codes without a decoder")) };
        let mut windows = Vec::new();
        decoder.windows(range.clone(), &mut windows);
        let inputs: Vec<&[u8]> = outs.iter().take(windows.len()).map(|out| &**out).collect();
        decoder.decode(range.clone(), &inputs, TargetDtype::F32, decoded, context)
    }

    /// The codes, if they are integers that other schemes pack too. The parts are the outputs, followed by constants.
    fn integers(&self) -> Option<EncodedIntegers> {
        None
    }

    /// A human-readable description of the format.
    fn describe(&self) -> String {
        self.decoder().map_or_else(String::new, TileDecoder::describe)
    }
}

/// An output tensor of an encoder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EncodedTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
}

/// A pass over all values of a tensor before they are encoded.
pub(crate) trait FirstPass {
    /// Processes the next values, in whole granules; `largest` is their largest magnitude.
    fn see(&mut self, values: &[f32], largest: f32, context: &mut Context) -> Result<()>;

    /// Processes the largest magnitude of all weights that share a global scale, instead of the values. Called only for
    /// encoders whose quantiser gave them a common global scale.
    fn see_largest(&mut self, largest: f32) {
        let _ = largest;
    }

    /// The encoder with the result of the pass, after all values. It has the same outputs and needs no first pass.
    fn finish(self: Box<Self>) -> Result<Box<dyn TileEncoder>>;
}
