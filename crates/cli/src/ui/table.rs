//! Rows in columns that fit the terminal.

use anamnesis::error::printable;

use super::style::Style;

/// Spaces between columns.
const GAP: usize = 2;
/// A shrinking column keeps this many characters.
const MIN_FLEXIBLE: usize = 10;
/// Longest cell, in characters: names come from files.
const MAX_CELL_CHARS: usize = 512;

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Left(&'static str),
    Right(&'static str),
    /// Left, and cut in the middle where the terminal is too narrow.
    Flexible(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Left(title) | Self::Right(title) | Self::Flexible(title) => title,
        }
    }
}

/// What a table is drawn on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// Columns of the terminal; `None` where it is none, and lines may be as long as they like.
    pub(crate) columns: Option<usize>,
    pub(crate) style: Style,
}

/// Text in columns; cells are made safe for a terminal as they come in.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        let columns = columns.into();
        let titles = columns.iter().map(|column| column.title().to_owned()).collect();
        Self { columns, rows: vec![titles] }
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into().iter().map(|cell| printable(cell, MAX_CELL_CHARS)).collect());
    }

    /// The table without a last line break, no wider than the page where its columns can shrink that far.
    pub(crate) fn render(&self, page: Page) -> String {
        let widths = self.widths(page.columns);
        let mut lines = Vec::with_capacity(self.rows.len());
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for ((cell, column), &width) in row.iter().zip(&self.columns).zip(&widths) {
                let cell = cut_middle(cell, width);
                match column {
                    Column::Right(_) => line += &format!("{cell:>width$}"),
                    _ => line += &format!("{cell:<width$}"),
                }
                line += &" ".repeat(GAP);
            }
            let line = line.trim_end();
            lines.push(if index == 0 { page.style.heading(line).to_string() } else { line.to_owned() });
        }
        lines.join("\n")
    }

    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let natural = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(natural).collect();
        let Some(limit) = limit else { return widths };
        let gaps = GAP * widths.len().saturating_sub(1);
        // The widest column gives way first, a character at a time, until all flexible ones are narrow.
        while widths.iter().sum::<usize>() + gaps > limit {
            let flexible = widths.iter_mut().zip(&self.columns);
            let widest = flexible
                .filter(|(width, column)| matches!(column, Column::Flexible(_)) && **width > MIN_FLEXIBLE)
                .max_by_key(|(width, _)| **width);
            match widest {
                Some((width, _)) => *width -= 1,
                None => break,
            }
        }
        widths
    }
}

/// `text` in at most `width` characters; what is cut is its middle, since the ends of tensor names tell them apart.
fn cut_middle(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head: String = text.chars().take(kept / 2).collect();
    let tail: String = text.chars().skip(count - (kept - kept / 2)).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(columns: Option<usize>) -> Page {
        Page { columns, style: Style::PLAIN }
    }

    fn table() -> Table {
        let mut table = Table::new([Column::Flexible("NAME"), Column::Left("DTYPE"), Column::Right("SIZE")]);
        table.row(["model.layers.17.mlp.down_proj.weight".into(), "F8_E4M3".into(), "2 B".into()]);
        table.row(["b".into(), "F32".into(), "1023 B".into()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let wanted = "NAME                                  DTYPE      SIZE\n\
                      model.layers.17.mlp.down_proj.weight  F8_E4M3     2 B\n\
                      b                                     F32      1023 B";
        assert_eq!(table().render(page(None)), wanted);
    }

    #[test]
    fn a_narrow_terminal_cuts_the_middle_of_names() {
        let text = table().render(page(Some(40)));
        assert!(text.contains("model.layer…proj.weight"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn a_terminal_without_room_still_gets_every_row() {
        assert_eq!(table().render(page(Some(1))).lines().count(), 3);
    }

    #[test]
    fn cells_cannot_steer_a_terminal() {
        let mut table = Table::new([Column::Left("NAME")]);
        table.row(["a\u{1b}[2J\nb".into()]);
        assert_eq!(table.render(page(None)), "NAME\na\\u{1b}[2J\\u{a}b");
    }

    #[test]
    fn the_ends_of_a_cut_text_stay() {
        assert_eq!(cut_middle("abcdefghij", 5), "ab…ij");
        assert_eq!(cut_middle("größe", 5), "größe");
        assert_eq!(cut_middle("abc", 0), "…");
    }
}
