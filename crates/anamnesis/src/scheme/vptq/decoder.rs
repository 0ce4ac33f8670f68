//! Decoding vectors of centroids to rows.

use std::ops::Range;
use std::sync::Arc;

use anamnesis_kernels::chosen::round_slice;

use super::layer::Layer;
use crate::catalog::TargetDtype;
use crate::error::{AnamnesisError, Result};
use crate::scheme::coder::{Context, ScaleType, TileDecoder, Window, mishandled, rounded, tile_with_tables};

/// The decoder of a weight, before its columns are scaled. Part 0 are the indices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Vectors {
    pub layer: Layer,
    /// The parts of centroids, with their types.
    pub centroids: (usize, ScaleType),
    pub residuals: Option<(usize, ScaleType)>,
    pub outliers: Option<Outliers>,
    /// The input of each stored column.
    pub order: Option<Arc<[u16]>>,
}

/// The parts of outlier columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Outliers {
    pub indices: usize,
    pub centroids: (usize, ScaleType),
}

/// The entry of `bits` bits at a bit of a row of words.
fn field(words: &[u8], bit: usize, bits: u32) -> usize {
    let mut window = [0; 8];
    let start = bit / 8;
    let end = words.len().min(start + 8);
    let bytes = words.get(start..end).unwrap_or_default();
    window[..bytes.len()].copy_from_slice(bytes);
    (u64::from_le_bytes(window) >> (bit % 8) & ((1 << bits) - 1)) as usize
}

impl Vectors {
    fn rows(&self, elements: &Range<u64>) -> Range<u64> {
        elements.start / self.layer.inputs..elements.end.div_ceil(self.layer.inputs)
    }

    fn input(&self, column: usize) -> usize {
        self.order.as_ref().and_then(|order| order.get(column)).map_or(column, |input| usize::from(*input))
    }

    /// The windows of centroids, and how many values each holds.
    fn tables(&self) -> impl Iterator<Item = ((usize, ScaleType), u64)> {
        let Layer { groups, vector, centroids, residuals, outlier_vector, outlier_centroids, .. } = self.layer;
        let main = (self.centroids, groups * centroids * vector);
        let residual = self.residuals.map(|part| (part, groups * residuals * vector));
        let outlier = self.outliers.map(|outliers| (outliers.centroids, outlier_centroids * outlier_vector));
        std::iter::once(main).chain(residual).chain(outlier)
    }

