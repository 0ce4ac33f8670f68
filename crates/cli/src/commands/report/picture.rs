//! Small pictures of tensors: a grid of cells with the root mean square of their values, or the values themselves.

use anamnesis::{Checkpoint, Result};

/// Cells per side.
const SIDE: usize = 64;
/// Rows that are decoded at most.
const ROWS_READ: usize = 512;

/// A picture, one byte per cell.
pub(super) struct Picture {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// The values of the bytes 0 and 255.
    pub(super) low: f32,
    pub(super) high: f32,
    pub(super) cells: Vec<u8>,
    /// Whether cells are single values.
    pub(super) is_signed: bool,
    /// Which values it is made of.
    pub(super) of: String,
}

impl Picture {
    /// The picture of a tensor as a matrix; `None` if it has no finite values.
    pub(super) fn of(checkpoint: &Checkpoint, name: &str, shape: &[usize]) -> Result<Option<Self>> {
        let Some((&first, inner)) = shape.split_first() else { return Ok(None) };
        let width: usize = inner.iter().product();
        // A vector is a single row.
        let (rows, width, is_vector) = if inner.is_empty() { (1, first, true) } else { (first, width, false) };
        if rows == 0 || width == 0 {
            return Ok(None);
        }
        let (high, wide) = (rows.min(SIDE), width.min(SIDE));
        let read = rows.min(ROWS_READ);
        let is_signed = high == rows && wide == width;
        let mut sums = vec![(0.0f64, 0u64); high * wide];
        for place in 0..read {
            // Evenly spaced, from the first row to the last.
            let row = if read > 1 { place * (rows - 1) / (read - 1) } else { 0 };
            let values: Vec<f32> = match is_vector {
                true => checkpoint.decode(name)?,
                false => checkpoint.decode_rows(name, row..row + 1)?,
            };
            let line = row * high / rows;
            for (column, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                if let Some((sum, count)) = sums.get_mut(line * wide + column * wide / width) {
                    *sum += if is_signed { f64::from(*value) } else { f64::from(*value).powi(2) };
                    *count += 1;
                }
            }
        }
        let cell = |(sum, count): &(f64, u64)| match (*count, is_signed) {
            (0, _) => 0.0,
            (_, true) => *sum as f32,
            (count, false) => (sum / count as f64).sqrt() as f32,
        };
        let cells: Vec<f32> = sums.iter().map(cell).collect();
        let low = cells.iter().copied().fold(f32::INFINITY, f32::min);
        let top = cells.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if !low.is_finite() || !top.is_finite() || sums.iter().all(|(_, count)| *count == 0) {
            return Ok(None);
        }
        let level = |value: &f32| match top > low {
            true => ((value - low) / (top - low) * 255.0).round().clamp(0.0, 255.0) as u8,
            false => 0,
        };
        let of = match (is_signed, read < rows) {
            (true, _) => "every value".to_owned(),
            (false, false) => format!("all {rows} rows of {width} values"),
            (false, true) => format!("{read} evenly spaced of {rows} rows of {width} values"),
        };
        let cells = cells.iter().map(level).collect();
        Ok(Some(Self { rows: high, columns: wide, low, high: top, cells, is_signed, of }))
    }
}
