//! The order of values in packings whose bytes have bit fields of rows that are far apart.
//!
//! The rows are divided into as many equal runs as a byte has fields. The order is: the first row of every run, then
//! the second row of every run, and so on.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use super::context::Context;
use super::decoder::{TileDecoder, Window};
use super::filled::filled;
use crate::catalog::TargetDtype;
use crate::error::Result;

/// The order of values for packing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FieldOrder {
    /// Fields per byte; each belongs to another run.
    pub fields: u64,
    /// Values per row.
    pub row: u64,
    /// Values per run, a multiple of the row length.
    pub run: u64,
}

impl FieldOrder {
    /// The values of one row of every run, which are packed into the same bytes.
    pub(crate) const fn set_values(&self) -> u64 {
        self.fields * self.row
    }

    /// The index of the value at this position of the order.
    pub(crate) const fn value_at(&self, place: u64) -> u64 {
        let (row, within) = (place / self.row, place % self.row);
        row % self.fields * self.run + row / self.fields * self.row + within
    }
}

/// Wraps a decoder and reorders its values.
pub(crate) struct InFieldOrder {
    decoder: Arc<dyn TileDecoder>,
    order: FieldOrder,
}

impl Hash for InFieldOrder {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.decoder.identify(hasher);
        self.order.hash(hasher);
    }
}

impl InFieldOrder {
    pub(crate) fn new(decoder: Arc<dyn TileDecoder>, order: FieldOrder) -> Self {
        Self { decoder, order }
    }

    /// The values of a run at these positions, and the range that must be decoded for them because of the granule of
    /// the inner decoder.
    fn run_ranges(&self, field: u64, places: &Range<u64>) -> (Range<u64>, Range<u64>) {
        let FieldOrder { row, run, fields } = self.order;
        let row_of = |place: u64| place / self.order.set_values() * row;
        let needed = field * run + row_of(places.start)..field * run + row_of(places.end);
        let granule = self.decoder.granule().max(1);
        let end = (needed.end.div_ceil(granule) * granule).min(fields * run);
        let decoded = needed.start / granule * granule..end.max(needed.end);
        (needed, decoded)
    }
}

impl TileDecoder for InFieldOrder {
    fn granule(&self) -> u64 {
        // The granule of the inner decoder from every run if it is a whole number of rows, otherwise a row of every
        // run.
        let (row, granule) = (self.order.row, self.decoder.granule());
        self.order.fields * if granule.is_multiple_of(row) { granule } else { row }
    }

    fn tile_bytes(&self) -> u64 {
        self.decoder.tile_bytes()
    }

    fn windows(&self, places: Range<u64>, windows: &mut Vec<Window>) {
        for field in 0..self.order.fields {
            self.decoder.windows(self.run_ranges(field, &places).1, windows);
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
        let (row, fields) = (self.order.row as usize * target.byte_size(), self.order.fields as usize);
        let (mut inputs, mut windows, mut written) = (inputs, Vec::new(), 0);
        for field in 0..fields {
            let (needed, decoded) = self.run_ranges(field as u64, &places);
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

    /// A decoder whose granule does not divide into rows.
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
        let order = FieldOrder { fields: 4, row: 3, run: 12 };
        let stored: Vec<u8> = (0..48u32).flat_map(|value| (value as f32).to_le_bytes()).collect();
        let wanted: Vec<u8> = (0..48).flat_map(|place| (order.value_at(place) as f32).to_le_bytes()).collect();
        let plain = PlainDecoder::of(Dtype::F32).unwrap();
        for decoder in [Arc::new(plain) as Arc<dyn TileDecoder>, Arc::new(Coarse(plain))] {
            let ordered = InFieldOrder::new(decoder, order);
            for step in [12, 24, 48] {
                let mut found = Vec::new();
                for start in (0..48).step_by(step) {
                    let places = start..start + step as u64;
                    let mut windows = Vec::new();
                    ordered.windows(places.clone(), &mut windows);
                    let inputs: Vec<&[u8]> = windows.iter().filter_map(|window| window.of(&[&stored])).collect();
                    let mut out = vec![0; step * 4];
                    ordered.decode(places, &inputs, TargetDtype::F32, &mut out, &mut Context::default()).unwrap();
                    found.extend(out);
                }
                assert_eq!(found, wanted, "{step}");
            }
        }
    }
}
