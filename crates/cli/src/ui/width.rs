//! The width of the terminal.

/// Maximum width of help texts.
const HELP_COLUMNS: usize = 80;

/// Default width of a terminal.
const DEFAULT_COLUMNS: usize = 80;

/// The width for results: `COLUMNS`, or that of the terminal. `None` if there is neither, as in a pipe: then nothing
/// is cut.
pub(crate) fn columns() -> Option<usize> {
    parse_columns(std::env::var("COLUMNS").ok().as_deref()).or_else(|| {
        let terminal = console::Term::stdout();
        terminal.is_term().then(|| {
            let size = terminal.size_checked().map(|(_, columns)| usize::from(columns));
            size.filter(|&columns| columns > 0).unwrap_or(DEFAULT_COLUMNS)
        })
    })
}

/// The width for help texts.
pub(crate) fn help_columns() -> usize {
    columns().map_or(HELP_COLUMNS, |columns| columns.min(HELP_COLUMNS))
}

/// The value of the variable, if it is a width.
fn parse_columns(value: Option<&str>) -> Option<usize> {
    value?.trim().parse().ok().filter(|&columns| columns > 0)
}

#[cfg(test)]
mod tests {
    use super::parse_columns;

    #[test]
    fn only_valid_widths_count() {
        assert_eq!(parse_columns(Some("40")), Some(40));
        for value in [None, Some(""), Some("0"), Some("-1"), Some("wide")] {
            assert_eq!(parse_columns(value), None, "{value:?}");
        }
    }
}
