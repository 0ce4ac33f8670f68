//! Values in the order in which they are packed together, where that is not the order they have: bytes whose fields
//! belong to rows far apart.
//!
//! Rows are cut into as many equal runs as there are fields. The first row of every run comes first, then the second of
//! each.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::context::Context;
use super::decoder::{TileDecoder, Window};
use super::filled::filled;
use crate::catalog::TargetDtype;
use crate::error::Result;

/// An order of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FieldOrder {
    /// Fields of a byte, each of its own run.
    pub fields: u64,
    /// Values of a row.
    pub row: u64,
    /// Values of a run: whole rows.
    pub run: u64,
}

impl FieldOrder {
    /// Values of all rows that are packed together.
    pub(crate) const fn together(&self) -> u64 {
        self.fields * self.row
    }

    /// Which value comes at this place.
    pub(crate) const fn value_at(&self, place: u64) -> u64 {
        let (row, within) = (place / self.row, place % self.row);
        row % self.fields * self.run + row / self.fields * self.row + within
    }
}

/// What another decoder gives, in such an order.
pub(crate) struct InFieldOrder {
    decoder: Arc<dyn TileDecoder>,
    braid: FieldOrder,
}

impl Hash for InFieldOrder {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.decoder.identify(hasher);
        self.braid.hash(hasher);
    }
}

impl InFieldOrder {
    pub(crate) fn new(decoder: Arc<dyn TileDecoder>, braid: FieldOrder) -> Self {
        Self { decoder, braid }
    }

    /// The values of a run that these places need, and those that must be decoded to have them.
    fn of_run(&self, field: u64, places: &Range<u64>) -> (Range<u64>, Range<u64>) {
        let FieldOrder { row, run, fields } = self.braid;
        let row_of = |place: u64| place / self.braid.together() * row;
        let needed = field * run + row_of(places.start)..field * run + row_of(places.end);
        let granule = self.decoder.granule().max(1);
        let end = (needed.end.div_ceil(granule) * granule).min(fields * run);
        let decoded = needed.start / granule * granule..end.max(needed.end);
        (needed, decoded)
    }
}

impl TileDecoder for InFieldOrder {
    fn granule(&self) -> u64 {
        // As much of every run as the decoder gives at once, where that is whole rows.
        let (row, granule) = (self.braid.row, self.decoder.granule());
        self.braid.fields * if granule.is_multiple_of(row) { granule } else { row }
    }

    fn tile_bytes(&self) -> u64 {
        self.decoder.tile_bytes()
    }

    fn windows(&self, places: Range<u64>, windows: &mut Vec<Window>) {
        for field in 0..self.braid.fields {
            self.decoder.windows(self.of_run(field, &places).1, windows);
        }
    }

    fn decode(
        &self,
        places: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let (row, fields) = (self.braid.row as usize * target.byte_size(), self.braid.fields as usize);
        let (mut inputs, mut windows, mut written) = (inputs, Vec::new(), 0);
        for field in 0..fields {
            let (needed, decoded) = self.of_run(field as u64, &places);
            windows.clear();
            self.decoder.windows(decoded.clone(), &mut windows);
            let (own, others) = inputs.split_at(windows.len().min(inputs.len()));
            inputs = others;
            let before = (needed.start - decoded.start) as usize * target.byte_size();
            let mut values = context.lend((decoded.end - decoded.start) as usize * target.byte_size());
            filled(self.decoder.decode(decoded, own, target, &mut values, context)?, values.len())?;
            let rows = values[before..].chunks_exact(row).zip(out.chunks_exact_mut(row).skip(field).step_by(fields));
            for (values, out) in rows {
                out.copy_from_slice(values);
                written += row;
            }
            context.take_back(values);
        }
        Ok(written)
    }

    fn describe(&self) -> String {
        self.decoder.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain::PlainDecoder;
    use super::*;
    use crate::catalog::Dtype;

    /// A decoder that is cut at other places than rows.
    #[derive(Hash)]
    struct Coarse(PlainDecoder);

    impl TileDecoder for Coarse {
        fn granule(&self) -> u64 {
            7
        }

        fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
            assert!(elements.start.is_multiple_of(7) && (elements.end.is_multiple_of(7) || elements.end == 48));
            self.0.windows(elements, windows);
        }

        fn decode(
            &self,
            elements: Range<u64>,
            inputs: &[&[u8]],
            target: TargetDtype,
            out: &mut [u8],
            context: &mut Context,
        ) -> Result<usize> {
            self.0.decode(elements, inputs, target, out, context)
        }

        fn describe(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn values_come_row_by_row_of_every_run_however_they_are_cut() {
        let braid = FieldOrder { fields: 4, row: 3, run: 12 };
        let stored: Vec<u8> = (0..48u32).flat_map(|value| (value as f32).to_le_bytes()).collect();
        let wanted: Vec<u8> = (0..48).flat_map(|place| (braid.value_at(place) as f32).to_le_bytes()).collect();
        let plain = PlainDecoder::of(Dtype::F32).unwrap();
        for decoder in [Arc::new(plain) as Arc<dyn TileDecoder>, Arc::new(Coarse(plain))] {
            let braided = InFieldOrder::new(decoder, braid);
            for step in [12, 24, 48] {
                let mut found = Vec::new();
                for start in (0..48).step_by(step) {
                    let places = start..start + step as u64;
                    let mut windows = Vec::new();
                    braided.windows(places.clone(), &mut windows);
                    let inputs: Vec<&[u8]> = windows.iter().filter_map(|window| window.of(&[&stored])).collect();
                    let mut out = vec![0; step * 4];
                    braided.decode(places, &inputs, TargetDtype::F32, &mut out, &mut Context::default()).unwrap();
                    found.extend(out);
                }
                assert_eq!(found, wanted, "{step}");
            }
        }
    }
}
