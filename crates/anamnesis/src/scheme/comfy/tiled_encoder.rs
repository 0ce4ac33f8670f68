//! Encoding weights whose scales are stored in cuBLAS tiles: whole tiles of 128 rows at a time.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use crate::catalog::TargetDtype;
use crate::error::Result;
use crate::scheme::coder::{
    Context, EncodedTensor, FirstPass, Swizzled, TileDecoder, TileEncoder, Window, filled, mishandled,
};
use crate::scheme::grouped::{Extremes, GroupedEncoder};

/// The outputs that hold codes and scales.
const CODES: usize = 0;
const SCALES: usize = 1;

/// Wraps the encoder of a weight with scales in rows.
pub(super) struct TiledEncoder {
    pub inner: GroupedEncoder,
    /// The outputs: those of the inner encoder, with the scales in tiles.
    pub outputs: Vec<EncodedTensor>,
    /// Whether two codes share a byte, the first in the high half.
    pub has_high_nibbles: bool,
    /// The decoder of the outputs.
    pub decoder: Arc<dyn TileDecoder>,
}

impl Hash for TiledEncoder {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.inner, &self.outputs, self.has_high_nibbles).hash(hasher);
        self.decoder.identify(hasher);
    }
}

impl TiledEncoder {
    fn tiles(&self) -> Swizzled {
        Swizzled { part: SCALES, cols: self.inner.grid.grid_cols }
    }

    /// Clears the codes of blocks whose scale is zero, and exchanges the halves of every byte.
    fn finish_nibbles(&self, scales: &[u8], codes: &mut [u8]) {
        let block = self.inner.grid.block_cols as usize / 2;
        for (codes, scale) in codes.chunks_exact_mut(block.max(1)).zip(scales) {
            match scale & 0x7F {
                0 => codes.fill(0),
                _ => codes.iter_mut().for_each(|codes| *codes = codes.rotate_left(4)),
            }
        }
    }
}

impl TileEncoder for TiledEncoder {
    fn outputs(&self) -> &[EncodedTensor] {
        &self.outputs
    }

    fn granule(&self) -> u64 {
        Swizzled::ROWS * self.inner.grid.cols
    }

    fn scale_values(&self) -> u64 {
        self.inner.scale_values()
    }

    fn places(&self, range: &Range<u64>, places: &mut Vec<Window>) {
        let first = places.len();
        self.inner.places(range, places);
        if let Some(place) = places.get_mut(first + SCALES) {
            *place = self.tiles().window(&(place.offset..place.offset + place.bytes()));
        }
    }

    fn first_pass(&self) -> Option<Box<dyn FirstPass + '_>> {
        self.inner.first_pass()?;
        Some(Box::new(LargestPass { encoder: self, largest: 0.0 }))
    }

    fn encode(
        &self,
        range: &Range<u64>,
        values: &[f32],
        outs: &mut [&mut [u8]],
        context: &mut Context,
    ) -> Result<usize> {
        let mut places = Vec::new();
        self.inner.places(range, &mut places);
        let place = places.get(SCALES).ok_or_else(|| mishandled("no scales"))?;
        let mut scales = context.lend(place.bytes() as usize);
        let [codes, tiles, rest @ ..] = outs else { return Err(mishandled("fewer outputs than it asked for")) };
        let mut written = {
            let mut inner: Vec<&mut [u8]> = vec![&mut **codes, &mut scales];
            inner.extend(rest.iter_mut().map(|out| &mut **out));
            self.inner.encode(range, values, &mut inner, context)?
        };
        written = written.saturating_sub(scales.len());
        if self.has_high_nibbles {
            self.finish_nibbles(&scales, codes);
        }
        self.tiles().store(&(place.offset..place.offset + place.bytes()), &scales, tiles)?;
        context.take_back(scales);
        Ok(written + tiles.len())
    }

    fn decode(
        &self,
        range: &Range<u64>,
        outs: &[&mut [u8]],
        decoded: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        // The global scale is written with the first tile only, but every tile needs it.
        let global = self.inner.rule.global_scale(self.inner.seen.unwrap_or(Extremes::NONE)).map(f32::to_le_bytes);
        let mut inputs: Vec<&[u8]> = [CODES, SCALES].iter().filter_map(|at| outs.get(*at)).map(|out| &**out).collect();
        filled(inputs.len(), 2)?;
        inputs.extend(global.as_ref().map(|global| &global[..]));
        self.decoder.decode(range.clone(), &inputs, TargetDtype::F32, decoded, context)
    }

    fn decoder(&self) -> Option<&dyn TileDecoder> {
        Some(&*self.decoder)
    }
}

/// Finds the largest magnitude of a weight.
struct LargestPass<'a> {
    encoder: &'a TiledEncoder,
    largest: f32,
}

impl FirstPass for LargestPass<'_> {
    fn see(&mut self, _: &[f32], largest: f32, _: &mut Context) -> Result<()> {
        self.see_largest(largest);
        Ok(())
    }

    fn see_largest(&mut self, largest: f32) {
        self.largest = self.largest.max(largest);
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn TileEncoder>> {
        let TiledEncoder { inner, outputs, has_high_nibbles, decoder } = self.encoder;
        let seen = Some(Extremes { low: -self.largest, high: self.largest });
        Ok(Box::new(TiledEncoder {
            inner: GroupedEncoder { seen, ..inner.clone() },
            outputs: outputs.clone(),
            has_high_nibbles: *has_high_nibbles,
            decoder: decoder.clone(),
        }))
    }
}
