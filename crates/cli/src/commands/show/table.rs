//! Values as a table that fits the page: the first and the last rows and columns.

use super::values::{Number, Selected};
use crate::exit::Failure;
use crate::ui::Printer;
use crate::ui::number::digits;
use crate::ui::shades::ellipsis;

/// Rows of a table.
const ROWS: u64 = 20;
/// Columns of a page without a width.
const PAGE_COLUMNS: usize = 80;
/// Significant digits of a value.
const DIGITS: usize = 5;
/// Most columns of a table.
const MAX_COLUMNS: u64 = 64;

/// Prints the first matrix of the selection.
pub(super) fn print(selected: &mut Selected<'_>, printer: &Printer) -> Result<(), Failure> {
    let (rows, columns, _) = selected.matrix();
    if selected.len() == 0 {
        return printer.text("(no values)");
    }
    let page = printer.page().columns;
    let page = if page == usize::MAX { PAGE_COLUMNS } else { page };
    // A vector is printed as lines of as many values as fit.
    let is_vector = selected.shape().len() < 2;
    let shown_rows = ends(rows, ROWS);
    // As many columns as the widest cells allow: cells are not known before they are read.
    let mut most = columns.min(MAX_COLUMNS);
    if is_vector {
        return vector(selected, columns, page, printer);
    }
    let labels: Vec<String> =
        shown_rows.iter().map(|row| index_text(row.map(|row| selected.indices(row, 0).0))).collect();
    let label = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0) + 1;
    loop {
        let shown_columns = ends(columns, most);
        let cells = cells(selected, &shown_rows, &shown_columns)?;
        let titles: Vec<String> =
            shown_columns.iter().map(|column| index_text(column.map(|column| selected.indices(0, column).1))).collect();
        let widths = widths(&cells, &titles);
        let total: usize = label + widths.iter().map(|width| width + 2).sum::<usize>();
        if total > page && most > 1 {
            // Narrower by the share that does not fit, and at least by one column.
            most = (most * page as u64 / total as u64).clamp(1, most - 1);
            continue;
        }
        printer.text(printer.page().style.heading(&line("", label, &titles, &widths)))?;
        for (row, cells) in labels.iter().zip(&cells) {
            printer.text(line(row, label, cells, &widths))?;
        }
        return Ok(());
    }
}

/// Prints a vector, a few values per line.
fn vector(selected: &mut Selected<'_>, count: u64, page: usize, printer: &Printer) -> Result<(), Failure> {
    let per_line = ((page.saturating_sub(8)) as u64 / 11).clamp(1, 10);
    let lines = count.div_ceil(per_line);
    let ends_of = [0, count.saturating_sub(1)].map(|column| selected.indices(0, column).1.to_string().len());
    let label = ends_of.into_iter().max().unwrap_or(0) + 1;
    for line_number in ends(lines, ROWS) {
        let Some(number) = line_number else {
            printer.text(ellipsis())?;
            continue;
        };
        let first = number * per_line;
        let (_, index) = selected.indices(0, first);
        let columns: Vec<Option<u64>> = (first..(first + per_line).min(count)).map(Some).collect();
        let cells = cells(selected, &[Some(0)], &columns)?.pop().unwrap_or_default();
        let widths = vec![9; cells.len()];
        printer.text(line(&index.to_string(), label, &cells, &widths))?;
    }
    Ok(())
}

/// The first and the last of `count` indices, with `None` between them if some are left out.
fn ends(count: u64, most: u64) -> Vec<Option<u64>> {
    if count <= most {
        return (0..count).map(Some).collect();
    }
    let tail = most / 2;
    let head = most - tail;
    (0..head).map(Some).chain([None]).chain((count - tail..count).map(Some)).collect()
}

fn index_text(index: Option<u64>) -> String {
    index.map_or_else(|| ellipsis().to_string(), |index| index.to_string())
}

/// The cells of these rows and columns.
fn cells(
    selected: &mut Selected<'_>,
    rows: &[Option<u64>],
    columns: &[Option<u64>],
) -> Result<Vec<Vec<String>>, Failure> {
    let mut all = Vec::with_capacity(rows.len());
    let each = selected.reading.each();
    for row in rows {
        let Some(row) = *row else {
            all.push(columns.iter().map(|_| ellipsis().to_string()).collect());
            continue;
        };
        let mut cells = Vec::with_capacity(columns.len());
        // Runs of columns between ellipses.
        for run in columns.chunk_by(|a, b| a.is_some() == b.is_some()) {
            match (run.first(), run.last()) {
                (Some(Some(first)), Some(Some(last))) => {
                    let bytes = selected.row(row, *first..last + 1, false)?;
                    cells.extend(bytes.chunks(each).map(|bytes| cell(&selected.reading.number(bytes))));
                }
                _ => cells.extend(run.iter().map(|_| ellipsis().to_string())),
            }
        }
        all.push(cells);
    }
    Ok(all)
}

fn cell(number: &Number) -> String {
    match number {
        Number::Float(value) => digits(*value, DIGITS),
        Number::Integer(value) => value.to_string(),
        Number::Code(code) => code.clone(),
    }
}

fn widths(cells: &[Vec<String>], titles: &[String]) -> Vec<usize> {
    let width = |(place, title): (usize, &String)| {
        let cells = cells.iter().filter_map(|row| row.get(place)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(title.chars().count())
    };
    titles.iter().enumerate().map(width).collect()
}

fn line(label: &str, label_width: usize, cells: &[String], widths: &[usize]) -> String {
    let mut line = format!("{label:<label_width$}");
    for (cell, width) in cells.iter().zip(widths) {
        line += &format!("  {cell:>width$}");
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_left_out() {
        assert_eq!(ends(3, 3), [Some(0), Some(1), Some(2)]);
        assert_eq!(ends(10, 3), [Some(0), Some(1), None, Some(9)]);
        assert_eq!(ends(10, 1), [Some(0), None]);
        assert_eq!(ends(0, 3), []);
    }
}
