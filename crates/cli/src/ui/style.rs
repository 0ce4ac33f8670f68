//! Colours: on terminals, unless disabled.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::IsTerminal;

use clap::ColorChoice;

/// The style of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    is_coloured: bool,
}

impl Style {
    /// Without colours.
    pub(crate) const PLAIN: Self = Self { is_coloured: false };

    pub(crate) fn of(choice: ColorChoice, stream: &impl IsTerminal) -> Self {
        let is_coloured = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => return Self::PLAIN,
            ColorChoice::Auto => stream.is_terminal() && allows_colour(|name| std::env::var_os(name)),
        };
        Self { is_coloured }
    }

    /// The first word of a failure.
    pub(crate) fn error(self, text: &str) -> impl Display {
        self.apply(console::Style::new().red().bold(), text)
    }

    pub(crate) fn heading(self, text: &str) -> impl Display {
        self.apply(console::Style::new().bold(), text)
    }

    /// Text besides the result.
    pub(crate) fn detail(self, text: &str) -> impl Display {
        self.apply(console::Style::new().dim(), text)
    }

    /// Bars and other marks of size.
    pub(crate) fn bar(self, text: &str) -> impl Display {
        self.apply(console::Style::new().cyan(), text)
    }

    /// Whether there are colours.
    pub(crate) const fn is_coloured(self) -> bool {
        self.is_coloured
    }

    /// A cell of a picture: a colour of the 256-colour palette, or a character without colours.
    pub(crate) fn filled(self, character: char, colour: u8) -> String {
        match self.is_coloured {
            true => self.apply(console::Style::new().on_color256(colour), " ").to_string(),
            false => character.to_string(),
        }
    }

    fn apply(self, style: console::Style, text: &str) -> impl Display {
        style.force_styling(self.is_coloured).apply_to(text.to_owned())
    }
}

/// Whether the environment allows colours: <https://no-color.org>, and not a dumb terminal.
fn allows_colour(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    variable("NO_COLOR").is_none_or(|value| value.is_empty()) && variable("TERM").is_none_or(|value| value != "dumb")
}

/// The colour choice in raw arguments, for messages about arguments that do not parse.
pub(crate) fn choice_in(arguments: &[OsString]) -> ColorChoice {
    let texts: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let next = texts.iter().skip(1).map(AsRef::as_ref).chain([""]);
    let values = texts.iter().zip(next).filter_map(|(text, next)| match text.strip_prefix("--color") {
        Some("") => Some(next.to_owned()),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    });
    values.last().and_then(|value| value.parse().ok()).unwrap_or(ColorChoice::Auto)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_can_disable_colours() {
        let with =
            |known: &'static str, value: &'static str| move |name: &str| (name == known).then(|| OsString::from(value));
        assert!(allows_colour(|_| None) && allows_colour(with("NO_COLOR", "")) && allows_colour(with("TERM", "xterm")));
        assert!(!allows_colour(with("NO_COLOR", "1")) && !allows_colour(with("TERM", "dumb")));
    }

    #[test]
    fn the_choice_is_found_among_raw_arguments() {
        let choice = |line: &str| choice_in(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(choice("amn --color never frobnicate"), ColorChoice::Never);
        assert_eq!(choice("amn frobnicate --color=always"), ColorChoice::Always);
        assert_eq!(choice("amn parse --colour x --color"), ColorChoice::Auto);
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        assert_eq!(Style::PLAIN.error("error:").to_string(), "error:");
        let always = Style::of(ColorChoice::Always, &std::io::stderr());
        assert_eq!(always.error("error:").to_string(), "\u{1b}[31m\u{1b}[1merror:\u{1b}[0m");
        assert_eq!(Style::of(ColorChoice::Never, &std::io::stderr()), Style::PLAIN);
    }
}
