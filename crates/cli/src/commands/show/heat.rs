//! A matrix reduced to a grid: every cell has the mean of a region.

use super::values::Selected;
use crate::exit::Failure;
use crate::ui::Printer;
use crate::ui::number::short;
use crate::ui::shades::{colour, shade};

/// Cells of a map in the terminal.
const MAP_ROWS: u64 = 20;
const PAGE_COLUMNS: usize = 80;
const MAX_MAP_COLUMNS: u64 = 160;

/// Means of regions of a matrix.
pub(super) struct Grid {
    pub rows: u64,
    pub columns: u64,
    /// The mean of each region, row by row; `None` if it has no finite value.
    pub means: Vec<Option<f64>>,
}

impl Grid {
    /// Reduces the first matrix of a selection to at most `rows` by `columns`, of magnitudes or of signed values.
    pub(super) fn of(
        selected: &mut Selected<'_>,
        [most_rows, most_columns]: [u64; 2],
        is_signed: bool,
    ) -> Result<Self, Failure> {
        let (all_rows, all_columns, _) = selected.matrix();
        let (rows, columns) = (all_rows.min(most_rows), all_columns.min(most_columns));
        let mut sums = vec![(0.0, 0u64); (rows * columns) as usize];
        let (each, is_dense) = (selected.reading.each(), selected.is_dense());
        for row in 0..all_rows {
            let line = (scaled(row, all_rows, rows) * columns) as usize;
            for piece in selected.pieces() {
                let bytes = selected.row(row, piece.clone(), is_dense)?;
                for (column, bytes) in piece.zip(bytes.chunks(each)) {
                    let value = selected.reading.number(bytes).float().filter(|value| value.is_finite());
                    if let Some(value) = value
                        && let Some((sum, count)) = sums.get_mut(line + scaled(column, all_columns, columns) as usize)
                    {
                        *sum += if is_signed { value } else { value.abs() };
                        *count += 1;
                    }
                }
            }
        }
        let means = sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / count as f64)).collect();
        Ok(Self { rows, columns, means })
    }

    /// The largest magnitude of a mean.
    pub(super) fn largest(&self) -> f64 {
        self.means.iter().flatten().fold(0.0, |largest: f64, mean| largest.max(mean.abs()))
    }
}

/// The place of `index` of `all` among `parts`.
fn scaled(index: u64, all: u64, parts: u64) -> u64 {
    (u128::from(index) * u128::from(parts) / u128::from(all.max(1))) as u64
}

/// Draws the magnitudes of a matrix.
pub(super) fn print(selected: &mut Selected<'_>, printer: &Printer) -> Result<(), Failure> {
    let (rows, columns, _) = selected.matrix();
    if selected.len() == 0 {
        return printer.text("(no values)");
    }
    let page = printer.page();
    let width = if page.columns == usize::MAX { PAGE_COLUMNS } else { page.columns };
    let grid = Grid::of(selected, [MAP_ROWS, (width as u64).clamp(1, MAX_MAP_COLUMNS)], false)?;
    let largest = grid.largest();
    for line in grid.means.chunks(grid.columns as usize) {
        let mut text = String::new();
        for mean in line {
            match mean {
                None => text.push('?'),
                Some(mean) => {
                    let share = if largest > 0.0 { mean / largest } else { 0.0 };
                    text += &page.style.filled(shade(share), colour(share));
                }
            }
        }
        printer.text(text)?;
    }
    let region = format!("{} x {}", rows.div_ceil(grid.rows), columns.div_ceil(grid.columns));
    let ends = if page.style.is_coloured() { ["dark is 0", "bright"] } else { ["blank is 0", "full"] };
    printer.text(format_args!("mean magnitudes of up to {region} values: {} is {}", ends.join(", "), short(largest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_cover_everything_evenly() {
        let places: Vec<u64> = (0..10).map(|index| scaled(index, 10, 4)).collect();
        assert_eq!(places, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]);
        assert_eq!(scaled(u64::MAX - 1, u64::MAX, 7), 6);
    }
}
