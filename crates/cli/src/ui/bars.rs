//! Bars for shares of a whole, in block characters or in ASCII.

/// Eighths of a block, from one to eight.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar for `part` of `whole`, padded to `width` characters. A part above zero is visible.
pub(crate) fn bar(part: u64, whole: u64, width: usize) -> String {
    draw(part, whole, width, is_unicode())
}

fn draw(part: u64, whole: u64, width: usize, is_unicode: bool) -> String {
    let steps = if is_unicode { 8 } else { 1 };
    let share = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let least = usize::from(part > 0);
    let filled = ((share * (width * steps) as f64).round() as usize).clamp(least, width * steps);
    let (full, rest) = (filled / steps, filled % steps);
    let block = if is_unicode { '█' } else { '#' };
    let mut bar: String = std::iter::repeat_n(block, full).collect();
    bar.extend(rest.checked_sub(1).and_then(|eighth| EIGHTHS.get(eighth)));
    let used = full + usize::from(rest > 0);
    bar + &" ".repeat(width.saturating_sub(used))
}

/// A share of a whole in percent, in five characters.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    if share < 99.95 { format!("{share:4.1}%") } else { format!("{share:4.0}%") }
}

/// Whether the locale has Unicode; it is assumed if there is none.
pub(super) fn is_unicode() -> bool {
    has_unicode(|name| std::env::var(name).ok())
}

fn has_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| variable(name).filter(|text| !text.is_empty()));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(draw(1, 2, 4, true), "██  ");
        assert_eq!(draw(5, 32, 4, true), "▋   ");
        assert_eq!(draw(4, 4, 4, true), "████");
        assert_eq!(draw(1, 1_000_000, 4, true), "▏   ");
        assert_eq!(draw(0, 4, 4, true), "    ");
        assert_eq!(draw(0, 0, 2, true), "  ");
        assert_eq!(draw(u64::MAX, 1, 3, true), "███");
        assert_eq!(draw(1, 2, 4, false), "##  ");
        assert_eq!(draw(1, 1000, 4, false), "#   ");
    }

    #[test]
    fn shares_have_one_decimal() {
        assert_eq!((percent(1, 3), percent(1, 1), percent(0, 0)), ("33.3%".into(), " 100%".into(), " 0.0%".into()));
    }

    #[test]
    fn the_locale_decides_the_characters() {
        let with =
            |known: &'static str, value: &'static str| move |name: &str| (name == known).then(|| value.to_owned());
        assert!(
            has_unicode(|_| None) && has_unicode(with("LANG", "de_DE.UTF-8")) && has_unicode(with("LC_ALL", "C.utf8"))
        );
        assert!(!has_unicode(with("LC_ALL", "C")) && !has_unicode(with("LANG", "POSIX")));
    }
}
