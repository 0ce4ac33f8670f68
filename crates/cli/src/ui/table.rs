//! Tables fitted to the width of the terminal.

use anamnesis::error::printable;

use super::shades::ellipsis;
use super::style::Style;

/// Spaces between columns.
const GAP: usize = 2;
/// Minimum width of a flexible column.
const MIN_FLEXIBLE: usize = 10;
/// Minimum width of a wrapped column.
const MIN_WRAPPED: usize = 20;
/// Maximum characters of a cell; names come from files.
const MAX_CELL_CHARS: usize = 512;

/// Alignment of a column, with its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Left(&'static str),
    Right(&'static str),
    /// Left-aligned, and cut in the middle if the terminal is too narrow.
    Flexible(&'static str),
    /// Left-aligned, the last column, and wrapped between words if the terminal is too narrow.
    Wrapped(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Left(title) | Self::Right(title) | Self::Flexible(title) | Self::Wrapped(title) => title,
        }
    }
}

/// The width and style of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// Width in characters.
    pub(crate) columns: usize,
    pub(crate) style: Style,
}

/// A table; cells are escaped for a terminal when they are added.
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

    /// Removes columns after the first that are equal in every row, and returns their content as text. Flexible and
    /// numeric columns stay.
    pub(crate) fn without_constants(mut self) -> (Self, Option<String>) {
        let is_constant = |index: usize, column: &Column| {
            let mut cells = self.rows.iter().skip(1).filter_map(|row| row.get(index));
            let first = cells.next();
            index > 0
                && self.rows.len() > 2
                && matches!(column, Column::Left(_))
                && cells.all(|cell| Some(cell) == first)
        };
        let constant: Vec<bool> =
            self.columns.iter().enumerate().map(|(index, column)| is_constant(index, column)).collect();
        let constants = self.columns.iter().zip(&constant).enumerate().filter(|(_, (_, is_constant))| **is_constant);
        let constants = constants.filter_map(|(index, (column, _))| {
            Some(format!("{} {}", column.title().to_lowercase(), self.rows.get(1)?.get(index)?))
        });
        let constants = constants.collect::<Vec<_>>().join(", ");
        let mut flags = constant.iter().copied();
        self.columns.retain(|_| !flags.next().unwrap_or(false));
        for row in &mut self.rows {
            let mut flags = constant.iter().copied();
            row.retain(|_| !flags.next().unwrap_or(false));
        }
        (self, (!constants.is_empty()).then_some(constants))
    }

    /// The table without a final line break, no wider than the page if its columns can shrink that far.
    pub(crate) fn render(&self, page: Page) -> String {
        let widths = self.widths(page.columns);
        let mut lines = Vec::with_capacity(self.rows.len());
        for (index, row) in self.rows.iter().enumerate() {
            let (mut line, mut more) = (String::new(), Vec::new());
            for ((cell, column), &width) in row.iter().zip(&self.columns).zip(&widths) {
                let cell = match column {
                    Column::Wrapped(_) => {
                        let indent = line.chars().count();
                        let mut pieces = wrap_words(cell, width).into_iter();
                        let first = pieces.next().unwrap_or_default();
                        more.extend(pieces.map(|piece| format!("{:indent$}{piece}", "")));
                        first
                    }
                    _ => cut_middle(cell, width),
                };
                match column {
                    Column::Right(_) => line += &format!("{cell:>width$}"),
                    _ => line += &format!("{cell:<width$}"),
                }
                line += &" ".repeat(GAP);
            }
            let line = line.trim_end();
            lines.push(if index == 0 { page.style.heading(line).to_string() } else { line.to_owned() });
            lines.append(&mut more);
        }
        lines.join("\n")
    }

    /// Whether some cell is cut on this page.
    pub(crate) fn is_cut(&self, page: Page) -> bool {
        self.widths(page.columns) != self.natural_widths()
    }

    fn natural_widths(&self) -> Vec<usize> {
        let natural = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..self.columns.len()).map(natural).collect()
    }

    fn widths(&self, limit: usize) -> Vec<usize> {
        let mut widths = self.natural_widths();
        let gaps = GAP * widths.len().saturating_sub(1);
        let all = widths.iter().sum::<usize>() + gaps;
        if let (Some(Column::Wrapped(_)), Some(last)) = (self.columns.last(), widths.last_mut()) {
            *last = last.saturating_sub(all.saturating_sub(limit)).max((*last).min(MIN_WRAPPED));
        }
        // The widest flexible column shrinks first, one character at a time.
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

/// `text` in at most `width` characters. Numbers stay complete, as they identify layers; the longest text between
/// them is cut in the middle.
fn cut_middle(text: &str, width: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= width {
        return text.to_owned();
    }
    // Alternating digits and other text, each with the number of characters shown.
    let mut pieces: Vec<(&[char], usize)> = characters
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .map(|piece| (piece, piece.len()))
        .collect();
    let mut excess = characters.len() - width;
    while excess > 0 {
        let is_text = |piece: &[char]| piece.first().is_some_and(|first| !first.is_ascii_digit());
        let longest =
            pieces.iter_mut().rev().filter(|(piece, shown)| is_text(piece) && *shown > 1).max_by_key(|piece| piece.1);
        let Some((_, shown)) = longest else { break };
        // The ellipsis takes the place of a character.
        *shown -= 1;
        excess -= 1;
    }
    let mut cut = String::new();
    for (piece, shown) in pieces {
        if shown == piece.len() {
            cut.extend(piece);
            continue;
        }
        let kept = shown.saturating_sub(1);
        cut.extend(&piece[..kept / 2]);
        cut.push(ellipsis());
        cut.extend(&piece[piece.len() - (kept - kept / 2)..]);
    }
    cut
}

/// `text` in lines of at most `width` characters, wrapped between words if possible.
fn wrap_words(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(columns: usize) -> Page {
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
        assert_eq!(table().render(page(80)), wanted);
    }

    #[test]
    fn a_narrow_terminal_cuts_the_middle_of_names() {
        let text = table().render(page(40));
        assert!(text.contains("mode…yers.17.mlp.…eight"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn a_wrapped_column_is_broken_between_words() {
        let mut table = Table::new([Column::Left("NAME"), Column::Wrapped("ABOUT")]);
        table.row(["GPTQ".into(), "two to eight bits, activation order, both formats".into()]);
        let wanted = "NAME  ABOUT\nGPTQ  two to eight bits,\n      activation order, both\n      formats";
        assert_eq!(table.render(page(30)), wanted);
        assert_eq!(table.render(page(usize::MAX)).lines().count(), 2);
        assert!(table.render(page(1)).lines().all(|line| line.chars().count() <= 6 + MIN_WRAPPED));
    }

    #[test]
    fn a_terminal_without_room_still_gets_every_row() {
        assert_eq!(table().render(page(1)).lines().count(), 3);
    }

    #[test]
    fn cells_cannot_steer_a_terminal() {
        let mut table = Table::new([Column::Left("NAME")]);
        table.row(["a\u{1b}[2J\nb".into()]);
        assert_eq!(table.render(page(80)), "NAME\na\\u{1b}[2J\\u{a}b");
    }

    #[test]
    fn the_ends_of_a_cut_text_stay() {
        assert_eq!(cut_middle("abcdefghij", 5), "ab…ij");
        assert_eq!(cut_middle("größe", 5), "größe");
        assert_eq!(cut_middle("abc", 0), "…");
    }

    #[test]
    fn numbers_in_names_are_never_cut() {
        let name = "model.language_model.layers.117.mlp.experts.63.down_proj.weight_scale_inv";
        for width in 0..name.len() {
            let cut = cut_middle(name, width);
            assert!(cut.contains("117") && cut.contains("63"), "{cut}");
            assert!(cut.chars().count() <= width.max("…117…63…".chars().count()), "{cut}");
        }
    }

    #[test]
    fn equal_columns_are_stated_once() {
        let (table, constants) = table().without_constants();
        assert_eq!((table.columns.len(), constants), (3, None));
        let mut table = Table::new([Column::Flexible("NAME"), Column::Left("DTYPE"), Column::Left("ROLE")]);
        table.row(["a".into(), "F32".into(), "scale".into()]);
        table.row(["b".into(), "F32".into(), "scale".into()]);
        let (table, constants) = table.without_constants();
        assert_eq!(
            (table.render(page(80)).as_str(), constants.as_deref()),
            ("NAME\na\nb", Some("dtype F32, role scale"))
        );
    }
}