    /// Decodes the columns of all groups.
    fn groups(&self, indices: &[u8], rows: &Range<u64>, main: &[f32], residual: &[f32], out: &mut [f32]) -> Result<()> {
        let layer = &self.layer;
        let [main_bits, residual_bits] = layer.bits();
        let [vector, size, inputs] = [layer.vector, layer.group_size, layer.inputs].map(|size| size as usize);
        let first = rows.start / layer.vector;
        let count = (rows.end.div_ceil(layer.vector) - first) as usize;
        let row_bytes = layer.words() as usize * 4;
        let too_few = || mishandled("too few indices");
        for group in 0..layer.groups as usize {
            let main = main.get(group * layer.centroids as usize * vector..).ok_or_else(too_few)?;
            let residual = residual.get(group * layer.residuals as usize * vector..).unwrap_or_default();
            for at in 0..count {
                let start = (group * count + at) * row_bytes;
                let words = indices.get(start..start + row_bytes).ok_or_else(too_few)?;
                for column in 0..size {
                    let code = field(words, column * (main_bits + residual_bits) as usize, main_bits + residual_bits);
                    let entry = (code & ((1 << main_bits) - 1)) * vector;
                    let entry = main.get(entry..entry + vector).ok_or_else(too_few)?;
                    let input = self.input(layer.outliers as usize + group * size + column);
                    let added = (code >> main_bits) * vector;
                    let added = residual.get(added..added + vector);
                    // The last vector can have more outputs than the weight.
                    let places = out.get_mut(at * vector * inputs + input..).unwrap_or_default();
                    let places = places.iter_mut().step_by(inputs);
                    match added {
                        None => places.zip(entry).for_each(|(out, value)| *out = *value),
                        Some(added) => {
                            let values = entry.iter().zip(added).map(|(value, added)| value + added);
                            places.zip(values).for_each(|(out, value)| *out = value);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Decodes the outlier columns.
    fn outliers(&self, indices: &[u8], rows: &Range<u64>, centroids: &[f32], out: &mut [f32]) -> Result<()> {
        let layer = &self.layer;
        let [vector, count, inputs] = [layer.outlier_vector, layer.outliers, layer.inputs].map(|size| size as usize);
        let first = rows.start as usize / vector;
        for (row, out) in (rows.start as usize..).zip(out.chunks_exact_mut(inputs)) {
            for column in 0..count {
                let at = 2 * ((row / vector - first) * count + column);
                let stored = indices.get(at..).and_then(<[u8]>::first_chunk::<2>);
                let entry = stored.map(|bytes| usize::from(u16::from_le_bytes(*bytes)));
                let entry = entry.ok_or_else(|| mishandled("too few indices"))?;
                let value = centroids.get(entry * vector + row % vector).ok_or_else(|| {
                    let entries = layer.outlier_centroids;
                    AnamnesisError::parse(format!("an outlier has index {entry}; there are {entries} centroids"))
                })?;
                out[self.input(column)] = *value;
            }
        }
        Ok(())
    }
}

impl TileDecoder for Vectors {
    fn granule(&self) -> u64 {
        self.layer.vector * self.layer.inputs
    }

    fn tile_bytes(&self) -> u64 {
        tile_with_tables(self.tables().map(|((_, kind), values)| values * kind.bytes()).sum())
    }

    fn windows(&self, elements: Range<u64>, windows: &mut Vec<Window>) {
        let (rows, layer) = (self.rows(&elements), &self.layer);
        let vectors = rows.start / layer.vector..rows.end.div_ceil(layer.vector);
        let row_bytes = layer.words() * 4;
        let count = (vectors.end - vectors.start) * row_bytes;
        let stride = layer.vectors() * row_bytes;
        windows.push(Window::columns(0, vectors.start * row_bytes, count, stride, layer.groups));
        for ((part, kind), values) in self.tables() {
            windows.push(Window::run(part, 0, values * kind.bytes()));
        }
        if let Some(outliers) = self.outliers {
            let vectors = rows.start / layer.outlier_vector..rows.end.div_ceil(layer.outlier_vector);
            let row_bytes = layer.outliers * 2;
            windows.push(Window::between(outliers.indices, vectors.start * row_bytes..vectors.end * row_bytes));
        }
    }

    fn decode(
        &self,
        elements: Range<u64>,
        inputs: &[&[u8]],
        target: TargetDtype,
        out: &mut [u8],
        context: &mut Context,
    ) -> Result<usize> {
        let (level, rows) = (context.level(), self.rows(&elements));
        let (indices, mut rest) = inputs.split_first().ok_or_else(|| mishandled("no windows"))?;
        let mut tables = Vec::new();
        for ((_, kind), values) in self.tables() {
            let (stored, others) = rest.split_first().ok_or_else(|| mishandled("fewer windows than it asked for"))?;
            rest = others;
            let mut table = context.lend_floats(values as usize);
            kind.widen(level, stored, &mut table)?;
            tables.push(table);
        }
        let mut values = context.lend_floats((elements.end - elements.start) as usize);
        let residual = if self.residuals.is_some() { tables.get(1) } else { None };
        let main = tables.first().ok_or_else(|| mishandled("no centroids"))?;
        self.groups(indices, &rows, main, residual.map_or(&[], Vec::as_slice), &mut values)?;
        if let (Some(_), [indices], Some(centroids)) = (self.outliers, rest, tables.last()) {
            self.outliers(indices, &rows, centroids, &mut values)?;
        }
        let written = round_slice(level, rounded(target), &values, out);
        tables.into_iter().chain([values]).for_each(|floats| context.take_back_floats(floats));
        Ok(written)
    }

    fn describe(&self) -> String {
        let Layer { vector, centroids, residuals, .. } = self.layer;
        match residuals {
            0 => format!("VPTQ {centroids} vectors of {vector}"),
            _ => format!("VPTQ {centroids} + {residuals} vectors of {vector}"),
        }
    }
}
