//! How wide the page is that people read.

/// Widest help, in columns: longer lines are hard to read.
const HELP_COLUMNS: usize = 80;

/// Columns of a terminal that does not say how wide it is.
const USUAL_COLUMNS: usize = 80;

/// Columns of the page that results are drawn on: what `COLUMNS` says, or the width of the terminal. `None` where there is
/// neither, as in a pipe: nothing is cut then.
pub(crate) fn columns() -> Option<usize> {
    named(std::env::var("COLUMNS").ok().as_deref()).or_else(|| {
        let terminal = console::Term::stdout();
        terminal.is_term().then(|| {
            let size = terminal.size_checked().map(|(_, columns)| usize::from(columns));
            size.filter(|&columns| columns > 0).unwrap_or(USUAL_COLUMNS)
        })
    })
}

/// Columns that help is wrapped at.
pub(crate) fn of_help() -> usize {
    columns().map_or(HELP_COLUMNS, |columns| columns.min(HELP_COLUMNS))
}

/// What the variable says, where that is a width.
fn named(value: Option<&str>) -> Option<usize> {
    value?.trim().parse().ok().filter(|&columns| columns > 0)
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn only_widths_count() {
        assert_eq!(named(Some("40")), Some(40));
        for value in [None, Some(""), Some("0"), Some("-1"), Some("wide")] {
            assert_eq!(named(value), None, "{value:?}");
        }
    }
}
